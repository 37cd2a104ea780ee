/* Which nodes of a flame graph a search finds, and how much they weigh together. */
import { type Flame } from "./model";

export interface Found {
  text: string;
  byName: Uint8Array;
  names: number;
  nodes: number;
  before: Uint32Array /* how many of the nodes before node i match: count + 1 elements */;
  value: number /* of matching nodes; of one inside another only the outer one */;
  left: number;
  right: number;
}

/* The text itself as a regular expression. */
export function literal(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

/* Finds functions of this name alone. */
export function exactly(name: string): string {
  return `^${literal(name)}$`;
}

/* A regular expression, or the text itself if it is none. Capitals count only if there are any. */
export function patternOf(text: string): RegExp {
  const flags = /\p{Lu}/u.test(text) ? "u" : "iu";
  try {
    return new RegExp(text, flags);
  } catch {
    return new RegExp(literal(text), flags);
  }
}

export function search(flame: Flame, text: string): Found {
  const pattern = patternOf(text);
  const found: Found = {
    text,
    byName: new Uint8Array(flame.names.length),
    names: 0,
    nodes: 0,
    before: new Uint32Array(flame.count + 1),
    value: 0,
    left: 0,
    right: 0,
  };
  const used = new Uint8Array(flame.names.length);
  flame.names.forEach((name, i) => (found.byName[i] = pattern.test(name) ? 1 : 0));
  const covered = new Uint8Array(flame.count); /* the node or one above it matches */
  for (let i = 0; i < flame.count; i++) {
    const name = flame.name[i]!;
    const inside = i > 0 && covered[flame.parent[i]!]! > 0;
    /* The root is no function. */
    const match = i > 0 && found.byName[name]! > 0;
    if (match) {
      found.nodes++;
      used[name] = 1;
      if (!inside) {
        found.value += flame.w[i]!;
        found.left += flame.left ? flame.left.w[i]! : 0;
        found.right += flame.right ? flame.right.w[i]! : 0;
      }
    }
    covered[i] = match || inside ? 1 : 0;
    found.before[i + 1] = found.nodes;
  }
  for (const one of used) found.names += one;
  return found;
}

/* Whether any of the nodes first to last matches. */
export function matchesAny(found: Found, first: number, last: number): boolean {
  return found.before[last + 1]! > found.before[first]!;
}

/* The next node that matches after one, in reading order, around the end; -1 if there is none. */
export function nextMatch(flame: Flame, found: Found, from: number, step: 1 | -1): number {
  for (let i = 1; i <= flame.count; i++) {
    const node = (from + step * i + flame.count * 2) % flame.count;
    if (matchesAny(found, node, node)) return node;
  }
  return -1;
}
