import { describe, expect, test } from "vitest";

import { numbers } from "../../api/queries";
import type { Statistics } from "../../api/types";
import { boundOf, worthOf } from "../worth";

const answer = (of: Partial<Statistics>): Statistics => ({
  complete: true,
  exact: true,
  profiles: 1,
  series: 1,
  bytes: 1,
  millis: 1,
  ...of,
});

describe("answers that are shown together", () => {
  test("all are complete", () => expect(worthOf([answer({}), null, undefined])).toEqual({ missing: [], saturated: false }));
  test("each reason is said once", () =>
    expect(
      worthOf([
        answer({ complete: false, missing: "ingester a" }),
        answer({ complete: false, missing: "ingester a" }),
        answer({ complete: false }),
        answer({}),
      ]).missing,
    ).toEqual(["ingester a", "Some ingesters did not answer"]));
  test("one sum that is too large is enough", () => expect(worthOf([answer({}), answer({ saturated: true })]).saturated).toBe(true));
});

describe("how exact bars are", () => {
  test.each([
    ["exact", answer({}), null],
    ["to a bound", answer({ exact: false, bound: 7 }), 7],
    ["nobody knows", answer({ exact: false, saturated: true, bound: 2 ** 64 }), null],
    ["not there yet", undefined, null],
  ])("%s", (_, statistics, want) => expect(boundOf(statistics)).toBe(want));
});

test("statistics of protobuf's JSON say the same", () => {
  expect(numbers({ complete: true, exact: false, bound: "12", saturated: true, unit: "nanoseconds", profiles: "3" })).toEqual(
    answer({ exact: false, bound: 12, saturated: true, unit: "nanoseconds", profiles: 3, series: 0, bytes: 0, millis: 0 }),
  );
  expect(numbers({ complete: true, exact: true })).not.toHaveProperty("saturated");
});
