import { expect, it } from "vitest";

import { amountOf } from "../limits";

it("limits are numbers, also of bytes", () => {
  expect(amountOf("1000")).toBe(1000);
  expect(amountOf("0.5")).toBe(0.5);
  expect(amountOf("1GiB")).toBe(2 ** 30);
  for (const text of ["", "7d", "first", "[{a: b}]", "0"]) expect(amountOf(text)).toBe(0);
});
