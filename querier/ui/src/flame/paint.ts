/* Draws a list of items with Canvas 2D: bars colour by colour, then patterns, text and outlines. */
import { COLOURS, COLOUR_DIM, COLOUR_FOLDED, COLOUR_ROOT, FOLDED, type Theme } from "./colors";
import { type Labels } from "./labels";
import { type DrawList, type Viewport } from "./layout";
import { type Flame } from "./model";

export const MIN_LABEL = 24;
const PADDING = 4;

export interface Picture {
  flame: Flame;
  list: DrawList;
  view: Viewport;
  theme: Theme;
  labels: Labels;
  fontSize: number;
  value: (node: number) => string;
  focus: number;
  marked: readonly { node: number; width: number; dash: boolean }[];
  highlight: number /* a name whose bars get an outline; -1: none */;
}

export function fontOf(theme: Theme, size: number): string {
  return `500 ${size}px ${theme.font}`;
}

export function paint(ctx: CanvasRenderingContext2D, picture: Picture): void {
  const { view, theme } = picture;
  ctx.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, 0, view.width, view.height);
  paintBars(ctx, picture);
  paintPatterns(ctx, picture);
  paintLabels(ctx, picture);
  paintMarks(ctx, picture);
}

function paintBars(ctx: CanvasRenderingContext2D, { list, view, theme }: Picture): void {
  /* Items in the order of their colours, by counting. */
  const starts = new Uint32Array(COLOURS + 1);
  for (let i = 0; i < list.count; i++) starts[list.colour[i]! + 1]!++;
  for (let c = 0; c < COLOURS; c++) starts[c + 1]! += starts[c]!;
  const order = new Uint32Array(list.count);
  const at = starts.slice();
  for (let i = 0; i < list.count; i++) order[at[list.colour[i]!]!++] = i;
  const height = view.row - 1;
  /* Rectangles of their own, and not as one path: without a GPU, a path of thousands of them takes longer to fill. */
  for (let c = 0; c < COLOURS; c++) {
    if (starts[c] === starts[c + 1]) continue;
    ctx.fillStyle = theme.fills[c]!;
    for (let k = starts[c]!; k < starts[c + 1]!; k++) {
      const i = order[k]!;
      ctx.fillRect(list.x[i]!, list.y[i]!, list.w[i]!, height);
    }
  }
}

/* Hatched: what was folded, and frames that only the left side has. A solid edge: frames that only the right one has. */
function paintPatterns(ctx: CanvasRenderingContext2D, { flame, list, view, theme }: Picture): void {
  const height = view.row - 1;
  const hatched = new Path2D();
  const fresh = new Path2D();
  let [any, anyFresh] = [false, false];
  for (let i = 0; i < list.count; i++) {
    if (list.node[i] !== list.last[i] || list.w[i]! < 3) continue;
    const node = list.node[i]!;
    const gone = flame.right !== null && node > 0 && flame.right.w[node] === 0;
    const isNew = flame.left !== null && node > 0 && flame.left.w[node] === 0;
    if (list.colour[i] === COLOUR_DIM) continue;
    if (gone || list.colour[i] === COLOUR_FOLDED) {
      any = true;
      hatched.rect(list.x[i]!, list.y[i]!, list.w[i]!, height);
    } else if (isNew) {
      anyFresh = true;
      fresh.rect(list.x[i]!, list.y[i]!, 2, height);
    }
  }
  if (any) {
    ctx.save();
    ctx.clip(hatched);
    ctx.strokeStyle = theme.hatch;
    ctx.globalAlpha = 0.55;
    ctx.lineWidth = 1;
    ctx.beginPath();
    for (let x = -view.height; x < view.width; x += 6) {
      ctx.moveTo(x, view.height);
      ctx.lineTo(x + view.height, 0);
    }
    ctx.stroke();
    ctx.restore();
  }
  if (anyFresh) {
    ctx.fillStyle = theme.outline;
    ctx.fill(fresh);
  }
}

/* The text of an item: its name in what room there is, and its value behind a name that is whole. */
export function labelOf(picture: Picture, i: number): { text: string; x: number } | null {
  const { flame, list, view, labels } = picture;
  if (list.node[i] !== list.last[i]) return null;
  const left = Math.max(list.x[i]!, 0);
  const room = Math.min(list.x[i]! + list.w[i]!, view.width) - left - 2 * PADDING;
  if (room < MIN_LABEL - 2 * PADDING) return null;
  const node = list.node[i]!;
  const name = flame.name[node]!;
  const folded = flame.names[name] === FOLDED && list.colour[i] === COLOUR_FOLDED;
  let text = labels.fit(name, room);
  if (text === "") return null;
  if (text === flame.names[name]) {
    const spare = room - labels.fullWidth(name);
    if (folded && spare > 150) text += " (folded by node limit)";
    /* Digits of 11.5 px are at most 7.5 px wide. */
    const value = ` · ${picture.value(node)}`;
    if (spare - (folded && spare > 150 ? 140 : 0) > value.length * picture.fontSize * 0.65) text += value;
  }
  return { text, x: left + PADDING };
}

function paintLabels(ctx: CanvasRenderingContext2D, picture: Picture): void {
  const { flame, list, view, theme } = picture;
  ctx.font = fontOf(theme, picture.fontSize);
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  const above = new Set<number>();
  for (let node = flame.parent[picture.focus] ?? -1; node >= 0; node = flame.parent[node]!) above.add(node);
  let style = "";
  for (let i = 0; i < list.count; i++) {
    if (list.w[i]! < MIN_LABEL) continue;
    const label = labelOf(picture, i);
    if (!label) continue;
    const next = theme.text[list.colour[i]!]!;
    if (next !== style) ctx.fillStyle = style = next;
    const faint = above.size > 0 && above.has(list.node[i]!);
    if (faint) ctx.globalAlpha = 0.6;
    ctx.fillText(label.text, label.x, list.y[i]! + view.row / 2);
    if (faint) ctx.globalAlpha = 1;
  }
}

function paintMarks(ctx: CanvasRenderingContext2D, { flame, list, view, theme, marked, highlight }: Picture): void {
  if (marked.length === 0 && highlight < 0) return;
  const outline = (i: number, width: number, dash: boolean): void => {
    const x = Math.max(list.x[i]!, 0);
    const right = Math.min(list.x[i]! + list.w[i]!, view.width);
    ctx.lineWidth = width;
    ctx.setLineDash(dash ? [3, 2] : []);
    ctx.strokeRect(x + width / 2, list.y[i]! + width / 2, Math.max(1, right - x - width), view.row - 1 - width);
  };
  ctx.strokeStyle = theme.outline;
  if (highlight >= 0)
    for (let i = 0; i < list.count; i++)
      if (list.node[i] === list.last[i] && flame.name[list.node[i]!] === highlight && list.w[i]! > 3 && list.colour[i] !== COLOUR_ROOT)
        outline(i, 1.5, false);
  for (const mark of marked)
    for (let i = 0; i < list.count; i++) if (list.node[i]! <= mark.node && mark.node <= list.last[i]!) outline(i, mark.width, mark.dash);
  ctx.setLineDash([]);
}
