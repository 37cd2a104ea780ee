import { describe, expect, test } from "vitest";
import { CallTree, TEXT_MAX, openedOf } from "../calltree";
import { decode } from "../decode";
import { focusOf, nodeOf } from "../focus";
import { type Flame, nodeAt, pathOf } from "../model";
import { packageOf } from "../names";
import { nextMatch, patternOf, search } from "../search";
import { topOf } from "../top";
import { collapseSiblings, hasSiblings, isPlain, reshape, sandwich } from "../tree";
import { levelsOf, mulberry, type Node, randomTree, totals } from "./random";

function each(tree: Node, visit: (node: Node, path: Node[]) => void, path: Node[] = []): void {
  visit(tree, path);
  for (const child of tree.children) each(child, visit, [...path, tree]);
}

function selfSum(flame: Flame): number {
  let sum = 0;
  for (let i = 0; i < flame.count; i++) sum += flame.self[i]!;
  return sum;
}

function cases(diff: boolean, run: (flame: Flame, tree: Node, random: () => number) => void): void {
  for (let seed = 1; seed <= 25; seed++) {
    const random = mulberry(seed * 7919);
    const tree = randomTree(random, 5 + Math.floor(random() * 250), 6, diff);
    run(decode(levelsOf(tree, diff), diff, "absolute"), tree, random);
  }
}

describe("top", () => {
  for (const diff of [false, true])
    test(`counts recursion once: ${diff ? "comparison" : "single"}`, () => {
      cases(diff, (flame, tree) => {
        const want = new Map<string, number[]>();
        each(tree, (node, path) => {
          if (path.length === 0) return;
          const row = want.get(node.name) ?? [0, 0, 0, 0];
          want.set(node.name, row);
          const outer = !path.some((above) => above.name === node.name);
          const [left, right] = totals(node);
          row[0]! += node.self;
          row[2]! += node.right;
          if (outer) {
            row[1]! += left;
            row[3]! += right;
          }
        });
        const top = topOf(flame);
        const got = new Map(
          [...top.names].map((name) => [
            flame.names[name]!,
            top.left && top.right
              ? [top.left.self[name]!, top.left.total[name]!, top.right.self[name]!, top.right.total[name]!]
              : [top.self[name]!, top.total[name]!, 0, 0],
          ]),
        );
        for (const [name, row] of want) if (row.some((value) => value > 0)) expect(got.get(name), name).toEqual(row);
        expect([...got.keys()].every((name) => want.has(name))).toBe(true);
      });
    });

  test('"other" is no function, and says how much it may hide', () => {
    const flame = decode(
      {
        names: ["total", "a", "other"],
        levels: [
          [0, 10, 0, 0],
          [0, 6, 1, 1, 0, 4, 4, 2],
          [1, 5, 5, 2],
        ],
      },
      false,
    );
    const top = topOf(flame);
    expect([...top.names]).toEqual([1]);
    expect(top.folded).toBe(9);
  });
});

describe("sandwich", () => {
  for (const diff of [false, true])
    test(`has the totals of the table: ${diff ? "comparison" : "single"}`, () => {
      cases(diff, (flame) => {
        const top = topOf(flame);
        for (const name of top.names) {
          const made = sandwich(flame, flame.names[name]!, "absolute");
          expect(made.total).toBe(top.total[name]);
          expect(made.self).toBe(top.self[name]);
          expect(made.callers.total).toBe(top.total[name]);
          expect(selfSum(made.callees)).toBe(top.total[name]);
          expect(selfSum(made.callers)).toBe(top.total[name]);
          if (top.left && made.callees.left) {
            expect(made.callees.left.total).toBe(top.left.total[name]);
            expect(made.callers.right!.total).toBe(top.right!.total[name]);
          }
        }
      });
    });

  test("callers are the way to the root", () => {
    const leaf = (self: number): Node => ({ name: "work", self, right: 0, children: [] });
    const tree: Node = {
      name: "total",
      self: 0,
      right: 0,
      children: [
        { name: "main", self: 1, right: 0, children: [{ name: "run", self: 0, right: 0, children: [leaf(5)] }, leaf(2)] },
        { name: "gc", self: 3, right: 0, children: [] },
      ],
    };
    const { callers, callees } = sandwich(decode(levelsOf(tree, false), false), "work");
    const value = (path: string[]): number => callers.w[nodeAt(callers, path)]!;
    expect(value(["work"])).toBe(7);
    expect(value(["work", "run"])).toBe(5);
    expect(value(["work", "run", "main"])).toBe(5);
    expect(value(["work", "main"])).toBe(2);
    expect(nodeAt(callers, ["work", "gc"])).toBe(-1);
    expect(callees.count).toBe(1);
  });

  test("a function that is not there has nothing", () => {
    const flame = decode(
      {
        names: ["total", "a"],
        levels: [
          [0, 10, 0, 0],
          [0, 10, 10, 1],
        ],
      },
      false,
    );
    expect(sandwich(flame, "b").total).toBe(0);
  });
});

describe("reshape", () => {
  test("keeps the total, whatever it does", () => {
    for (const diff of [false, true])
      cases(diff, (flame, _tree, random) => {
        const shape = {
          group: random() < 0.5 ? ("package" as const) : ("none" as const),
          collapse: random() < 0.5,
          hide: random() < 0.5 ? ["pkg1/sub"] : [],
          min: random() < 0.5 ? 0.02 : 0,
          width: "absolute" as const,
        };
        const made = reshape(flame, shape);
        expect(made.total).toBe(flame.total);
        expect(selfSum(made)).toBe(flame.total);
        if (flame.left) expect(made.left!.total).toBe(flame.left.total);
        for (let i = 1; i < made.count; i++) {
          const name = made.names[made.name[i]!]!;
          if (shape.hide.length > 0 && shape.group === "none") expect(packageOf(name)).not.toBe("pkg1/sub");
          if (shape.group === "package" || shape.collapse)
            expect(name === made.names[made.name[made.parent[i]!]!] && name !== "other").toBe(false);
          if (shape.min > 0 && name !== "other") expect(made.w[i]! >= shape.min * flame.total).toBe(true);
        }
      });
  });

  test("grouped by package, a package has the total of its functions, each stack once", () => {
    cases(false, (flame, tree) => {
      const want = new Map<string, number>();
      each(tree, (node, path) => {
        if (path.length === 0) return;
        const name = packageOf(node.name);
        if (!path.some((above) => packageOf(above.name) === name)) want.set(name, (want.get(name) ?? 0) + totals(node)[0]);
      });
      const made = reshape(flame, { group: "package" });
      const top = topOf(made);
      for (const [name, total] of want) if (total > 0) expect(top.total[made.names.indexOf(name)], name).toBe(total);
    });
  });

  test("only one package", () => {
    cases(false, (flame) => {
      const made = reshape(flame, { only: "pkg2/sub" });
      for (let i = 1; i < made.count; i++) expect(packageOf(made.names[made.name[i]!]!)).toBe("pkg2/sub");
    });
  });

  test("nothing to do is the same flame graph", () => {
    const flame = decode({ names: ["total"], levels: [[0, 10, 10, 0]] }, false);
    expect(isPlain({ group: "none", collapse: false, hide: [], min: 0 })).toBe(true);
    expect(reshape(flame, {})).toBe(flame);
  });
});

describe("search", () => {
  test("a nested match counts once", () => {
    cases(false, (flame, tree) => {
      let [value, nodes] = [0, 0];
      each(tree, (node, path) => {
        if (path.length === 0 || totals(node)[0] === 0 || !node.name.includes("fn3")) return;
        nodes++;
        if (!path.some((above) => above.name.includes("fn3"))) value += totals(node)[0];
      });
      const found = search(flame, "fn3");
      expect([found.value, found.nodes]).toEqual([value, nodes]);
      expect(found.before[flame.count]).toBe(nodes);
    });
  });

  test("is a regular expression, or else the text", () => {
    expect(patternOf("^json").test("jsonParse")).toBe(true);
    expect(patternOf("JSON").test("json")).toBe(false);
    expect(patternOf("json").test("JSON")).toBe(true);
    expect(patternOf("(*Server").test("api.(*Server).Get")).toBe(true);
    expect(patternOf("a[").test("a[int]")).toBe(true);
  });

  test("goes to the next match and around", () => {
    const flame = decode(
      {
        names: ["total", "a", "b"],
        levels: [
          [0, 10, 0, 0],
          [0, 4, 4, 1, 0, 3, 3, 2, 0, 3, 3, 1],
        ],
      },
      false,
    );
    const found = search(flame, "a");
    expect(nextMatch(flame, found, 0, 1)).toBe(1);
    expect(nextMatch(flame, found, 1, 1)).toBe(3);
    expect(nextMatch(flame, found, 3, 1)).toBe(1);
    expect(nextMatch(flame, found, 1, -1)).toBe(3);
    expect(nextMatch(flame, search(flame, "zzz"), 0, 1)).toBe(-1);
  });
});

describe("call tree", () => {
  const open = (tree: CallTree): number[] => [...Array(tree.flame.count).keys()].filter((node) => tree.isOpen(node));
  const NAMES = ["total", "a", "b", "c"];
  /* a calls b and c, and has a sibling b with less weight. */
  const small = decode(
    {
      names: NAMES,
      levels: [
        [0, 10, 0, 0],
        [0, 8, 0, 1, 0, 2, 1, 2],
        [0, 5, 0, 2, 0, 3, 3, 3, 0, 1, 1, 3],
        [0, 5, 5, 3],
      ],
    },
    false,
  );

  test("opened wholly, it has each node once below its parent", () => {
    cases(false, (flame) => {
      const tree = new CallTree(flame);
      for (let i = 0; i < flame.count; i++) if (tree.isOpen(i)) tree.toggle(i);
      expect(tree.rows()).toEqual([0]);
      for (let i = 0; i < flame.count; i++) tree.toggle(i);
      const rows = tree.rows();
      expect(rows.toSorted((a, b) => a - b)).toEqual([...Array(flame.count).keys()]);
      const place = new Map(rows.map((node, i) => [node, i]));
      for (let i = 1; i < flame.count; i++) expect(place.get(i)!).toBeGreaterThan(place.get(flame.parent[i]!)!);
    });
  });

  test("opens the way to what a search finds", () => {
    cases(false, (flame, _, random) => {
      const name = flame.names[flame.name[Math.floor(random() * flame.count)]!]!;
      const rows = new Set(new CallTree(flame, patternOf(`^${name}$`)).rows());
      const hits = [...Array(flame.count).keys()].filter((node) => flame.names[flame.name[node]!] === name).slice(0, 50);
      for (const hit of hits) expect(rows).toContain(hit);
    });
  });

  test("is the same again from its text", () => {
    cases(false, (flame, _, random) => {
      const tree = new CallTree(flame);
      expect(tree.text()).toBe("");
      const toggled = new Set<number>();
      for (let i = 0; i < 100; i++) toggled.add(Math.floor(random() * flame.count));
      for (const node of toggled) tree.toggle(node);
      const again = new CallTree(flame, null, tree.text());
      expect(open(again)).toEqual(open(tree));
      expect(again.text()).toBe(tree.text());
      expect(tree.text()).toMatch(/^[0-9a-z]*(-[0-9a-z]+)?$/);
      for (const node of toggled) again.toggle(node);
      expect(again.text()).toBe("");
    });
  });

  test("has a text that stays the same, as links have it", () => {
    const tree = new CallTree(small);
    expect(open(tree)).toEqual([0, 1, 3]);
    tree.toggle(1);
    tree.toggle(2);
    expect(tree.text()).toBe("1vmcofc-0bkvf1b");
    expect(openedOf(tree.text())).toBe("1vmcofc");
    expect(open(new CallTree(small, patternOf("c"), "1vmcofc"))).toEqual([0, 1, 2, 3]);
  });

  test("of another profile has what is there of it, and cares for no garbage", () => {
    const tree = new CallTree(small);
    tree.toggle(2);
    tree.toggle(3);
    const other = decode(
      {
        names: NAMES,
        levels: [
          [0, 9, 0, 0],
          [0, 7, 7, 1, 0, 2, 1, 2],
          [7, 1, 1, 1],
        ],
      },
      false,
    );
    expect(open(new CallTree(other, null, tree.text()))).toEqual([0, 2]);
    for (const text of ["-", "--", "0000000", "-zzzzzzz", "A<b>", "ü".repeat(9999), "0".repeat(9999)])
      expect(open(new CallTree(other, null, text)), text).toEqual([0]);
    const none = decode({ names: ["total"], levels: [] }, false);
    expect(new CallTree(none, null, tree.text()).rows()).toEqual([]);
  });

  test("leaves the deepest nodes out of a text that would be too long", () => {
    const depth = 600;
    const names = ["total", ...Array.from({ length: depth }, (_, i) => `f${i}`), "side"];
    /* Each of the path has most of its parent's weight, and a sibling. */
    const levels = [[0, 2 * depth + 1, 0, 0]];
    for (let i = 0; i < depth; i++) levels.push([0, 2 * (depth - i), 1, i + 1, 0, 1, 1, depth + 1]);
    const flame = decode({ names, levels }, false);
    const tree = new CallTree(flame);
    const shut = open(tree);
    for (const node of shut.toReversed()) tree.toggle(node);
    expect(tree.text().length).toBeLessThanOrEqual(TEXT_MAX);
    expect(tree.text().length).toBeGreaterThan(TEXT_MAX - 8);
    const again = new CallTree(flame, null, tree.text());
    const closed = shut.filter((node) => !again.isOpen(node));
    expect(closed).toEqual(shut.slice(0, closed.length));
    expect(closed.length).toBeGreaterThan(200);
    expect(again.text()).toBe(tree.text());
  });
});

describe("focus", () => {
  test("finds the same node again, and a like one in another profile", () => {
    cases(false, (flame) => {
      for (let i = 0; i < flame.count; i++) expect(nodeOf(flame, focusOf(flame, i)), pathOf(flame, i).join("/")).toBe(i);
    });
    const flame = decode(
      {
        names: ["total", "a", "b"],
        levels: [
          [0, 10, 0, 0],
          [0, 9, 0, 1],
          [0, 9, 9, 2],
        ],
      },
      false,
    );
    expect(nodeOf(flame, ["b", "00000000"])).toBe(2);
    expect(nodeOf(flame, ["c", "00000000"])).toBe(0);
    expect(nodeOf(flame, [])).toBe(0);
  });
});

describe("stacks that have a function", () => {
  for (const diff of [false, true])
    test(diff ? "comparison" : "single", () => {
      cases(diff, (flame, tree, random) => {
        const name = flame.names[Math.floor(random() * flame.names.length)]!;
        const want = new Map<string, number>();
        each(tree, (node, path) => {
          const stack = [...path, node];
          if (!stack.some((one) => one.name === name) || node.self + node.right === 0) return;
          const key = stack.map((one) => one.name).join(";");
          want.set(key, (want.get(key) ?? 0) + node.self + node.right);
        });
        const some = reshape(flame, { having: name, width: "absolute" });
        const got = new Map<string, number>();
        for (let i = 0; i < some.count; i++) if (some.self[i]! > 0) got.set(pathOf(some, i).join(";"), some.self[i]!);
        expect(got).toEqual(want);
        expect(some.total).toBe([...want.values()].reduce((sum, one) => sum + one, 0));
      });
    });

  test("of none are none", () => {
    cases(false, (flame) => expect(reshape(flame, { having: "nobody" }).total).toBe(0));
  });
});

describe("siblings", () => {
  test("become one bar with all that is below them, and nothing is lost", () => {
    cases(false, (flame, _, random) => {
      const node = Math.floor(random() * flame.count);
      const made = collapseSiblings(flame, [node]);
      expect(made.total).toBe(flame.total);
      expect(selfSum(made)).toBe(selfSum(flame));
      if (node === 0) {
        expect(made).toBe(flame);
        return;
      }
      const parent = flame.parent[node]!;
      const siblings = flame.child[parent + 1]! - flame.child[parent]! - 1;
      const at = nodeAt(made, pathOf(flame, node));
      expect(made.w[at]).toBe(flame.w[node]);
      expect(hasSiblings(flame, node)).toBe(siblings > 0);
      const above = made.parent[at]!;
      expect(made.child[above + 1]! - made.child[above]!).toBe(siblings > 0 ? 2 : 1);
      let [before, after] = [0, 0];
      for (let child = flame.child[parent]!; child < flame.child[parent + 1]!; child++) before += flame.w[child]!;
      for (let child = made.child[above]!; child < made.child[above + 1]!; child++) {
        after += made.w[child]!;
        if (child !== at) {
          expect(made.names[made.name[child]!]).toBe(siblings === 1 ? "\u2026 1 sibling" : `\u2026 ${siblings} siblings`);
          expect(made.self[child]).toBe(made.w[child]);
        }
      }
      expect(after).toBe(before);
    });
  });

  test("two of one parent both stay", () => {
    const flame = decode(
      {
        names: ["total", "a", "b", "c"],
        levels: [
          [0, 6, 0, 0],
          [0, 1, 1, 1, 0, 2, 2, 2, 0, 3, 3, 3],
        ],
      },
      false,
    );
    const made = collapseSiblings(flame, [1, 2]);
    const names = [1, 2, 3].map((node) => made.names[made.name[node]!]);
    expect(names).toEqual(["a", "b", "\u2026 1 sibling"]);
  });
});
