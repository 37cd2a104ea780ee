import { expect, test } from "vitest";

import { usedShare } from "../admin";

const limit = (value: string, used?: number) => usedShare({ value, source: "settings", meaning: "", used });

test("the share of a limit that is used", () => {
  expect(limit("8", 2)).toBe(0.25);
  expect(limit("{period_type: day, period_limit_mb: 1000}", 1500)).toBe(1.5);
  expect(limit("{period_type: day, period_limit_mb: 0}", 5)).toBeUndefined(); // no limit
  expect(limit("0", 5)).toBeUndefined();
  expect(limit("256KiB", 64 * 1024)).toBe(0.25);
  expect(limit("2TiB", 1024 ** 4)).toBe(0.5);
  expect(limit("7d", 5)).toBeUndefined(); // no number
  expect(limit("8")).toBeUndefined(); // nobody keeps count
});
