/* Colours, order and sums of series: what charts and their tables share. */

/* Distinct also without colours: by dashes. The order is that of use. */
export const SERIES_COLOURS = {
  dark: ["#6aa8ff", "#ff9f5a", "#5fc58e", "#c79bf0", "#f28b9b", "#4fc4c9", "#d9c35a", "#9aa4f5", "#e890c6", "#9bc56a"],
  light: ["#2563c9", "#c2570c", "#1b7f4d", "#7f43c4", "#b8324a", "#0f7c82", "#86690a", "#4a54c8", "#a83a84", "#557d1c"],
} as const;
export const OTHER_COLOUR = { dark: "#8390a0", light: "#5f6c7d" } as const;
const DASHES: readonly (readonly number[])[] = [[], [6, 3], [2, 3], [8, 3, 2, 3], [12, 4]];

export interface Series {
  name: string;
  values: readonly (number | null)[];
  colour: string;
  dash: readonly number[];
  of?: "other" /* the sum of those that are not shown */;
}

export function styleOf(place: number, dark: boolean): { colour: string; dash: readonly number[] } {
  const colours = SERIES_COLOURS[dark ? "dark" : "light"];
  return { colour: colours[place % colours.length]!, dash: DASHES[place % DASHES.length]! };
}

/* Of SelectSeries: the sum or the mean of the profiles in a step, which ends at `timestamp`; for how many seconds they stand, which
 * may be more than the step, and their sum per second of that time. JSON leaves out what is 0. */
export interface Point {
  timestamp: number | string; // milliseconds
  value?: number;
  covered?: number;
  rate?: number;
}

/* Values of points on a grid of times: a point is that of all the steps that it covers. Where nothing covers, there is null. */
export function onGrid(points: readonly Point[], times: readonly number[], of: "value" | "rate"): (number | null)[] {
  const place = new Map(times.map((ms, i) => [ms, i]));
  const values = new Array<number | null>(times.length).fill(null);
  for (const point of points) {
    const own = place.get(+point.timestamp);
    if (own === undefined) continue;
    const since = +point.timestamp - (point.covered ?? 0) * 1000;
    for (let i = own; i === own || (i >= 0 && times[i]! > since && values[i] === null); i--) values[i] = point[of] ?? 0;
  }
  return values;
}

/* Values with gaps on both sides: a line does not show them. */
export function alone(values: ArrayLike<number | null | undefined>): number[] {
  const found: number[] = [];
  for (let i = 0; i < values.length; i++) if (values[i] != null && values[i - 1] == null && values[i + 1] == null) found.push(i);
  return found;
}

/* The grid of SelectSeries: start, start + step and so on, up to end. All in milliseconds. */
export function gridOf(start: number, end: number, step: number): number[] {
  const times: number[] = [];
  for (let at = start; at <= end; at += step) times.push(at);
  return times;
}

/* The point with a value that is nearest to a range; null: there is none. */
export function nearest(times: readonly number[], values: readonly (number | null)[], from: number, until: number): number | null {
  const away = (ms: number): number => Math.max(from - ms, ms - until, 0);
  let found: number | null = null;
  times.forEach((ms, at) => {
    if (values[at] != null && (found === null || away(ms) < away(found))) found = ms;
  });
  return found;
}

/* A step with at most so many points, of the lengths that clocks have. In milliseconds. */
export function stepFor(range: number, points: number): number {
  const steps = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  for (const seconds of steps) if (range / (seconds * 1000) <= points) return seconds * 1000;
  return Math.ceil(range / points / 86_400_000) * 86_400_000;
}

export interface Numbers {
  mean: number;
  max: number;
  deviation: number;
  sum: number;
  count: number;
}

export function numbersOf(values: readonly (number | null)[]): Numbers {
  let [sum, squares, count, max] = [0, 0, 0, -Infinity];
  for (const value of values) {
    if (value === null) continue;
    sum += value;
    squares += value * value;
    count++;
    if (value > max) max = value;
  }
  if (count === 0) return { mean: NaN, max: NaN, deviation: NaN, sum: 0, count: 0 };
  const mean = sum / count;
  return { mean, max, deviation: Math.sqrt(Math.max(0, squares / count - mean * mean)), sum, count };
}

/* The mean of what a series has from one time to another; 0 if it has nothing. */
export function meanBetween(times: readonly number[], values: readonly (number | null)[], from: number, until: number): number {
  const { mean, count } = numbersOf(values.filter((_, i) => times[i]! >= from && times[i]! <= until));
  return count > 0 ? mean : 0;
}

/* Each series on top of those before it; null counts as nothing. */
export function stack(series: readonly Series[]): number[][] {
  const sums: number[][] = [];
  for (const one of series) {
    const below = sums[sums.length - 1];
    sums.push(one.values.map((value, i) => (value ?? 0) + (below ? below[i]! : 0)));
  }
  return sums;
}
