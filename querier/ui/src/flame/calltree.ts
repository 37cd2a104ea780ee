/*
 * The flame graph as a list that opens: rows for a tree grid, children by weight.
 *
 * By itself it opens the heaviest path, and the way to what a search finds. What is opened and closed by hand beyond that is a
 * text for the address: hashes of paths, HASH_CHARS characters each, those of opened nodes, "-", and those of closed ones.
 */
import { fnv1a } from "./colors";
import { type Flame } from "./model";

const HITS_MAX = 50; /* nodes that a search opens the way to, those nearest to the root first */
const HASH_CHARS = 7; /* 32 bits with base 36 */
export const TEXT_MAX = 1500; /* characters */

export class CallTree {
  private readonly byItself = new Set<number>();
  private readonly byHand = new Map<number, boolean>(); /* opened, or closed */

  constructor(
    readonly flame: Flame,
    pattern: RegExp | null = null,
    text = "",
  ) {
    if (flame.count === 0) return;
    for (const node of this.hotPath(0)) this.byItself.add(node);
    if (pattern !== null) this.openHits(pattern);
    if (text !== "") this.read(text);
  }

  isOpen(node: number): boolean {
    return this.byHand.get(node) ?? this.byItself.has(node);
  }

  hasChildren(node: number): boolean {
    return this.flame.child[node]! < this.flame.child[node + 1]!;
  }

  toggle(node: number): void {
    if (this.hasChildren(node)) this.put(node, !this.isOpen(node));
  }

  /* Opens a node, and below it the heaviest child as long as it has most of its parent's weight. */
  openHot(node: number): void {
    for (const at of this.hotPath(node)) this.put(at, true);
  }

  /* What is opened and closed by hand. The deepest nodes are left out if there are too many for TEXT_MAX. */
  text(): string {
    if (this.byHand.size === 0) return "";
    const hashes = hashesOf(this.flame);
    const nodes = [...this.byHand.keys()].sort((a, b) => a - b); /* numbers grow with levels */
    const kept = nodes.slice(0, Math.floor((TEXT_MAX - 1) / HASH_CHARS));
    const those = (open: boolean): string =>
      kept
        .filter((node) => this.byHand.get(node) === open)
        .map((node) => hashes[node]!.toString(36).padStart(HASH_CHARS, "0"))
        .join("");
    const closed = those(false);
    return closed === "" ? those(true) : `${those(true)}-${closed}`;
  }

  childrenOf(node: number): number[] {
    const children: number[] = [];
    for (let at = this.flame.child[node]!; at < this.flame.child[node + 1]!; at++) children.push(at);
    return children.sort((a, b) => this.flame.w[b]! - this.flame.w[a]! || a - b);
  }

  /* The nodes that are shown, in order. Their depth is their level. */
  rows(): number[] {
    const rows: number[] = [];
    if (this.flame.count === 0) return rows;
    const stack = [0];
    for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
      rows.push(node);
      if (!this.isOpen(node)) continue;
      const children = this.childrenOf(node);
      for (let i = children.length - 1; i >= 0; i--) stack.push(children[i]!);
    }
    return rows;
  }

  private put(node: number, open: boolean): void {
    if (open === this.byItself.has(node)) this.byHand.delete(node);
    else this.byHand.set(node, open);
  }

  private hotPath(node: number): number[] {
    const path: number[] = [];
    for (let at = node; this.hasChildren(at); ) {
      path.push(at);
      const heaviest = this.childrenOf(at)[0]!;
      if (this.flame.w[heaviest]! < this.flame.w[at]! / 2) break;
      at = heaviest;
    }
    return path;
  }

  private openHits(pattern: RegExp): void {
    const { flame } = this;
    for (let node = 1, hits = 0; node < flame.count && hits < HITS_MAX; node++) {
      if (!pattern.test(flame.names[flame.name[node]!]!)) continue;
      hits++;
      for (let at = flame.parent[node]!; at >= 0; at = flame.parent[at]!) this.byItself.add(at);
    }
  }

  /* Nodes that this flame graph does not have are left out, and so is what is no hash. */
  private read(text: string): void {
    const [opened = "", closed = ""] = text.slice(0, TEXT_MAX).split("-");
    const wanted = new Map<number, boolean>();
    for (const [hash] of opened.matchAll(HASHES)) wanted.set(parseInt(hash, 36), true);
    for (const [hash] of closed.matchAll(HASHES)) wanted.set(parseInt(hash, 36), false);
    const hashes = hashesOf(this.flame);
    for (let node = 0; node < this.flame.count; node++) {
      const open = wanted.get(hashes[node]!);
      if (open !== undefined && this.hasChildren(node)) this.byHand.set(node, open);
    }
  }
}

const HASHES = new RegExp(`[0-9a-z]{${HASH_CHARS}}`, "g");

/* The text without nodes that are closed: a new search also opens the way to what it finds below those. */
export function openedOf(text: string): string {
  return text.split("-", 1)[0]!;
}

/* A hash of the names from the root for each node, the same in all versions: they are in links. */
function hashesOf(flame: Flame): Uint32Array {
  const names = new Map<number, number>(); /* of the names that nodes have */
  const hashes = new Uint32Array(flame.count);
  for (let node = 0; node < flame.count; node++) {
    const id = flame.name[node]!;
    let name = names.get(id);
    if (name === undefined) {
      name = fnv1a(flame.names[id]!);
      names.set(id, name);
    }
    const above = node === 0 ? 0 : hashes[flame.parent[node]!]!;
    hashes[node] = Math.imul(above ^ name, 0x01000193) ^ (above >>> 15); /* parents come before their children */
  }
  return hashes;
}
