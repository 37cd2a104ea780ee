import { describe, expect, test } from "vitest";
import { COLOUR_DIM, COLOUR_TINY, makeTheme, singleColours } from "../colors";
import { decode } from "../decode";
import { type SavedOptions, type Sheet, toHtml, toSvg } from "../export";
import { contentHeight, DrawList, itemAt, layout, MIN_BAR, type Viewport } from "../layout";
import { type Flame } from "../model";
import { search } from "../search";
import { largeLevels, levelsOf, mulberry, randomTree } from "./random";

function viewport(flame: Flame, change: Partial<Viewport> = {}): Viewport {
  return { x0: 0, x1: flame.total, width: 800, top: 0, height: 2000, row: 20, ratio: 1, upward: false, skip: 0, ...change };
}

function drawn(flame: Flame, view: Viewport, text = ""): DrawList {
  const list = new DrawList();
  layout(flame, singleColours(flame, "package"), text === "" ? null : search(flame, text), view, list);
  return list;
}

const large = decode(largeLevels(6000), false);

describe("layout", () => {
  test("every node that is seen is in exactly one item of its row, and at its place", () => {
    const random = mulberry(3);
    /* Faults are gathered: an expect() for each of a million checks would take minutes. */
    const faults: string[] = [];
    const must = (right: boolean, what: string): void => {
      if (!right && faults.length < 10) faults.push(what);
    };
    for (let round = 0; round < 40; round++) {
      const x0 = random() * large.total * 0.9;
      const view = viewport(large, round === 0 ? {} : { x0, x1: x0 + (large.total - x0) * random() ** 3, ratio: 1 + (round % 2) });
      const scale = view.width / (view.x1 - view.x0);
      const list = drawn(large, view);
      const seen = new Uint8Array(large.count);
      for (let i = 0; i < list.count; i++) {
        for (let node = list.node[i]!; node <= list.last[i]!; node++) {
          must(seen[node]!++ === 0, `${node} twice`);
          const left = (large.x[node]! - view.x0) * scale;
          const w = large.w[node]! * scale;
          must(list.y[i] === large.level[node]! * 20, `row of ${node}`);
          if (w >= MIN_BAR) {
            must(list.node[i] === list.last[i], `${node} is in a run`);
            must(Math.abs(list.x[i]! - Math.max(left, -4)) <= 0.51, `${node} begins at ${list.x[i]}`);
          } else must(left > list.x[i]! - 1 && left + w < list.x[i]! + list.w[i]! + MIN_BAR + 0.01, `${node} is outside its run`);
        }
      }
      for (let node = 0; node < large.count; node++) {
        const left = (large.x[node]! - view.x0) * scale;
        const visible = left < view.width && large.x[node]! + large.w[node]! > view.x0;
        if (visible) must(seen[node] === 1, `${node} is missing`);
        else must(!seen[node] || left < view.width + MIN_BAR, `${node} is not there`);
      }
    }
    expect(faults).toEqual([]);
  });

  test("a picture has no more items than pixels", () => {
    const view = viewport(large);
    const list = drawn(large, view);
    expect(list.count).toBeLessThanOrEqual((view.width / MIN_BAR + 1) * large.depth);
    expect(list.count).toBeLessThan(large.count / 2);
    let tiny = 0;
    for (let i = 0; i < list.count; i++) if (list.colour[i] === COLOUR_TINY) tiny++;
    expect(tiny).toBeGreaterThan(0);
  });

  test("only rows that are seen are laid out, and scrolling shows the others", () => {
    const view = viewport(large, { height: 100, top: 55 });
    const list = drawn(large, view);
    const levels = new Set<number>();
    for (let i = 0; i < list.count; i++) levels.add(large.level[list.node[i]!]!);
    expect([...levels].sort((a, b) => a - b)).toEqual([2, 3, 4, 5, 6, 7]);
  });

  test("upward, the root is at the bottom", () => {
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
    const list = drawn(flame, viewport(flame, { upward: true, height: 200 }));
    expect([list.y[0], list.y[1]]).toEqual([180, 160]);
    const scrolled = drawn(large, viewport(large, { upward: true, height: 100, top: contentHeight(large, { row: 20, skip: 0 }) - 100 }));
    expect(scrolled.y[0]).toBe(80);
  });

  test("a level may be skipped", () => {
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
    const list = drawn(flame, viewport(flame, { skip: 1 }));
    expect(list.count).toBe(1);
    expect([list.node[0], list.y[0]]).toEqual([1, 0]);
  });

  test("a search dims what it does not find, in runs too", () => {
    const view = viewport(large);
    const found = search(large, "method7$");
    const list = drawn(large, view, "method7$");
    let [lit, dim] = [0, 0];
    for (let i = 0; i < list.count; i++) {
      let any = false;
      for (let node = list.node[i]!; node <= list.last[i]!; node++) any ||= node > 0 && found.byName[large.name[node]!] === 1;
      expect(list.colour[i] !== COLOUR_DIM).toBe(any);
      if (any) lit++;
      else dim++;
    }
    expect(lit).toBeGreaterThan(0);
    expect(dim).toBeGreaterThan(lit);
  });

  test("what the pointer hits is what is drawn there", () => {
    const view = viewport(large);
    const list = drawn(large, view);
    const random = mulberry(11);
    for (let i = 0; i < 500; i++) {
      const item = Math.floor(random() * list.count);
      if (list.w[item]! < 3) continue;
      const hit = itemAt(list, view, list.x[item]! + list.w[item]! / 2, list.y[item]! + 10);
      expect(hit).toBe(item);
    }
    expect(itemAt(list, view, 400, large.depth * 20 + 5)).toBe(-1);
  });

  test("nothing to draw is no item", () => {
    const empty = decode({ names: ["total"], levels: [[0, 0, 0, 0]] }, false);
    expect(drawn(empty, viewport(empty)).count).toBe(0);
    const none = decode({ names: [], levels: [] }, false);
    expect(drawn(none, viewport(none, { x1: 1 })).count).toBe(0);
  });
});

describe("files", () => {
  const nasty = '<img src=x onerror=alert(1)>&"\u0001</script><!--';
  const flame = decode(
    {
      names: ["total", nasty, "other"],
      levels: [
        [0, 100, 0, 0],
        [0, 60, 60, 1, 0, 40, 40, 2],
      ],
    },
    false,
  );
  const sheet: Sheet = {
    flame,
    colours: singleColours(flame, "package"),
    found: null,
    theme: makeTheme(true),
    unit: "count",
    window: [0, 100],
    focus: 0,
    upward: false,
    title: nasty,
    subtitle: "last hour",
  };

  test("a picture of vectors has names as text only", () => {
    const svg = toSvg(sheet, 1200);
    expect(svg).not.toContain("<img");
    expect(svg).not.toContain("\u0001");
    expect(svg.match(/<rect/g)!.length).toBe(1 + 1 + 3 + 1);
    expect(svg).toContain("url(#hatch)");
    expect(svg).toContain("&lt;img src=x");
    expect(svg.match(/<g>/g)!.length).toBe(svg.match(/<\/g>/g)!.length);
  });

  test("a zoomed picture has only rows with bars", () => {
    const big: Sheet = { ...sheet, flame: large, colours: singleColours(large, "package"), window: [0, large.total] };
    const height = (svg: string): number => +/height="(\d+)"/.exec(svg)![1]!;
    let leaf = 0;
    while (large.child[leaf]! < large.child[leaf + 1]!) leaf = large.child[leaf + 1]! - 1;
    const zoomed: Sheet = { ...big, window: [large.x[leaf]!, large.x[leaf]! + large.w[leaf]!] };
    expect(height(toSvg(zoomed, 1000))).toBe((large.level[leaf]! + 1) * 20 + 46 + 12);
    expect(height(toSvg({ ...zoomed, upward: true }, 1000))).toBe(height(toSvg(zoomed, 1000)));
    expect(height(toSvg(big, 1000))).toBe(large.depth * 20 + 46 + 12);
  });

  test("a page of its own has its data and no way out of the elements", () => {
    const options: SavedOptions = {
      title: nasty,
      subtitle: "",
      unit: "count",
      absolute: false,
      cover: [1, 1],
      upward: false,
      colourBy: "package",
      palette: "cb",
      dark: true,
      quiet: null,
    };
    const html = toHtml(flame, options, { script: 'let a = "</script>"', style: "b{}" });
    expect(html.match(/<\/script>/g)).toHaveLength(2);
    expect(html).not.toContain("<img");
    const data = JSON.parse(/id="profile">(.*?)<\/script>/s.exec(html)![1]!) as { names: string[]; levels: number[][]; diff: boolean };
    expect(data.names).toEqual(flame.names);
    expect(decode(data, data.diff).w.slice(0, 3)).toEqual(flame.w.slice(0, 3));
  });

  test("a comparison survives being saved", () => {
    const diff = decode(levelsOf(randomTree(mulberry(5), 200, 9, true), true), true, "absolute");
    const html = toHtml(
      diff,
      {
        title: "",
        subtitle: "",
        unit: "ns",
        absolute: true,
        cover: [60, 600],
        upward: false,
        colourBy: "package",
        palette: "cb",
        dark: false,
        quiet: ["a"],
      },
      { script: "", style: "" },
    );
    const data = JSON.parse(/id="profile">(.*?)<\/script>/s.exec(html)![1]!) as { names: string[]; levels: number[][]; diff: boolean };
    const again = decode(data, data.diff, "absolute");
    expect([...again.right!.w.subarray(0, again.count)]).toEqual([...diff.right!.w.subarray(0, diff.count)]);
  });
});
