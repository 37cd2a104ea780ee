/* Numbers by function, made of a flame graph. Those of the server are exact; these are of what the flame graph has. */
import { FOLDED } from "./colors";
import { type Flame } from "./model";

export interface Top {
  flame: Flame;
  names: Uint32Array /* those that have a node, "other" and the root left out */;
  self: Float64Array /* by name */;
  total: Float64Array;
  nodes: Uint32Array;
  left: { self: Float64Array; total: Float64Array } | null;
  right: { self: Float64Array; total: Float64Array } | null;
  folded: number /* what "other" frames have: any function may have more, but no more than this together */;
}

/* One pass in depth: a node counts for the total of its function only if no frame above it has the same name. */
export function topOf(flame: Flame): Top {
  const n = flame.names.length;
  const [left, right] = [flame.left, flame.right];
  const side = (): { self: Float64Array; total: Float64Array } => ({ self: new Float64Array(n), total: new Float64Array(n) });
  const top: Top = {
    flame,
    names: new Uint32Array(0),
    ...side(),
    nodes: new Uint32Array(n),
    left: left ? side() : null,
    right: right ? side() : null,
    folded: 0,
  };
  const active = new Uint32Array(n);
  const other = flame.names.indexOf(FOLDED);
  let node = 0;
  let down = flame.count > 0;
  while (down) {
    const name = flame.name[node]!;
    if (node > 0) {
      top.self[name]! += flame.self[node]!;
      if (left && right) {
        top.left!.self[name]! += left.self[node]!;
        top.right!.self[name]! += right.self[node]!;
      }
      if (active[name] === 0) {
        top.total[name]! += flame.w[node]!;
        if (left && right) {
          top.left!.total[name]! += left.w[node]!;
          top.right!.total[name]! += right.w[node]!;
        }
      }
      top.nodes[name]!++;
      active[name]!++;
      if (name === other) top.folded += flame.self[node]!;
    }
    /* The first child, or else the next sibling of the nearest node that has one. */
    if (flame.child[node]! < flame.child[node + 1]!) {
      node = flame.child[node]!;
      continue;
    }
    down = false;
    while (node > 0 && !down) {
      active[flame.name[node]!]!--;
      const parent = flame.parent[node]!;
      if (node + 1 < flame.child[parent + 1]!) {
        node++;
        down = true;
      } else node = parent;
    }
  }
  const names: number[] = [];
  for (let name = 0; name < n; name++) if (top.nodes[name]! > 0 && name !== other) names.push(name);
  top.names = Uint32Array.from(names);
  return top;
}
