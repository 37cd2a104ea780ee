/*
 * Which rectangles a picture of a flame graph has. What is drawn, what the pointer hits and what a test looks at are
 * the same list.
 *
 * Bars narrower than MIN_BAR are merged into runs and skipped by binary search, so a picture never has more items
 * than width / MIN_BAR × visible rows, however many nodes the flame graph has.
 */
import { COLOUR_DIM, COLOUR_TINY } from "./colors";
import { firstRightOf, type Flame } from "./model";
import { type Found, matchesAny } from "./search";

export const MIN_BAR = 1.5;

export interface Viewport {
  x0: number /* in values */;
  x1: number;
  width: number /* in CSS pixels */;
  top: number /* how far the rows are scrolled */;
  height: number;
  row: number;
  ratio: number /* device pixels in a CSS pixel */;
  upward: boolean /* the root is at the bottom */;
  skip: number /* levels that are not shown, from the root on */;
}

/* Items in the order of rows, in a row from left to right. */
export class DrawList {
  count = 0;
  x = new Float32Array(1024);
  y = new Float32Array(1024);
  w = new Float32Array(1024);
  colour = new Uint8Array(1024);
  node = new Int32Array(1024);
  last = new Int32Array(1024); /* the last node of a run; of a bar the node itself */

  push(x: number, y: number, w: number, colour: number, node: number, last: number): void {
    if (this.count === this.x.length) this.grow();
    const i = this.count++;
    this.x[i] = x;
    this.y[i] = y;
    this.w[i] = w;
    this.colour[i] = colour;
    this.node[i] = node;
    this.last[i] = last;
  }

  private grow(): void {
    const room = this.x.length * 2;
    const longer = <T extends Float32Array | Uint8Array | Int32Array>(old: T, made: T): T => {
      made.set(old);
      return made;
    };
    this.x = longer(this.x, new Float32Array(room));
    this.y = longer(this.y, new Float32Array(room));
    this.w = longer(this.w, new Float32Array(room));
    this.colour = longer(this.colour, new Uint8Array(room));
    this.node = longer(this.node, new Int32Array(room));
    this.last = longer(this.last, new Int32Array(room));
  }
}

export function contentHeight(flame: Flame, view: Pick<Viewport, "row" | "skip">): number {
  return Math.max(0, flame.depth - view.skip) * view.row;
}

/* The upper edge of a level's row, in the picture. */
export function rowY(flame: Flame, view: Viewport, level: number): number {
  const shown = level - view.skip;
  const rows = flame.depth - view.skip;
  /* An upward picture that is lower than its place stands on the ground. */
  if (!view.upward) return shown * view.row - view.top;
  return Math.max(rows * view.row, view.height) - (shown + 1) * view.row - view.top;
}

export function layout(flame: Flame, colours: Uint8Array, found: Found | null, view: Viewport, list: DrawList): void {
  list.count = 0;
  const span = view.x1 - view.x0;
  if (flame.count === 0 || !(span > 0) || view.width <= 0) return;
  const scale = view.width / span;
  const snap = (px: number): number => Math.round(px * view.ratio) / view.ratio;
  const gap = 1;
  for (let level = view.skip; level < flame.depth; level++) {
    const y = rowY(flame, view, level);
    if (y + view.row <= 0 || y >= view.height) continue;
    const end = flame.levelStart[level + 1]!;
    let run = -1; /* the item of a run that may go on */
    let i = firstRightOf(flame, level, view.x0);
    while (i < end) {
      const left = (flame.x[i]! - view.x0) * scale;
      if (left >= view.width) break;
      const right = left + flame.w[i]! * scale;
      if (right - left >= MIN_BAR) {
        const from = snap(Math.max(left, -4));
        const to = snap(Math.min(right, view.width + 4));
        const w = Math.max(1 / view.ratio, to - from - (to - from >= 3 ? gap : 0));
        const dim = found !== null && !matchesAny(found, i, i);
        list.push(from, y, w, dim ? COLOUR_DIM : colours[i]!, i, i);
        run = -1;
        i++;
        continue;
      }
      /* All that ends within MIN_BAR of here. */
      const edge = view.x0 + (left + MIN_BAR) / scale;
      let low = i + 1;
      let high = end;
      while (low < high) {
        const middle = (low + high) >>> 1;
        if (flame.x[middle]! + flame.w[middle]! >= edge) high = middle;
        else low = middle + 1;
      }
      const last = low - 1;
      const to = (flame.x[last]! + flame.w[last]! - view.x0) * scale;
      const match = found !== null && matchesAny(found, i, last);
      const colour = found === null ? COLOUR_TINY : match ? colours[i]! : COLOUR_DIM;
      if (run >= 0 && left - (list.x[run]! + list.w[run]!) < 1 && list.colour[run] === colour) {
        list.w[run] = Math.max(list.w[run]!, to - list.x[run]!);
        list.last[run] = last;
      } else {
        run = list.count;
        list.push(snap(left), y, Math.max(1, to - left), colour, i, last);
      }
      i = low;
    }
  }
}

/* The item at a place; -1 if there is none. */
export function itemAt(list: DrawList, view: Viewport, x: number, y: number): number {
  let near = -1;
  for (let i = 0; i < list.count; i++) {
    const top = list.y[i]!;
    if (y < top || y >= top + view.row) continue;
    const left = list.x[i]!;
    const right = left + list.w[i]!;
    if (x >= left && x <= right) return i;
    /* One pixel next to a thin run is near enough for a hand. */
    if (x >= left - 1.5 && x <= right + 1.5) near = i;
  }
  return near;
}
