/* Times as axes and sentences have them: 24 hours, in UTC or in the browser's zone. */

const formats = new Map<string, Intl.DateTimeFormat>();

function format(key: string, options: Intl.DateTimeFormatOptions, utc: boolean): Intl.DateTimeFormat {
  const name = `${key}${utc}`;
  let made = formats.get(name);
  if (!made) {
    made = new Intl.DateTimeFormat("en-GB", { ...options, hourCycle: "h23", ...(utc ? { timeZone: "UTC" } : {}) });
    formats.set(name, made);
  }
  return made;
}

export function clock(ms: number, utc: boolean, seconds = false): string {
  const two = "2-digit" as const;
  return format(seconds ? "hms" : "hm", { hour: two, minute: two, ...(seconds ? { second: two } : {}) }, utc).format(ms);
}

export function day(ms: number, utc: boolean): string {
  return format("d", { day: "numeric", month: "short" }, utc).format(ms);
}

export function moment(ms: number, utc: boolean): string {
  return `${day(ms, utc)} ${clock(ms, utc, true)}`;
}

/* The labels of an axis: the time, and below it the day where that changes. All are milliseconds; step is their distance. */
export function axisLabels(times: readonly number[], step: number, utc: boolean): string[] {
  const days = times.map((ms) => day(ms, utc));
  if (step >= 86_400_000) return days;
  return times.map((ms, i) => {
    const text = clock(ms, utc, step < 60_000);
    return i > 0 && days[i] !== days[i - 1] ? `${text}\n${days[i]}` : text;
  });
}
