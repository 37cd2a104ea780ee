/*
 * Making one flame graph of another: packages instead of functions, recursion folded, packages hidden, small nodes
 * folded, stacks without a function left out, siblings put together, callers and callees of a function. All add the self values of old nodes to those of a new tree, so every
 * total follows from the same sum.
 */
import { FOLDED } from "./colors";
import { allocate, type DiffWidth, finish, setDiffWidth } from "./decode";
import { type Flame } from "./model";
import { packageOf } from "./names";

/* A tree that grows. Nodes have numbers, parents smaller ones than their children. */
class Tree {
  readonly names: string[] = [];
  readonly name: number[] = [];
  readonly parent: number[] = [];
  readonly a: number[] = []; /* self of the only side, or of the left one */
  readonly b: number[] = [];
  private readonly ids = new Map<string, number>();
  private readonly children = new Map<number, number>();

  constructor(root: string) {
    this.add(-1, this.id(root));
  }

  id(name: string): number {
    let id = this.ids.get(name);
    if (id === undefined) {
      id = this.names.push(name) - 1;
      this.ids.set(name, id);
    }
    return id;
  }

  private add(parent: number, name: number): number {
    this.name.push(name);
    this.parent.push(parent);
    this.a.push(0);
    return this.b.push(0) - 1;
  }

  child(parent: number, name: number): number {
    const key = parent * 2 ** 24 + name;
    let node = this.children.get(key);
    if (node === undefined) {
      node = this.add(parent, name);
      this.children.set(key, node);
    }
    return node;
  }

  weigh(node: number, a: number, b: number): void {
    this.a[node]! += a;
    this.b[node]! += b;
  }

  /* As arrays. Nodes below least become one child "other" of each parent. */
  flame(diff: boolean, width: DiffWidth, least = 0): Flame {
    const n = this.name.length;
    const totalA = Float64Array.from(this.a);
    const totalB = Float64Array.from(this.b);
    for (let node = n - 1; node > 0; node--) {
      totalA[this.parent[node]!]! += totalA[node]!;
      totalB[this.parent[node]!]! += totalB[node]!;
    }
    const first = new Int32Array(n).fill(-1);
    const next = new Int32Array(n).fill(-1);
    for (let node = n - 1; node > 0; node--) {
      next[node] = first[this.parent[node]!]!;
      first[this.parent[node]!] = node;
    }
    const folded = least > 0 ? this.id(FOLDED) : (this.ids.get(FOLDED) ?? -1);
    const names = this.names;
    const order = (x: number, y: number): number => {
      const [i, j] = [this.name[x]!, this.name[y]!];
      if (i === folded || j === folded) return i === folded ? 1 : -1;
      return names[i]! < names[j]! ? -1 : 1;
    };

    const flame = allocate(names, n * (least > 0 ? 2 : 1), diff);
    const source = new Int32Array(n * 2); /* the node of the tree; -1: what was folded */
    const levelStart = [0];
    let count = 0;
    const put = (
      node: number,
      name: number,
      parent: number,
      level: number,
      at: { a: number; b: number },
      a: number,
      b: number,
      selfA: number,
      selfB: number,
    ): void => {
      if (flame.left && flame.right) {
        flame.left.x[count] = at.a;
        flame.left.w[count] = a;
        flame.left.self[count] = selfA;
        flame.right.x[count] = at.b;
        flame.right.w[count] = b;
        flame.right.self[count] = selfB;
      }
      flame.x[count] = at.a + at.b;
      flame.w[count] = a + b;
      flame.self[count] = selfA + selfB;
      flame.name[count] = name;
      flame.parent[count] = parent;
      flame.level[count] = level;
      source[count++] = node;
      at.a += a;
      at.b += b;
    };
    put(0, this.name[0]!, -1, 0, { a: 0, b: 0 }, totalA[0]!, totalB[0]!, this.a[0]!, this.b[0]!);
    levelStart.push(count);
    for (let level = 1; levelStart[level]! > levelStart[level - 1]!; level++) {
      for (let at = levelStart[level - 1]!; at < levelStart[level]!; at++) {
        const node = source[at]!;
        if (node < 0) continue;
        const kept: number[] = [];
        let [restA, restB] = [0, 0];
        for (let child = first[node]!; child >= 0; child = next[child]!) {
          const weight = totalA[child]! + totalB[child]!;
          if (weight <= 0) continue;
          if (weight < least) {
            restA += totalA[child]!;
            restB += totalB[child]!;
          } else kept.push(child);
        }
        kept.sort(order);
        const [left, right] = [flame.left, flame.right];
        const x =
          left && right
            ? { a: left.x[at]! + left.self[at]!, b: right.x[at]! + right.self[at]! }
            : { a: flame.x[at]! + flame.self[at]!, b: 0 };
        for (const child of kept) {
          const whole = this.name[child] === folded;
          put(
            child,
            this.name[child]!,
            at,
            level,
            x,
            totalA[child]! + (whole ? restA : 0),
            totalB[child]! + (whole ? restB : 0),
            this.a[child]! + (whole ? restA : 0),
            this.b[child]! + (whole ? restB : 0),
          );
          if (whole) [restA, restB] = [0, 0];
        }
        if (restA + restB > 0) put(-1, folded, at, level, x, restA, restB, restA, restB);
      }
      levelStart.push(count);
    }
    levelStart.pop();
    finish(flame, count, levelStart);
    if (diff) setDiffWidth(flame, width);
    return flame;
  }
}

export interface Shape {
  group?: "package" | "none" | undefined;
  collapse?: boolean | undefined /* direct recursion becomes one frame */;
  hide?: readonly string[] | undefined /* packages whose frames are left out; what they call stays */;
  only?: string | undefined /* the one package whose frames stay */;
  having?: string | undefined /* the function that all stacks have: others are left out, also of totals */;
  min?: number | undefined /* nodes below this share become "other" */;
  width?: DiffWidth | undefined;
}

export function isPlain(shape: Shape): boolean {
  return !(shape.group === "package" || shape.collapse || shape.hide?.length || shape.only || shape.having || shape.min);
}

const ABOVE = 1;
const IN = 2;

/* Per node: IN if it is a bar of the function or below one, ABOVE if one is below it, else 0. */
function below(flame: Flame, name: string): Uint8Array {
  const id = flame.names.indexOf(name);
  const has = new Uint8Array(flame.count);
  for (let i = 0; i < flame.count; i++) if (flame.name[i] === id || (i > 0 && has[flame.parent[i]!] === IN)) has[i] = IN;
  for (let i = flame.count - 1; i > 0; i--) {
    const parent = flame.parent[i]!;
    if (has[i] !== 0 && has[parent] === 0) has[parent] = ABOVE;
  }
  return has;
}

export function reshape(flame: Flame, shape: Shape): Flame {
  if (isPlain(shape) || flame.count === 0) return flame;
  const packages = flame.names.map(packageOf);
  const hidden = new Set(shape.hide ?? []);
  const tree = new Tree(flame.names[flame.name[0]!]!);
  const grouped = shape.group === "package";
  const ids = flame.names.map((name, i) => tree.id(grouped && name !== FOLDED ? packages[i]! || name : name));
  const [left, right] = [flame.left, flame.right];
  const target = new Int32Array(flame.count);
  const has = shape.having ? below(flame, shape.having) : null;
  for (let i = 0; i < flame.count; i++) {
    if (has?.[i] === 0) continue; /* no stack that is counted goes through it */
    if (i > 0) {
      const above = target[flame.parent[i]!]!;
      const name = flame.name[i]!;
      const out =
        flame.names[name] !== FOLDED && (hidden.has(packages[name]!) || (shape.only !== undefined && packages[name] !== shape.only));
      const same = (grouped || shape.collapse) && above > 0 && tree.name[above] === ids[name];
      target[i] = out || same ? above : tree.child(above, ids[name]!);
    }
    if (has === null || has[i] === IN) tree.weigh(target[i]!, left ? left.self[i]! : flame.self[i]!, right ? right.self[i]! : 0);
  }
  /* In a comparison, a node stays if it is large in the sum of both. */
  const whole = left && right ? left.total + right.total : flame.total;
  return tree.flame(left !== null, shape.width ?? "share", (shape.min ?? 0) * whole);
}

/* Puts the siblings of each of these nodes together, with all below them, as one bar that says how many they are. */
export function collapseSiblings(flame: Flame, nodes: readonly number[]): Flame {
  const kept = new Set(nodes.filter((node) => node > 0));
  if (kept.size === 0) return flame;
  const together = new Map<number, string>(); /* by parent: the name of its siblings' bar */
  for (const node of kept) {
    const parent = flame.parent[node]!;
    let count = 0;
    for (let child = flame.child[parent]!; child < flame.child[parent + 1]!; child++) if (!kept.has(child)) count++;
    together.set(parent, siblingsName(count));
  }
  const tree = new Tree(flame.names[flame.name[0]!]!);
  const [left, right] = [flame.left, flame.right];
  const target = new Int32Array(flame.count);
  const inside = new Uint8Array(flame.count);
  for (let i = 0; i < flame.count; i++) {
    if (i > 0) {
      const parent = flame.parent[i]!;
      const name = together.get(parent);
      if (inside[parent] === 1) {
        target[i] = target[parent]!;
        inside[i] = 1;
      } else if (name !== undefined && !kept.has(i)) {
        target[i] = tree.child(target[parent]!, tree.id(name));
        inside[i] = 1;
      } else target[i] = tree.child(target[parent]!, tree.id(flame.names[flame.name[i]!]!));
    }
    tree.weigh(target[i]!, left ? left.self[i]! : flame.self[i]!, right ? right.self[i]! : 0);
  }
  return tree.flame(left !== null, "share");
}

function siblingsName(count: number): string {
  return `\u2026 ${count} ${count === 1 ? "sibling" : "siblings"}`;
}

/* Whether a node has siblings that collapseSiblings() could put together. */
export function hasSiblings(flame: Flame, node: number): boolean {
  const parent = node > 0 ? flame.parent[node]! : -1;
  return parent >= 0 && flame.child[parent + 1]! - flame.child[parent]! > 1;
}

export interface Sandwich {
  callers: Flame /* its root is the function; what is below it called it */;
  callees: Flame;
  total: number;
  self: number;
}

/* Callers and callees of a function. A stack that has it more than once counts once, from the outermost on. */
export function sandwich(flame: Flame, name: string, width: DiffWidth = "share"): Sandwich {
  const id = flame.names.indexOf(name);
  const callees = new Tree(name);
  const callers = new Tree(name);
  const below = flame.names.map((text) => callees.id(text));
  const above = flame.names.map((text) => callers.id(text));
  const [left, right] = [flame.left, flame.right];
  const target = new Int32Array(flame.count).fill(-1);
  let self = 0;
  for (let i = 0; i < flame.count; i++) {
    const parent = flame.parent[i]!;
    if (parent >= 0 && target[parent]! >= 0) target[i] = callees.child(target[parent]!, below[flame.name[i]!]!);
    else if (flame.name[i] === id) {
      target[i] = 0;
      let at = 0;
      for (let up = parent; up > 0; up = flame.parent[up]!) at = callers.child(at, above[flame.name[up]!]!);
      callers.weigh(at, left ? left.w[i]! : flame.w[i]!, right ? right.w[i]! : 0);
    }
    if (target[i]! >= 0) {
      callees.weigh(target[i]!, left ? left.self[i]! : flame.self[i]!, right ? right.self[i]! : 0);
      if (flame.name[i] === id) self += flame.self[i]!;
    }
  }
  const diff = left !== null;
  const made = { callers: callers.flame(diff, width), callees: callees.flame(diff, width) };
  return { ...made, total: made.callees.total, self };
}
