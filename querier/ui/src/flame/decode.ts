/* Levels of the server to arrays, and back. */
import { type Flame, FlameError, type Levels, MAX_DEPTH, type Side } from "./model";

/* Numbers of a bar. */
const SINGLE_NUMBERS = 4;
export const DIFF_NUMBERS = 7;

/* How wide the bars of a comparison are: the sum of both values, or of both shares of their side. */
export type DiffWidth = "share" | "absolute";

export function decode(input: Levels, diff: boolean, width: DiffWidth = "share"): Flame {
  const step = diff ? DIFF_NUMBERS : SINGLE_NUMBERS;
  const at_name = step - 1;
  let most = 0;
  for (const level of input.levels) {
    if (level.length % step !== 0)
      throw new FlameError(`a level of the flame graph has ${level.length} numbers, which is no multiple of ${step}`);
    most += level.length / step;
  }
  if (input.levels.length > MAX_DEPTH) throw new FlameError(`the flame graph has ${input.levels.length} levels`);

  const flame = allocate(input.names, most, diff);
  const levelStart: number[] = [0];
  let n = 0;
  for (let level = 0; level < input.levels.length; level++) {
    const values = input.levels[level]!;
    const above = level === 0 ? 0 : levelStart[level - 1]!;
    let parent = above;
    let x = 0;
    let xRight = 0;
    for (let i = 0; i < values.length; i += step) {
      const w = number(values[i + 1]);
      const wRight = diff ? number(values[i + 4]) : 0;
      const name = number(values[i + at_name]);
      x += number(values[i]);
      if (diff) xRight += number(values[i + 3]);
      if (!(name < input.names.length)) throw new FlameError(`name ${name} of the flame graph is not in its list`);
      /* What weighs nothing would only make borders ambiguous. */
      if (w + wRight > 0 || level === 0) {
        if (diff) {
          set(flame.left!, n, x, w, number(values[i + 2]));
          set(flame.right!, n, xRight, wRight, number(values[i + 5]));
        }
        flame.x[n] = x + xRight;
        flame.w[n] = w + wRight;
        flame.self[n] = number(values[i + 2]) + (diff ? number(values[i + 5]) : 0);
        flame.name[n] = name;
        flame.level[n] = level;
        if (level === 0) flame.parent[n] = -1;
        else {
          /* By the middle of the bar: edges of sums beyond 2^53 may be off by their last bit. */
          const middle = flame.x[n]! + flame.w[n]! / 2;
          while (parent + 1 < levelStart[level]! && flame.x[parent]! + flame.w[parent]! <= middle) parent++;
          flame.parent[n] = parent;
        }
        n++;
      }
      x += w;
      xRight += wRight;
    }
    if (levelStart[level] === n) break;
    levelStart.push(n);
  }
  if (levelStart.length > 1 && levelStart[1]! > 1)
    throw new FlameError(`the flame graph has ${levelStart[1]} bars in its first level, instead of one`);
  finish(flame, n, levelStart);
  if (diff) setDiffWidth(flame, width);
  return flame;
}

/* int64 in JSON of protobuf is text; beyond 2^53 the rounding is a relative 1e-16, which nobody sees. */
function number(value: number | string | undefined): number {
  const result = +(value ?? NaN);
  if (!(result >= 0 && result < Infinity)) throw new FlameError(`the flame graph has a value ${String(value).slice(0, 40)}`);
  return result;
}

function set(side: Side, at: number, x: number, w: number, self: number): void {
  side.x[at] = x;
  side.w[at] = w;
  side.self[at] = self;
}

/* A flame graph with room for so many nodes, to be filled in and given to finish(). */
export function allocate(names: readonly string[], room: number, diff: boolean): Flame {
  const side = (): Side => ({
    total: 0,
    x: new Float64Array(room),
    w: new Float64Array(room),
    self: new Float64Array(room),
  });
  return {
    names,
    count: 0,
    depth: 0,
    total: 0,
    x: new Float64Array(room),
    w: new Float64Array(room),
    self: new Float64Array(room),
    name: new Uint32Array(room),
    parent: new Int32Array(room),
    level: new Uint16Array(room),
    child: new Uint32Array(room + 1),
    levelStart: new Uint32Array(0),
    left: diff ? side() : null,
    right: diff ? side() : null,
  };
}

/* Sets what follows from the nodes: the children of each, the levels, the totals. */
export function finish(flame: Flame, count: number, levelStart: readonly number[]): void {
  flame.count = count;
  flame.depth = levelStart.length - 1;
  flame.levelStart = Uint32Array.from(levelStart);
  flame.total = count > 0 ? flame.w[0]! : 0;
  for (const side of [flame.left, flame.right]) if (side) side.total = count > 0 ? side.w[0]! : 0;
  /* Children are in the order of their parents, so each one's begin where those of the one before end. */
  let at = flame.depth > 0 ? flame.levelStart[1]! : 0;
  for (let node = 0; node < count; node++) {
    flame.child[node] = at;
    while (at < count && flame.parent[at] === node) at++;
  }
  flame.child[count] = count;
}

/* How much time each side of a comparison covers, in any unit: absolute values of unequal times are compared by their rates. */
export type Cover = readonly [left: number, right: number];
export const SAME_COVER: Cover = [1, 1];

/* Sets how wide bars are. A share is counted in the larger total, a rate in the longer time, so widths stay numbers of the same size. */
export function setDiffWidth(flame: Flame, width: DiffWidth, cover: Cover = SAME_COVER): void {
  const left = flame.left!;
  const right = flame.right!;
  const scale = Math.max(left.total, right.total);
  const longer = Math.max(...cover);
  const factor = (total: number, time: number): number => (width === "absolute" ? longer / time : total > 0 ? scale / total : 1);
  const a = factor(left.total, cover[0]);
  const b = factor(right.total, cover[1]);
  for (let i = 0; i < flame.count; i++) {
    flame.x[i] = left.x[i]! * a + right.x[i]! * b;
    flame.w[i] = left.w[i]! * a + right.w[i]! * b;
    flame.self[i] = left.self[i]! * a + right.self[i]! * b;
  }
  flame.total = flame.count > 0 ? flame.w[0]! : 0;
}

/* The same comparison with bars of other widths. Everything else is shared with the old one. */
export function withDiffWidth(flame: Flame, width: DiffWidth, cover: Cover = SAME_COVER): Flame {
  const room = flame.count;
  const made = { ...flame, x: new Float64Array(room), w: new Float64Array(room), self: new Float64Array(room) };
  setDiffWidth(made, width, cover);
  return made;
}

/* The levels again: for files that are saved. */
export function encode(flame: Flame): { names: string[]; levels: number[][] } {
  const levels: number[][] = [];
  for (let level = 0; level < flame.depth; level++) {
    const values: number[] = [];
    let end = 0;
    let endRight = 0;
    for (let i = flame.levelStart[level]!; i < flame.levelStart[level + 1]!; i++) {
      const left = flame.left ?? flame;
      values.push(left.x[i]! - end, left.w[i]!, left.self[i]!);
      end = left.x[i]! + left.w[i]!;
      if (flame.right) {
        values.push(flame.right.x[i]! - endRight, flame.right.w[i]!, flame.right.self[i]!);
        endRight = flame.right.x[i]! + flame.right.w[i]!;
      }
      values.push(flame.name[i]!);
    }
    levels.push(values);
  }
  return { names: [...flame.names], levels };
}
