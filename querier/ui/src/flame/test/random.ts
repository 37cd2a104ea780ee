/* Random trees for property tests: the same ones for the same seed. */
import { type Levels } from "../model";

export function mulberry(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/* A tree written down the plain way, which the engine's results are checked against. */
export interface Node {
  name: string;
  self: number;
  right: number;
  children: Node[];
}

export function randomTree(random: () => number, nodes: number, names: number, diff: boolean): Node {
  const root: Node = { name: "total", self: 0, right: 0, children: [] };
  const all = [root];
  for (let i = 1; i < nodes; i++) {
    /* Rather below new nodes than old ones, so that trees get deep and names repeat on a path. */
    const parent = all[Math.floor(all.length * Math.sqrt(random()))]!;
    const name = `pkg${Math.floor(random() * 5)}/sub.fn${Math.floor(random() * names)}`;
    let child = parent.children.find((one) => one.name === name);
    if (!child) {
      child = { name, self: 0, right: 0, children: [] };
      parent.children.push(child);
      all.push(child);
    }
    if (random() < 0.7) child.self += Math.floor(random() * 1000);
    if (diff && random() < 0.7) child.right += Math.floor(random() * 1000);
  }
  return root;
}

export function totals(node: Node): [number, number] {
  let [left, right] = [node.self, node.right];
  for (const child of node.children) {
    const [a, b] = totals(child);
    left += a;
    right += b;
  }
  return [left, right];
}

/* The server's levels of a tree (querier/API.md, flame graphs). */
export function levelsOf(root: Node, diff: boolean, asText = false): Levels {
  const names: string[] = [];
  const ids = new Map<string, number>();
  const id = (name: string): number => {
    if (!ids.has(name)) ids.set(name, names.push(name) - 1);
    return ids.get(name)!;
  };
  const levels: number[][] = [];
  const ends: [number, number][] = [];
  const visit = (node: Node, level: number, x: number, xr: number): void => {
    levels[level] ??= [];
    ends[level] ??= [0, 0];
    const [w, wr] = totals(node);
    const end = ends[level];
    if (diff) levels[level].push(x - end[0], w, node.self, xr - end[1], wr, node.right, id(node.name));
    else levels[level].push(x - end[0], w, node.self, id(node.name));
    end[0] = x + w;
    end[1] = xr + wr;
    let [at, atR] = [x + node.self, xr + node.right];
    for (const child of [...node.children].sort((a, b) => (a.name < b.name ? -1 : 1))) {
      visit(child, level + 1, at, atR);
      const [cw, cwr] = totals(child);
      at += cw;
      atR += cwr;
    }
  };
  visit(root, 0, 0, 0);
  return { names, levels: asText ? levels.map((level) => level.map(String)) : levels };
}

/* A profile of about so many nodes that looks like a program's: some 60 levels deep, and with many small nodes. */
export function largeLevels(nodes: number, seed = 1): Levels {
  const random = mulberry(seed);
  const root: Node = { name: "total", self: 0, right: 0, children: [] };
  const packages = [
    "runtime",
    "net/http",
    "encoding/json",
    "github.com/acme/shop/api",
    "github.com/acme/shop/store",
    "database/sql",
    "regexp/syntax",
  ];
  let count = 1;
  let open = [root];
  while (count < nodes) {
    const next: Node[] = [];
    const width = Math.max(4, nodes / 50);
    for (const parent of open) {
      /* Grows to a width, and then stays: one child in the mean, and none for some. */
      const mean = open.length < width ? 1.25 : 0.98;
      const n = Math.min(nodes - count, random() < 0.35 && open.length > 3 ? 0 : Math.ceil(random() * (2 * mean) ** 1.3));
      for (let i = 0; i < n; i++) {
        const at = packages[Math.floor(random() * packages.length)]!;
        const child: Node = {
          name: `${at}.(*Type${Math.floor(random() * 12)}).method${count % 61}`,
          self: Math.ceil(random() ** 8 * 1e9),
          right: 0,
          children: [],
        };
        parent.children.push(child);
        next.push(child);
        count++;
      }
    }
    open = next.length > 0 ? next : [root];
  }
  return levelsOf(root, false);
}
