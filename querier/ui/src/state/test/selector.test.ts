import { describe, expect, it } from "vitest";

import { mulberry as random } from "../../flame/test/random";
import { type Matcher, OPERATORS, formatQuery, parseQuery, serviceOf, withMatcher, withService } from "../selector";

const CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";

describe("selectors", () => {
  it.each<[string, string, Matcher[]]>([
    [CPU, CPU, []],
    [`${CPU}{}`, CPU, []],
    ["{}", "", []],
    [`${CPU}{a="b"}`, CPU, [{ name: "a", op: "=", value: "b" }]],
    [
      `${CPU}{ a = 'b' , c=~"d|e", f!="g",h !~ \`i\\d\`, }`,
      CPU,
      [
        { name: "a", op: "=", value: "b" },
        { name: "c", op: "=~", value: "d|e" },
        { name: "f", op: "!=", value: "g" },
        { name: "h", op: "!~", value: "i\\d" },
      ],
    ],
    ['{"k8s.pod.name"="x"}', "", [{ name: "k8s.pod.name", op: "=", value: "x" }]],
    ['{a="\\"\\\\\\n\\u00e9}"}', "", [{ name: "a", op: "=", value: '"\\\né}' }]],
    ['{__name__="odd type:x",a="b"}', "odd type:x", [{ name: "a", op: "=", value: "b" }]],
  ])("%s", (text, type, matchers) => expect(parseQuery(text)).toEqual({ type, matchers }));

  it.each([
    ["{a}", "=, !=, =~ or !~ at character 3"],
    ["{a=b}", "a value in quotes at character 4"],
    ['{a="b', 'a closing "'],
    ['{a="b" c="d"}', ", or } at character 8"],
    ['{a="b"} x', "nothing more"],
    ['{1a="b"}', "the name of a label at character 2"],
    ["{", "the name of a label at character 2, where it ends"],
  ])("%s is refused, with the place", (text, why) => expect(() => parseQuery(text)).toThrow(why));

  it("are read as they are written", () => {
    const next = random(2);
    const odd = ["", "a", 'a"b', "a\\b", "{}", "ü", "\n\t", "<img>", "a,b", "`", "'", "\u007f", "💥"];
    const pick = (): string => odd[Math.floor(next() * odd.length)]!;
    for (let round = 0; round < 1000; round++) {
      const matchers = Array.from(
        { length: Math.floor(next() * 5) },
        (): Matcher => ({ name: pick() || "x", op: OPERATORS[Math.floor(next() * 4)]!, value: pick() }),
      );
      const query = { type: [CPU, "", "odd type:a:b:c:d"][Math.floor(next() * 3)]!, matchers };
      expect(parseQuery(formatQuery(query))).toEqual(query);
    }
  });

  it("have one service, and one value of each label", () => {
    const query = parseQuery(`${CPU}{service_name="a",pod="p",pod!="q"}`);
    expect(serviceOf(query)).toBe("a");
    expect(formatQuery(withService(query, "b"))).toBe(`${CPU}{service_name="b",pod="p",pod!="q"}`);
    expect(formatQuery(withMatcher(query, { name: "pod", op: "=", value: "r" }))).toBe(`${CPU}{service_name="a",pod!="q",pod="r"}`);
    expect(formatQuery(withMatcher(query, { name: "pod", op: "!=", value: "q" }))).toBe(`${CPU}{service_name="a",pod="p",pod!="q"}`);
    expect(serviceOf(parseQuery('{service_name=~"a|b"}'))).toBe("");
  });
});
