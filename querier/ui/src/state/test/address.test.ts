import { describe, expect, it } from "vitest";

import { mulberry as random } from "../../flame/test/random";
import { type Name, type Params, carried, defaultOf, format, formatSel, parse, parseSel, patched } from "../url";

const NAMES = Object.keys(parse("").params) as Name[];
const ODD = ["", " ", "a b", "ü/\\?&=#%+", "<img src=x>", '{a="b"}', "a\x1fb", "\n", "0", "now-1h", "💥", "a".repeat(3000)];

describe("addresses", () => {
  it("give every state again", () => {
    const next = random(1);
    for (let round = 0; round < 1000; round++) {
      const params = { ...parse("").params } as Params;
      for (const name of NAMES) if (next() < 0.3) params[name] = ODD[Math.floor(next() * ODD.length)]! || defaultOf(name);
      const rest: [string, string][] =
        next() < 0.5
          ? [
              ["later", ODD[1]!],
              ["later", ODD[3]!],
            ]
          : [];
      expect(parse(format({ params, rest }))).toEqual({ params, rest });
    }
  });

  it("leave out defaults", () => {
    expect(format(parse("from=now-1h&until=now&view=both&maxNodes=16384"))).toBe("");
    expect(format(patched(parse("view=table"), { view: "" }))).toBe("");
  });

  it("of Pyroscope's page mean the same", () => {
    const old =
      'query=process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name="a"}&from=now-3h&until=now&leftFrom=1&rightFrom=2&max-nodes=8192&groupBy=pod';
    const { params, rest } = parse(old);
    expect(params).toMatchObject({
      query: 'process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name="a"}',
      from: "now-3h",
      leftFrom: "1",
      rightFrom: "2",
      maxNodes: "8192",
      by: "pod",
    });
    expect(rest).toEqual([]);
  });

  it("of other pages keep what is asked, and not how it was looked at", () => {
    expect(carried(parse("query=a&from=now-2h&view=table&q=x&fn=f&tenant=t&unknown=1"))).toBe("query=a&from=now-2h&tenant=t");
  });

  it("have a part of the range, or none", () => {
    expect(parseSel("1000..2000")).toEqual([1000, 2000]);
    for (const bad of ["", "1000", "2000..1000", "5..5", "a..b", "1..2..3"]) expect(parseSel(bad)).toBeNull();
    expect(formatSel([1000.4, 1999.6])).toBe("1000..2000");
    expect(formatSel(null)).toBe("");
  });
});
