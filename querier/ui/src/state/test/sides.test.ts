import { describe, expect, test } from "vitest";

import { DAY_MS, HOUR_MS } from "../range";
import { type Sides, aroundDeploy, changed, domainOf, presetsOf, sidePatch, sidesOf, swapped } from "../sides";
import { type Params, format, formatBox, parse, parseBox, patched } from "../url";

const NOW = Date.UTC(2026, 3, 14, 14, 30);

function params(change: Partial<Params>): Params {
  return patched(parse(""), change).params;
}

/* Through an address and back, as a reload does. */
function reloaded(patch: Partial<Params>): Sides {
  return sidesOf(parse(format(patched(parse(""), patch))).params, NOW, true);
}

describe("sides", () => {
  test("without ranges of their own they are the halves of the page's range", () => {
    const { left, right } = sidesOf(params({ query: "a:b:c:d:e{}", from: "now-1h" }), NOW, true);
    expect(right).toEqual({ query: "a:b:c:d:e{}", span: { from: NOW - HOUR_MS / 2, until: NOW } });
    expect(left).toEqual({ query: "a:b:c:d:e{}", span: { from: NOW - HOUR_MS, until: NOW - HOUR_MS / 2 } });
  });

  test("two queries are compared over the same time", () => {
    const { left, right } = sidesOf(params({ leftQuery: "a", rightQuery: "b", from: "now-1h" }), NOW, true);
    expect(left).toEqual({ query: "a", span: { from: NOW - HOUR_MS, until: NOW } });
    expect(right).toEqual({ query: "b", span: left.span });
  });

  test("a selected part of the page's range is the comparison", () => {
    const { left, right } = sidesOf(params({ query: "a", sel: `${NOW - 600_000}..${NOW - 300_000}` }), NOW, true);
    expect(right.span).toEqual({ from: NOW - 600_000, until: NOW - 300_000 });
    expect(left.span).toEqual({ from: NOW - 900_000, until: NOW - 600_000 });
  });

  test("each side has its own query and range, also as links of Pyroscope say them", () => {
    const sides = sidesOf(
      params({
        query: "page",
        leftQuery: "l",
        leftFrom: "now-2h",
        leftUntil: "now-1h",
        rightQuery: "r",
        rightFrom: "1776175200",
        rightUntil: "1776177000",
      }),
      NOW,
      true,
    );
    expect(sides.left).toEqual({ query: "l", span: { from: NOW - 2 * HOUR_MS, until: NOW - HOUR_MS } });
    expect(sides.right).toEqual({ query: "r", span: { from: 1776175200_000, until: 1776177000_000 } });
  });

  test("one side's query is the other's if there is nothing else", () => {
    expect(sidesOf(params({ leftQuery: "l" }), NOW, true).right.query).toBe("l");
    expect(sidesOf(params({ rightQuery: "r" }), NOW, true).left.query).toBe("r");
  });

  test("a side that moves takes the other one along if both are of the same time", () => {
    const sides = sidesOf(params({ leftQuery: "l", rightQuery: "r", from: "now-1h" }), NOW, true);
    const moved = { query: "l", span: { from: NOW - 600_000, until: NOW - 300_000 } };
    expect(reloaded(changed(sides, "left", moved, true))).toEqual({ left: moved, right: { query: "r", span: moved.span } });
    expect(reloaded(changed(sides, "left", moved, false))).toEqual({ left: moved, right: sides.right });
  });

  test("a reload shows the same sides, and swapping twice, too", () => {
    const sides: Sides = {
      left: { query: 'x{a="b,c"}', span: { from: 1000_000_000_000, until: 1000_000_060_000 } },
      right: { query: "y", span: { from: 1000_000_100_000, until: 1000_000_200_000 } },
    };
    const patch = { ...sidePatch("left", sides.left), ...sidePatch("right", sides.right) };
    expect(reloaded(patch)).toEqual(sides);
    const other = reloaded(swapped(sides));
    expect(other).toEqual({ left: sides.right, right: sides.left });
    expect(reloaded(swapped(other))).toEqual(sides);
  });

  test("a timeline has its side inside", () => {
    const outer = { from: NOW - HOUR_MS, until: NOW };
    expect(domainOf({ from: NOW - 600_000, until: NOW }, outer)).toBe(outer);
    for (const side of [
      { from: NOW - 8 * DAY_MS, until: NOW - 7 * DAY_MS },
      { from: NOW - 2 * HOUR_MS, until: NOW - HOUR_MS },
      { from: NOW - 5 * HOUR_MS, until: NOW - 4.9 * HOUR_MS },
    ]) {
      const domain = domainOf(side, outer);
      expect(domain.from).toBeLessThan(side.from);
      expect(domain.until).toBeGreaterThan(side.until);
      expect(domain.until - domain.from).toBeGreaterThanOrEqual(HOUR_MS - 1);
    }
  });

  test("around a deploy, both sides are as long and have all versions", () => {
    const side = (from: number, until: number) => ({ query: 'a:b:c:d:e{service_name="x",version="2"}', span: { from, until } });
    const { left, right } = reloaded(aroundDeploy({ left: side(0, 1), right: side(NOW - 600_000, NOW) }, NOW - 900_000));
    expect(right).toEqual({ query: 'a:b:c:d:e{service_name="x"}', span: { from: NOW - 900_000, until: NOW } });
    expect(left).toEqual({ query: 'a:b:c:d:e{service_name="x"}', span: { from: NOW - 1_800_000, until: NOW - 900_000 } });
    /* A comparison that ends before the deploy moves behind it. */
    expect(reloaded(aroundDeploy({ left: side(0, 1), right: side(NOW - 900_000, NOW - 600_000) }, NOW - 500_000)).right.span).toEqual({
      from: NOW - 500_000,
      until: NOW - 200_000,
    });
  });

  test("presets end before the comparison begins", () => {
    const long = presetsOf({ from: NOW - 2 * DAY_MS, until: NOW });
    expect(long.map((preset) => preset.key)).toEqual(["period", "week"]);
    const short = presetsOf({ from: NOW - 600_000, until: NOW });
    expect(short.map((preset) => preset.key)).toEqual(["period", "hour", "day", "week"]);
    for (const preset of [...long, ...short]) expect(preset.left.until).toBeLessThanOrEqual(NOW);
  });
});

describe("boxes", () => {
  test("of a heat map in the address", () => {
    const box = { from: 1776175200000, until: 1776177000000, low: 10, high: 5e9 };
    expect(parseBox(formatBox(box))).toEqual(box);
    expect(formatBox(null)).toBe("");
    for (const wrong of ["", "1..2", "1..2..3", "2..1..0..1", "1..2..3..2", "1..2..3..4..5", "a..b..c..d"])
      expect(parseBox(wrong)).toBeNull();
  });
});
