/* Numbers as people read them. All are made for one line: three digits, a space that does not break, a unit. */

const SPACE = "\u00a0";

export type Unit = "ns" | "bytes" | "count";

/* The unit of a profile type id (`name:sample type:unit:…`), or of what a flame graph says of itself. */
export function unitOf(text: string): Unit {
  const parts = text.split(":");
  const unit = (parts.length >= 3 ? parts[2]! : text).toLowerCase();
  if (unit === "nanoseconds" || unit === "ns") return "ns";
  if (unit === "bytes" || unit === "byte") return "bytes";
  return "count";
}

/* metadata of /pyroscope/render: CPU time is said as samples at a rate of 10^9 a second. */
export function unitOfMetadata(units: string, sampleRate: number): Unit {
  return units === "samples" && sampleRate === 1e9 ? "ns" : unitOf(units);
}

function digits(value: number): string {
  const size = Math.abs(value);
  const places = size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;
  return trim(value.toFixed(places));
}

/* 3.40 stays as it is, so that columns do not jump; 0.00 and 5.00 do not say more than 0 and 5. */
function trim(text: string): string {
  return text.replace(/\.0+$/, "");
}

function scaled(value: number, steps: readonly (readonly [number, string])[]): string {
  const size = Math.abs(value);
  /* As it will be rounded: 999.7 ms is 1 s. */
  for (const [factor, name] of steps) if (size >= factor * 0.9995) return `${digits(value / factor)}${name === "" ? "" : SPACE + name}`;
  const [factor, name] = steps[steps.length - 1]!;
  return `${digits(value / factor)}${name === "" ? "" : SPACE + name}`;
}

const DURATION: readonly (readonly [number, string])[] = [
  [365.25 * 86400e9, "y"],
  [100 * 3600e9, "d"],
  [3600e9, "h"],
  [60e9, "min"],
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];
const BYTES: readonly (readonly [number, string])[] = [
  [2 ** 50, "PiB"],
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
  [1, "B"],
];
const COUNT: readonly (readonly [number, string])[] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e4, "k"],
];

export function formatValue(value: number, unit: Unit): string {
  if (!Number.isFinite(value)) return "–";
  switch (unit) {
    case "ns":
      if (Math.abs(value) >= 100 * 3600e9 && Math.abs(value) < 365.25 * 86400e9 * 0.9995) return `${digits(value / 86400e9)}${SPACE}d`;
      return scaled(value, DURATION);
    case "bytes":
      return scaled(value, BYTES);
    case "count":
      return formatCount(value);
  }
}

export function formatCount(value: number): string {
  const size = Math.abs(value);
  if (size >= 9999.5) {
    for (const [factor, name] of COUNT) {
      const least = factor === 1e4 ? 9999.5 : factor * 0.9995;
      const by = factor === 1e4 ? 1e3 : factor;
      if (size >= least) return `${digits(value / by)}${SPACE}${name}`;
    }
  }
  if (Number.isInteger(value) || size >= 99.95) return Math.round(value).toLocaleString("en-GB");
  return digits(value);
}

/* What a value is per second: nanoseconds of CPU a second are cores. */
export function formatRate(value: number, unit: Unit): string {
  if (!Number.isFinite(value)) return "–";
  switch (unit) {
    case "ns":
      /* Thousandths of a core, as Kubernetes counts them. */
      if (value !== 0 && Math.abs(value) < 0.1e9) return `${digits(value / 1e6)}${SPACE}mcores`;
      return `${digits(value / 1e9)}${SPACE}cores`;
    case "bytes":
      return `${scaled(value, BYTES)}/s`;
    case "count":
      return `${formatCount(value)}/s`;
  }
}

export function formatShare(share: number): string {
  if (!Number.isFinite(share)) return "–";
  const percent = share * 100;
  if (percent > 0 && percent < 0.01) return "<0.01%";
  return `${percent.toFixed(percent >= 99.995 || percent === 0 ? 0 : 2)}%`;
}

/* A change with its sign and a mark, since a colour alone says nothing to some. */
export function formatChange(change: number, digitsAfter = 1): string {
  if (!Number.isFinite(change)) return "–";
  const percent = change * 100;
  const text = Math.abs(percent).toFixed(digitsAfter);
  if (+text === 0) return `0%`;
  const shown = Math.abs(percent) >= 1000 ? `${digits(Math.abs(change) + (change > 0 ? 1 : 0))}×` : `${text}%`;
  return change > 0 ? `▲${SPACE}+${shown}` : `▼${SPACE}−${shown}`;
}

/* A change of a share, in percentage points. */
export function formatPoints(change: number): string {
  const points = change * 100;
  const text = Math.abs(points).toFixed(2);
  if (+text === 0) return `0.00${SPACE}pt`;
  return points > 0 ? `▲${SPACE}+${text}${SPACE}pt` : `▼${SPACE}−${text}${SPACE}pt`;
}

/* A length of time in milliseconds: 8 min 30 s. */
export function formatDuration(millis: number): string {
  const seconds = Math.round(millis / 1000);
  if (seconds < 1) return `${Math.round(millis)}${SPACE}ms`;
  const parts: string[] = [];
  let rest = seconds;
  for (const [length, name] of [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ] as const) {
    const n = Math.floor(rest / length);
    rest -= n * length;
    if (n > 0 && parts.length < 2) parts.push(`${n}${SPACE}${name}`);
    else if (parts.length > 0) break;
  }
  return parts.join(SPACE);
}
