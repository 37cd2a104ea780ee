import { describe, expect, it } from "vitest";

import { HOUR_MS, MINUTE_MS, SECOND_MS, dateTime, isValid, rangeLabel, resolve, scaled, shifted, toMs } from "../range";

const NOW = Date.UTC(2026, 3, 14, 14, 20, 5);

describe("times", () => {
  it.each([
    ["now", NOW],
    ["now-90m", NOW - 90 * MINUTE_MS],
    ["now - 1.5h", NOW - 90 * MINUTE_MS],
    ["now+10s", NOW + 10 * SECOND_MS],
    ["now-1d", NOW - 24 * HOUR_MS],
    ["1776176405", NOW],
    ["1776176405000", NOW],
    ["1776176405000000", NOW],
    ["1776176405000000000", NOW],
    ["999999999999", 999999999999], // milliseconds before 2001
    ["999999999999999", 1e12],
    ["999999999999999999", 1e12],
    ["20260414", Date.UTC(2026, 3, 14)],
    ["20261301", 20261301000], // no such day: seconds
    ["20260230", 20260230000],
    ["2026-04-14 14:20:05", NOW],
    ["2026-04-14T14:20", NOW - 5 * SECOND_MS],
    ["2026-04-14", Date.UTC(2026, 3, 14)],
    ["2026-04-14T16:20:05+02:00", NOW],
  ])("%s", (text, ms) => expect(toMs(text, NOW, true)).toBe(ms));

  it.each(["", "yesterday", "now-", "now-5", "now-5x", "12", "2026-4-14", "now-1h;drop"])("“%s” is none", (text) => {
    expect(toMs(text, NOW, true)).toBeNaN();
  });

  it("are written as they are read", () => {
    for (const ms of [NOW, NOW - 5 * SECOND_MS]) expect(toMs(dateTime(ms, true), 0, true)).toBe(ms);
    expect(toMs(dateTime(NOW, false), 0, false)).toBe(NOW);
  });
});

describe("ranges", () => {
  it("that make no sense are the last hour", () => {
    expect(resolve({ from: "now", until: "now-1h" }, NOW)).toEqual([NOW - HOUR_MS, NOW]);
    expect(isValid({ from: "now", until: "now-1h" }, NOW)).toBe(false);
  });

  it("have names", () => {
    expect(rangeLabel({ from: "now-1h", until: "now" }, NOW, true)).toBe("Last 1 hour");
    expect(rangeLabel({ from: "now-90m", until: "now" }, NOW, true)).toBe("Last 90m");
    expect(rangeLabel({ from: String(NOW - HOUR_MS), until: String(NOW) }, NOW, true)).toBe("2026-04-14 13:20:05 – 14:20:05");
  });

  it("move by half of their length and keep it", () => {
    expect(resolve(shifted({ from: "now-1h", until: "now" }, -1, NOW), NOW)).toEqual([NOW - 1.5 * HOUR_MS, NOW - 0.5 * HOUR_MS]);
    const there = shifted(shifted({ from: String(NOW - HOUR_MS), until: String(NOW) }, 1, NOW), -1, NOW);
    expect(there).toEqual({ from: String(NOW - HOUR_MS), until: String(NOW) });
  });

  it("widen around the middle, or from now on into the past", () => {
    expect(scaled({ from: "now-1h", until: "now" }, 2, NOW)).toEqual({ from: "now-120m", until: "now" });
    expect(resolve(scaled({ from: String(NOW - HOUR_MS), until: String(NOW) }, 0.5, NOW), NOW)).toEqual([
      NOW - 0.75 * HOUR_MS,
      NOW - 0.25 * HOUR_MS,
    ]);
    expect(scaled({ from: "now-10s", until: "now" }, 0.5, NOW)).toEqual({ from: "now-10s", until: "now" });
  });
});
