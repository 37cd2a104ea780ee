import { describe, expect, test } from "vitest";
import { decode, encode, withDiffWidth } from "../decode";
import { parse, take } from "../load";
import { type Flame, FlameError, nodeAt, pathOf } from "../model";
import { levelsOf, mulberry, type Node, randomTree, totals } from "./random";

/* The first answer of querier/API.md, as Connect sends it. */
const DEMO = {
  flamegraph: {
    names: ["total", "hash", "main", "sort", "work"],
    levels: [
      { values: ["0", "400000000", "0", "0"] },
      { values: ["0", "400000000", "0", "2"] },
      { values: ["0", "400000000", "0", "4"] },
      { values: ["0", "300000000", "300000000", "1", "0", "100000000", "100000000", "3"] },
    ],
    total: "400000000",
    maxSelf: "300000000",
  },
};

function bytesOf(value: unknown): ArrayBuffer {
  return new TextEncoder().encode(JSON.stringify(value)).buffer as ArrayBuffer;
}

/* The flame graph's node for every node of the tree, by their paths. */
function check(flame: Flame, tree: Node): void {
  const visit = (node: Node, path: string[]): number => {
    const [left, right] = totals(node);
    if (left + right === 0 && path.length > 1) return 0;
    const at = nodeAt(flame, path);
    expect(at, path.join("/")).toBeGreaterThanOrEqual(0);
    expect(pathOf(flame, at)).toEqual(path);
    if (flame.left && flame.right) {
      expect([flame.left.w[at], flame.left.self[at], flame.right.w[at], flame.right.self[at]]).toEqual([
        left,
        node.self,
        right,
        node.right,
      ]);
    } else expect([flame.w[at], flame.self[at]]).toEqual([left, node.self]);
    let n = 1;
    for (const child of node.children) n += visit(child, [...path, child.name]);
    return n;
  };
  expect(flame.count).toBe(visit(tree, ["total"]));
}

describe("decode", () => {
  test("reads both forms of answers", () => {
    const connect = take(structuredClone(DEMO)).flame;
    const plain = parse(
      bytesOf({
        version: 1,
        flamebearer: {
          names: DEMO.flamegraph.names,
          levels: DEMO.flamegraph.levels.map((level) => level.values.map(Number)),
          numTicks: 4e8,
        },
        metadata: { format: "single" },
      }),
      "share",
    );
    expect(plain.rest).toEqual({ version: 1, metadata: { format: "single" } });
    for (const flame of [connect, plain.flame]) {
      expect(flame.count).toBe(5);
      expect(flame.depth).toBe(4);
      expect(flame.total).toBe(4e8);
      expect(pathOf(flame, 4)).toEqual(["total", "main", "work", "sort"]);
      expect(flame.x[4]).toBe(3e8);
      expect([...flame.parent]).toEqual([-1, 0, 1, 2, 2]);
      expect([...flame.child]).toEqual([1, 2, 3, 5, 5, 5]);
    }
  });

  test("an empty answer is an empty flame graph", () => {
    expect(take({}).flame.count).toBe(0);
    expect(take({ flamegraph: { names: ["total"], levels: [{ values: ["0", "0", "0", "0"] }] } }).flame.total).toBe(0);
    expect(take({ flamebearer: { names: ["total"], levels: [[0, 0, 0, 0, 0, 0, 0]] } }).flame.left).not.toBeNull();
  });

  test("says what is wrong with a broken answer", () => {
    const broken =
      (levels: unknown[][]): (() => Flame) =>
      () =>
        take({ flamebearer: { names: ["total", "a"], levels } }).flame;
    expect(
      broken([
        [0, 5, 0, 0],
        [0, 5, 5],
      ]),
    ).toThrow(FlameError);
    expect(
      broken([
        [0, 5, 0, 0],
        [0, 5, 5, 2],
      ]),
    ).toThrow(/name 2/);
    expect(broken([[0, -5, 0, 0]])).toThrow(/value -5/);
    expect(broken([[0, "x", 0, 0]])).toThrow(/value x/);
    expect(broken([[0, 1, 1, 0, 0, 1, 1, 0]])).toThrow(FlameError);
    expect(() => parse(new TextEncoder().encode("<html>").buffer as ArrayBuffer, "share")).toThrow(/no JSON/);
  });

  test("numbers beyond 2^53 lose their last digits and nothing else", () => {
    const huge = "9223372036854775807";
    const flame = take({
      flamegraph: {
        names: ["total", "a", "b"],
        levels: [
          { values: ["0", huge, "0", "0"] },
          { values: ["0", "9223372036854770000", "9223372036854770000", "1", "0", "5807", "5807", "2"] },
        ],
      },
    }).flame;
    expect(flame.total).toBeCloseTo(2 ** 63, -4);
    expect([...flame.parent.subarray(0, 3)]).toEqual([-1, 0, 0]);
  });

  for (const diff of [false, true])
    for (const text of [false, true])
      test(`agrees with the tree: ${diff ? "comparison" : "single"}, ${text ? "text" : "numbers"}`, () => {
        for (let seed = 1; seed <= 30; seed++) {
          const random = mulberry(seed);
          const tree = randomTree(random, 5 + Math.floor(random() * 300), 8, diff);
          const levels = levelsOf(tree, diff, text);
          const flame = decode(levels, diff, "absolute");
          check(flame, tree);
          /* Self values add up to the root; children lie inside their parents, side by side. */
          let sum = 0;
          for (let i = 0; i < flame.count; i++) {
            sum += flame.self[i]!;
            let at = flame.x[i]! + flame.self[i]!;
            for (let child = flame.child[i]!; child < flame.child[i + 1]!; child++) {
              expect(flame.parent[child]).toBe(i);
              expect(flame.level[child]).toBe(flame.level[i]! + 1);
              expect(flame.x[child]).toBe(at);
              at += flame.w[child]!;
            }
            expect(at).toBe(flame.x[i]! + flame.w[i]!);
          }
          expect(sum).toBe(flame.total);
          const again = decode(encode(flame), diff, "absolute");
          check(again, tree);
        }
      });

  test("widths by share give both sides the same weight", () => {
    const tree: Node = {
      name: "total",
      self: 0,
      right: 0,
      children: [
        { name: "a", self: 100, right: 1, children: [] },
        { name: "b", self: 0, right: 9, children: [] },
      ],
    };
    const flame = decode(levelsOf(tree, true), true);
    const part = (node: number): number => flame.w[node]! / flame.total;
    expect(part(1)).toBeCloseTo((1 + 0.1) / 2);
    expect(part(2)).toBeCloseTo(0.9 / 2);
    const absolute = withDiffWidth(flame, "absolute");
    expect(absolute.w[1]! / absolute.total).toBeCloseTo(101 / 110);
    expect(absolute.total).toBe(110);
    /* Ten times as long, a tenth of the width: the same rate. */
    const rates = withDiffWidth(flame, "absolute", [10, 1]);
    expect(rates.w[1]! / rates.w[2]!).toBeCloseTo(11 / 9);
    expect(part(2)).toBeCloseTo(0.9 / 2);
  });
});
