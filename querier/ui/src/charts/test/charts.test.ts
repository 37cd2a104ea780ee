import { describe, expect, test } from "vitest";
import { heatmapOf, heatStep, niceValues } from "../heatmap";
import { alone, gridOf, meanBetween, nearest, numbersOf, onGrid, type Series, stack, stepFor, styleOf } from "../series";
import { sparkline } from "../sparkline";
import { axisLabels, clock, day, moment } from "../time";
import { chartRows } from "../timeseries";

const NOON = Date.UTC(2026, 0, 31, 12);

describe("times", () => {
  test("24 hours in UTC", () => {
    expect(clock(NOON, true)).toBe("12:00");
    expect(clock(NOON - 12 * 3600_000, true, true)).toBe("00:00:00");
    expect(day(NOON, true)).toBe("31 Jan");
    expect(moment(NOON, true)).toBe("31 Jan 12:00:00");
  });

  test("the day is said where it changes", () => {
    const times = [NOON + 6 * 3600_000, NOON + 12 * 3600_000, NOON + 18 * 3600_000];
    expect(axisLabels(times, 6 * 3600_000, true)).toEqual(["18:00", "00:00\n1 Feb", "06:00"]);
    expect(axisLabels([NOON], 86_400_000, true)).toEqual(["31 Jan"]);
    expect(axisLabels([NOON], 15_000, true)).toEqual(["12:00:00"]);
  });
});

describe("series", () => {
  test("a grid as the server makes it, and points on it", () => {
    const times = gridOf(1000, 5000, 1500);
    expect(times).toEqual([1000, 2500, 4000]);
    expect(onGrid([{ timestamp: "2500", value: 7 }, { timestamp: 4000 }, { timestamp: 4100, value: 9 }], times, "value")).toEqual([
      null,
      7,
      0,
    ]);
  });

  test.each([
    ["before the range", [4, null, null, null], 1000],
    ["behind it", [null, null, null, 4], 4000],
    ["the nearer one of two", [4, null, null, 4], 4000],
    ["inside", [4, null, 0, 4], 3000],
    ["nowhere", [null, null, null, null], null],
  ])("nearest profiles: %s", (_, values, want) => expect(nearest([1000, 2000, 3000, 4000], values, 2900, 3200)).toBe(want));

  test("a point stands for the time that its profiles cover", () => {
    const times = gridOf(0, 150_000, 15_000);
    /* Once a minute; a profile that is late by a step; a gap, behind which the usual minute is covered. */
    const points = [
      { timestamp: 30_000, value: 600, covered: 60, rate: 10 },
      { timestamp: "90000", value: 600, covered: 60, rate: 10 },
      { timestamp: 105_000, value: 300, covered: 15, rate: 20 },
      { timestamp: 150_000, covered: 20 },
    ];
    expect(onGrid(points, times, "rate")).toEqual([10, 10, 10, 10, 10, 10, 10, 20, null, 0, 0]);
    expect(onGrid(points, times, "value")).toEqual([600, 600, 600, 600, 600, 600, 600, 300, null, 0, 0]);
  });

  test("what a line does not show are points", () => {
    expect(alone([1, null, 2, 3, null, 4])).toEqual([0, 5]);
    expect(alone([1])).toEqual([0]);
    expect(alone([null, 1, 2])).toEqual([]);
  });

  test("a step has at most so many points, and one that clocks have", () => {
    for (const range of [1000, 60_000, 3600_000, 86_400_000, 400 * 86_400_000])
      for (const points of [10, 200, 1500]) {
        const step = stepFor(range, points);
        expect(range / step).toBeLessThanOrEqual(points);
        expect(step % 1000).toBe(0);
      }
    expect(stepFor(3600_000, 240)).toBe(15_000);
  });

  test("numbers leave out what is missing", () => {
    expect(numbersOf([1, null, 3])).toEqual({ mean: 2, max: 3, deviation: 1, sum: 4, count: 2 });
    expect(numbersOf([null]).count).toBe(0);
  });

  test("a mean of a part of the time", () => {
    expect(meanBetween([10, 20, 30, 40], [1, null, 3, 50], 10, 30)).toBe(2);
    expect(meanBetween([10], [null], 0, 50)).toBe(0);
  });

  test("stacked, the last sum is that of all", () => {
    const one = (values: (number | null)[]): Series => ({ name: "", values, colour: "", dash: [] });
    expect(stack([one([1, null]), one([2, 5])])).toEqual([
      [1, 0],
      [3, 5],
    ]);
    expect(stack([])).toEqual([]);
  });

  test("the first ten series differ by colour, and the first five by their dashes", () => {
    const styles = Array.from({ length: 10 }, (_, i) => styleOf(i, true));
    expect(new Set(styles.map((style) => style.colour)).size).toBe(10);
    expect(new Set(styles.slice(0, 5).map((style) => style.dash.join())).size).toBe(5);
  });

  test("as a table", () => {
    const table = chartRows(
      { times: [NOON, NOON + 1000], from: NOON, until: NOON, series: [{ name: "a", values: [1, null], colour: "", dash: [] }] },
      { utc: true, format: (value) => `${value} cores` },
    );
    expect(table).toEqual({
      head: ["Time", "a"],
      rows: [
        ["31 Jan 12:00:00", "1 cores"],
        ["31 Jan 12:00:01", "–"],
      ],
    });
  });
});

describe("sparkline", () => {
  test("is a path with gaps", () => {
    expect(sparkline([0, 10], 10, 12)).toEqual({ line: "M0.0 11.0L10.0 1.0", area: "M0.0 12L0.0 11.0L10.0 1.0L10.0 12Z" });
    expect(sparkline([1, null, 1, 1], 30, 12).line.match(/M/g)).toHaveLength(2);
    expect(sparkline([5], 10, 12).line).toContain("h1");
    expect(sparkline([], 10, 12)).toEqual({ line: "", area: "" });
    expect(sparkline([0, 0], 10, 12).line).toBe("M0.0 11.0L10.0 11.0");
  });
});

describe("heat map", () => {
  test("has round values at its axis", () => {
    expect(niceValues(10, 98, 5, false)).toEqual([20, 40, 60, 80]);
    expect(niceValues(0, 3 * 2 ** 20, 4, true)).toEqual([0, 1, 2, 3].map((n) => n * 2 ** 20));
    expect(niceValues(7, 7, 5, false)).toEqual([7]);
  });

  test("has seven steps by square roots", () => {
    expect([0, 1, 2, 10, 50, 100].map((count) => heatStep(count, 100))).toEqual([0, 1, 1, 3, 5, 7]);
    expect(heatStep(3, 0)).toBe(0);
  });

  test("adds up series, and keeps the greatest exemplar of each column", () => {
    const series = [
      {
        slots: [
          {
            timestamp: "2000",
            yMin: [0, 10],
            counts: [1, 2],
            exemplars: [{ timestamp: "1500", value: "12", profileId: "p", spanId: "s" }],
          },
        ],
      },
      {
        slots: [
          { timestamp: "2000", yMin: [0, 10], counts: [0, 3] },
          {
            timestamp: "1000",
            yMin: [0, 10],
            counts: [4, 0],
            exemplars: Array.from({ length: 300 }, (_, i) => ({ timestamp: "900", value: String(i % 9) })),
          },
        ],
      },
    ];
    const data = heatmapOf(series, 0, 3000, 1000);
    expect(data.bounds).toEqual([0, 10, 20]);
    expect(data.times).toEqual([1000, 2000]);
    expect(data.counts).toEqual([
      [4, 0],
      [1, 5],
    ]);
    expect(data.exemplars.map((one) => one.value)).toEqual([12, 8]);
    expect(heatmapOf(series, 0, 3000, 1000, true).exemplars).toHaveLength(301);
    expect(data.exemplars[0]).toMatchObject({ time: 1500, value: 12, profileId: "p", spanId: "s", traceId: "" });
    expect(heatmapOf([], 0, 1, 1).bounds).toEqual([]);
  });
});
