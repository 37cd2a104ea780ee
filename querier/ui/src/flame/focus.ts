/* A node in a URL: up to 8 names of its path, the last ones, and a hash of the whole path. */
import { fnv1a } from "./colors";
import { type Flame, pathOf } from "./model";

const NAMES = 8;
const SEPARATOR = "\u001f"; /* in no name of a function */

export function focusOf(flame: Flame, node: number): string[] {
  if (node <= 0) return [];
  const path = pathOf(flame, node);
  return [...path.slice(1).slice(-NAMES), hashOf(path)];
}

/* The node again; of another profile the one with the same path, else the heaviest with the same last names; else the root. */
export function nodeOf(flame: Flame, focus: readonly string[]): number {
  if (focus.length < 2 || flame.count === 0) return 0;
  const hash = focus[focus.length - 1]!;
  const names = focus.slice(0, -1);
  const id = flame.names.indexOf(names[names.length - 1]!);
  let best = 0;
  for (let node = 1; node < flame.count; node++) {
    if (flame.name[node] !== id || !endsWith(flame, node, names)) continue;
    if (hashOf(pathOf(flame, node)) === hash) return node;
    if (best === 0 || flame.w[node]! > flame.w[best]!) best = node;
  }
  return best;
}

function hashOf(path: readonly string[]): string {
  return fnv1a(path.join(SEPARATOR)).toString(16).padStart(8, "0");
}

function endsWith(flame: Flame, node: number, names: readonly string[]): boolean {
  let at = node;
  for (let i = names.length - 1; i >= 0; i--) {
    if (at <= 0 || flame.names[flame.name[at]!] !== names[i]) return false;
    at = flame.parent[at]!;
  }
  return true;
}
