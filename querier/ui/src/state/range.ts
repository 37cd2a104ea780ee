/* Times as the server reads them: now, now-90m, seconds or milliseconds; and as people type them. */

export const SECOND_MS = 1000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

const UNIT_MS: Record<string, number> = {
  s: SECOND_MS,
  m: MINUTE_MS,
  h: HOUR_MS,
  d: DAY_MS,
  w: 7 * DAY_MS,
  M: 30 * DAY_MS,
  y: 365 * DAY_MS,
};
/* Units per millisecond by the number of digits, as the server has it (common/base/timespec.h); all else are seconds. */
const EPOCH_PER_MS: Record<number, number> = { 12: 1, 13: 1, 15: 1e3, 16: 1e3, 18: 1e6, 19: 1e6 };

export interface Range {
  from: string;
  until: string;
}

export const PRESETS: readonly { from: string; label: string }[] = [
  { from: "now-5m", label: "Last 5 minutes" },
  { from: "now-15m", label: "Last 15 minutes" },
  { from: "now-30m", label: "Last 30 minutes" },
  { from: "now-1h", label: "Last 1 hour" },
  { from: "now-3h", label: "Last 3 hours" },
  { from: "now-6h", label: "Last 6 hours" },
  { from: "now-12h", label: "Last 12 hours" },
  { from: "now-1d", label: "Last 1 day" },
  { from: "now-2d", label: "Last 2 days" },
  { from: "now-7d", label: "Last 7 days" },
  { from: "now-30d", label: "Last 30 days" },
];

/* Eight digits are a date if the calendar has it. */
function epochMs(text: string): number {
  const date = /^(\d{4})(\d\d)(\d\d)$/.exec(text);
  if (date !== null && Number(date[1]) > 1900) {
    const [year, month, day] = date.slice(1).map(Number) as [number, number, number];
    const ms = Date.UTC(year, month - 1, day);
    if (new Date(ms).getUTCMonth() === month - 1 && new Date(ms).getUTCDate() === day) return ms;
  }
  return Math.round(Number(text) / (EPOCH_PER_MS[text.split(".")[0]!.length] ?? 1e-3));
}

/* Returns milliseconds, or NaN. Local text such as "2026-04-14 14:20" is read in the zone of the page. */
export function toMs(text: string, nowMs: number, utc = false): number {
  const trimmed = text.trim();
  const relative = /^now(?:\s*([-+])\s*(\d+(?:\.\d+)?)\s*([smhdwMy]))?$/.exec(trimmed);
  if (relative !== null) {
    const [, sign, amount, unit] = relative;
    if (sign === undefined) return nowMs;
    return Math.round(nowMs + (sign === "-" ? -1 : 1) * Number(amount) * UNIT_MS[unit!]!);
  }
  if (/^\d{8,}(\.\d+)?$/.test(trimmed)) return epochMs(trimmed);
  const local = /^(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?)?$/.exec(trimmed);
  if (local !== null) {
    const [year, month, day, hour, minute, second] = local.slice(1).map((part) => Number(part ?? 0)) as number[];
    return utc
      ? Date.UTC(year!, month! - 1, day!, hour!, minute!, second!)
      : new Date(year!, month! - 1, day!, hour!, minute!, second!).getTime();
  }
  return /^\d{4}-\d\d-\d\dT/.test(trimmed) ? Date.parse(trimmed) : NaN;
}

/* Both ends in milliseconds; a range that makes no sense is the last hour. */
export function resolve(range: Range, nowMs: number, utc = false): [number, number] {
  const from = toMs(range.from, nowMs, utc);
  const until = toMs(range.until, nowMs, utc);
  return from < until ? [from, until] : [nowMs - HOUR_MS, nowMs];
}

export function isRelative(range: Range): boolean {
  return range.from.startsWith("now") || range.until.startsWith("now");
}

export function isValid(range: Range, nowMs: number, utc = false): boolean {
  return toMs(range.from, nowMs, utc) < toMs(range.until, nowMs, utc);
}

function pad(number: number): string {
  return String(number).padStart(2, "0");
}

/* "2026-04-14 14:20:05", without seconds if they are zero. */
export function dateTime(ms: number, utc: boolean): string {
  const date = new Date(ms);
  const [y, mo, d, h, mi, s] = utc
    ? [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
    : [date.getFullYear(), date.getMonth(), date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds()];
  return `${y}-${pad(mo! + 1)}-${pad(d!)} ${pad(h!)}:${pad(mi!)}${s === 0 ? "" : `:${pad(s!)}`}`;
}

/* What the range's button says. */
export function rangeLabel(range: Range, nowMs: number, utc: boolean): string {
  const preset = range.until === "now" ? PRESETS.find((one) => one.from === range.from) : undefined;
  if (preset !== undefined) return preset.label;
  if (range.until === "now" && range.from.startsWith("now-")) return `Last ${range.from.slice(4)}`;
  const [from, until] = resolve(range, nowMs, utc);
  const end = dateTime(until, utc);
  const start = dateTime(from, utc);
  return `${start} – ${start.slice(0, 10) === end.slice(0, 10) ? end.slice(11) : end}`;
}

/* Moves a range by half its length (steps of -1 or 1); it becomes absolute, except that one that ends now stays now. */
export function shifted(range: Range, steps: number, nowMs: number): Range {
  const [from, until] = resolve(range, nowMs);
  const by = Math.round(((until - from) / 2) * steps);
  return { from: String(from + by), until: String(until + by) };
}

/* Widens (factor > 1) or narrows around the middle; a range up to now keeps its end. */
export function scaled(range: Range, factor: number, nowMs: number): Range {
  const [from, until] = resolve(range, nowMs);
  const length = Math.max(Math.round((until - from) * factor), 10 * SECOND_MS);
  if (range.until === "now") {
    const seconds = Math.round(length / SECOND_MS);
    return { from: seconds % 60 === 0 ? `now-${seconds / 60}m` : `now-${seconds}s`, until: "now" };
  }
  const middle = (from + until) / 2;
  return { from: String(Math.round(middle - length / 2)), until: String(Math.round(middle + length / 2)) };
}
