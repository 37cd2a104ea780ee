/*
 * A flame graph as arrays, one element a node.
 *
 * Nodes are numbered breadth first: level by level, from left to right. So the nodes of a level are sorted by x, the
 * children of a node are neighbours, and child[i] .. child[i + 1] are those of node i for every i. There is no object
 * for a node: 100,000 of them would cost more than all drawing.
 *
 * Values are in the unit of the profile and x counts in the same unit from the left edge. Of a comparison, x, w and
 * self are what is drawn (the sum of both sides, or of both shares), and left and right have the values of each side.
 */
export interface Flame {
  names: readonly string[];
  count: number;
  depth: number;
  total: number;
  x: Float64Array;
  w: Float64Array;
  self: Float64Array;
  name: Uint32Array;
  parent: Int32Array /* -1: the root */;
  level: Uint16Array;
  child: Uint32Array /* count + 1 elements */;
  levelStart: Uint32Array /* depth + 1 elements */;
  left: Side | null;
  right: Side | null;
}

/* One side of a comparison. */
export interface Side {
  total: number;
  x: Float64Array;
  w: Float64Array;
  self: Float64Array;
}

/* What the server sends: groups of 4 numbers (offset, total, self, name), or of 7 for a comparison. JSON of protobuf has them as text. */
export interface Levels {
  names: readonly string[];
  levels: readonly (readonly (number | string)[])[];
}

/* Depths beyond this do not fit level: no profile of ours has them, since stacks are limited to 2,048 frames. */
export const MAX_DEPTH = 65535;

export class FlameError extends Error {}

/* Compares are only made of flame graphs with both sides. */
export function isDiff(flame: Flame): flame is Flame & { left: Side; right: Side } {
  return flame.left !== null;
}

/* The names from the root to a node, both included. */
export function pathOf(flame: Flame, node: number): string[] {
  const path: string[] = [];
  for (let at = node; at >= 0; at = flame.parent[at]!) path.push(flame.names[flame.name[at]!]!);
  return path.reverse();
}

/* The node that a path of names leads to, -1 if there is none. The path begins with the root. */
export function nodeAt(flame: Flame, path: readonly string[]): number {
  if (flame.count === 0 || path[0] !== flame.names[flame.name[0]!]) return -1;
  let at = 0;
  for (const step of path.slice(1)) {
    let next = -1;
    for (let child = flame.child[at]!; child < flame.child[at + 1]! && next < 0; child++)
      if (flame.names[flame.name[child]!] === step) next = child;
    if (next < 0) return -1;
    at = next;
  }
  return at;
}

/* The first node of a level whose right edge is beyond x; the end of the level if there is none. */
export function firstRightOf(flame: Flame, level: number, x: number): number {
  let low = flame.levelStart[level]!;
  let high = flame.levelStart[level + 1]!;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (flame.x[middle]! + flame.w[middle]! > x) high = middle;
    else low = middle + 1;
  }
  return low;
}

/* Whether a node is an ancestor of another, or the node itself. */
export function isAbove(flame: Flame, ancestor: number, node: number): boolean {
  let at = node;
  while (at > ancestor) at = flame.parent[at]!;
  return at === ancestor;
}
