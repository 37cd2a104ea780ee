import { describe, expect, it } from "vitest";

import { byImportance, formatPoint, instancesOf, isLevel, meaning, rateTitle } from "../types";

const CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";
const INUSE = "memory:inuse_space:bytes:space:bytes";

describe("profile types", () => {
  it("have names that people know, also those that nobody has named", () => {
    expect(meaning(CPU).label).toBe("CPU time");
    expect(meaning("off_cpu:off_cpu:nanoseconds::").label).toBe("Off-CPU time");
    expect(meaning("my_thing:odd_events:count:x:y").label).toBe("My thing odd events");
    expect(meaning("").label).toBe("Profile");
  });

  it("come with CPU first", () => {
    expect(["z:z:count::", INUSE, "a:a:count::", CPU].sort(byImportance)).toEqual([CPU, INUSE, "a:a:count::", "z:z:count::"]);
  });

  it.each([
    [
      [
        { name: "version", values: 2 },
        { name: "hostname", values: 3 },
        { name: "pod", values: 12 },
      ],
      "12 pods",
    ],
    [[{ name: "hostname", values: 1 }], "1 host"],
    [
      [
        { name: "pod", values: 0 },
        { name: "version", values: 2 },
      ],
      "",
    ],
  ])("come from instances: %j", (labels, want) => expect(instancesOf(labels)).toBe(want));

  it("are levels or sums per second", () => {
    expect(isLevel(INUSE)).toBe(true);
    expect(isLevel(CPU)).toBe(false);
    expect(formatPoint(2.5e9, CPU).replace("\u00a0", " ")).toBe("2.50 cores");
    expect(formatPoint(2 ** 20, INUSE).replace("\u00a0", " ")).toBe("1 MiB");
    expect(rateTitle(CPU)).toBe("CPU cores used");
  });
});
