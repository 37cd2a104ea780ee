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

/* Points of the server (a value at a time, those without data left out) on a grid of times; what is missing is null. */
export function onGrid(
  points: readonly { timestamp: number | string; value?: number | undefined }[],
  times: readonly number[],
): (number | null)[] {
  const place = new Map(times.map((ms, i) => [ms, i]));
  const values = new Array<number | null>(times.length).fill(null);
  for (const point of points) {
    const i = place.get(+point.timestamp);
    if (i !== undefined) values[i] = point.value ?? 0;
  }
  return values;
}

/* The grid of SelectSeries: start, start + step and so on, up to end. All in milliseconds. */
export function gridOf(start: number, end: number, step: number): number[] {
  const times: number[] = [];
  for (let at = start; at <= end; at += step) times.push(at);
  return times;
}

/* A step with at most so many points, of the lengths that clocks have. In milliseconds. */
export function stepFor(range: number, points: number): number {
  const steps = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  for (const seconds of steps) if (range / (seconds * 1000) <= points) return seconds * 1000;
  return Math.ceil(range / points / 86_400_000) * 86_400_000;
}

/*
 * How many steps of a grid lie between the points of its lines: 1 if they are dense. An agent that sends once a minute has a
 * point in each fourth step of 15 s, and a line through them would be a saw. Of several lines the sparsest decides.
 */
export function spacingOf(lines: readonly (readonly (number | null)[])[]): number {
  let most = 1;
  for (const values of lines) {
    const gaps: number[] = [];
    let last = -1;
    values.forEach((value, i) => {
      if (value === null) return;
      if (last >= 0) gaps.push(i - last);
      last = i;
    });
    if (gaps.length < SPACING_GAPS) continue;
    gaps.sort((a, b) => a - b);
    const median = gaps[gaps.length >> 1]!;
    /* Agents that are not in step with the grid need pieces that have two points, or some would have none. */
    const even = gaps.filter((gap) => gap === median).length >= gaps.length * 0.9;
    most = Math.max(most, even || median === 1 ? median : 2 * median);
  }
  return Math.min(most, SPACING_MAX);
}

const SPACING_GAPS = 4; /* fewer say nothing */
const SPACING_MAX = 24; /* beyond that a line has too few points; what is rare may look rare */

/* Sums of so many neighbours; a piece without any value is null. The last piece may be shorter. */
export function sumsOf(values: readonly (number | null)[], by: number): (number | null)[] {
  if (by === 1) return [...values];
  const sums: (number | null)[] = [];
  for (let i = 0; i < values.length; i += by) {
    let sum: number | null = null;
    for (const value of values.slice(i, i + by)) if (value !== null) sum = (sum ?? 0) + value;
    sums.push(sum);
  }
  return sums;
}

/* Means of so many neighbours, of those that there are. */
export function meansOf(values: readonly (number | null)[], by: number): (number | null)[] {
  const counts = sumsOf(
    values.map((value) => (value === null ? null : 1)),
    by,
  );
  return sumsOf(values, by).map((sum, i) => (sum === null ? null : sum / counts[i]!));
}

/* When the pieces of sumsOf() and meansOf() end. */
export function endsOf(times: readonly number[], by: number): number[] {
  const ends: number[] = [];
  for (let i = 0; i < times.length; i += by) ends.push(times[Math.min(i + by, times.length) - 1]!);
  return ends;
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
