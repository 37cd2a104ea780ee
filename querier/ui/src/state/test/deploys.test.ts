import { describe, expect, it } from "vitest";

import { deployLabel, deploys } from "../deploys";

const at = (version: string, first: number) => ({
  labels: { version },
  values: [0, 1, 2, 3, 4, 5].map((i) => (i < first ? (i === 0 ? null : 0) : 7)) as (number | null)[],
});
const lines = (...all: ReturnType<typeof at>[]) => ({ lines: all, times: [0, 10, 20, 30, 40, 50], step: 10, statistics: null });

describe("deploys", () => {
  it("are where a version begins that others were there before", () => {
    expect(deploys(lines(at("2", 3), at("1", 0), at("3", 5)), "version")).toEqual([
      { time: 30, title: "version 2", kind: "deploy" },
      { time: 50, title: "version 3", kind: "deploy" },
    ]);
  });

  it("are not the beginning of everything", () => {
    expect(deploys(lines(at("1", 2), at("2", 3)), "version")).toEqual([]);
    expect(deploys(lines(at("1", 9)), "version")).toEqual([]);
    expect(deploys(lines(), "version")).toEqual([]);
  });

  it("need a label with a few values", () => {
    expect(
      deployLabel([
        { name: "pod", values: 5 },
        { name: "version", values: 2 },
      ]),
    ).toBe("version");
    expect(
      deployLabel([
        { name: "version", values: 1 },
        { name: "service_git_ref", values: 500 },
      ]),
    ).toBe("");
  });
});
