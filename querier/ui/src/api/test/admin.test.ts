import { expect, test } from "vitest";

import { type Token, isIdle, parseValues, usedShare } from "../admin";

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

test("other names of tenants", () => {
  expect(parseValues("")).toEqual([]);
  expect(parseValues(" kube-system = infra ,x=y,")).toEqual([
    { value: "kube-system", tenant: "infra" },
    { value: "x", tenant: "y" },
  ]);
  expect(parseValues("=rest")).toEqual([{ value: "", tenant: "rest" }]); // series without the label
  expect(parseValues("a=b=c")).toEqual([{ value: "a=b", tenant: "c" }]); // no tenant has such a name, values may
  for (const wrong of ["x", "x=", "x=y z", "a=b,c"]) expect(parseValues(wrong), wrong).toBeNull();
});

test("tokens that nobody uses", () => {
  const DAY = 86_400_000;
  const now = 1000 * DAY;
  const token = (createdDay: number, usedDay?: number): Token => ({
    id: "",
    name: "",
    state: "active",
    tenants: [],
    scopes: [],
    createdBy: "",
    expiresMs: 0,
    createdMs: createdDay * DAY,
    ...(usedDay === undefined ? {} : { lastUsedMs: usedDay * DAY }),
  });
  expect(isIdle(token(1, 960), DAY, 30, now)).toBe(true);
  expect(isIdle(token(1, 980), DAY, 30, now)).toBe(false);
  expect(isIdle(token(1), DAY, 30, now)).toBe(true);
  expect(isIdle(token(990), DAY, 30, now)).toBe(false); // new, perhaps not installed yet
  expect(isIdle(token(1), 990 * DAY, 30, now)).toBe(false); // recorded for ten days only
  expect(isIdle(token(1), undefined, 30, now)).toBe(false); // nobody knows
});
