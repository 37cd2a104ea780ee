/* What the pointer shows of a bar, as data and as an element. Names reach the page as text only. */
import { FOLDED } from "./colors";
import { type Cover, SAME_COVER } from "./decode";
import { type Flame } from "./model";
import { packageOf } from "./names";
import { formatChange, formatPoints, formatShare, formatValue, type Unit } from "./units";

export interface TooltipData {
  title: string;
  subtitle: string;
  head: string[] /* empty, or of a comparison: what the columns are */;
  rows: string[][] /* a label, and cells */;
  notes: string[];
  hint: string;
}

export interface TooltipOptions {
  unit: Unit;
  absolute: boolean /* of comparisons: changes of rates instead of shares */;
  cover?: Cover;
  menu?: boolean /* a right click opens one */;
  notes?: (node: number) => string[];
}

function share(value: number, whole: number): string {
  return whole > 0 ? formatShare(value / whole) : "–";
}

export function tooltipOf(flame: Flame, node: number, last: number, options: TooltipOptions): TooltipData {
  if (last > node) return runTooltip(flame, node, last, options);
  const name = flame.names[flame.name[node]!]!;
  const folded = name === FOLDED && node > 0;
  const data: TooltipData = {
    title: folded ? "other" : name,
    subtitle: folded ? "smaller frames, folded by the node limit" : packageOf(name),
    head: [],
    rows: [],
    notes: options.notes?.(node) ?? [],
    hint: folded ? "Click to load these frames" : options.menu ? "Click to zoom · right-click for actions" : "Click to zoom",
  };
  const { left, right } = flame;
  const cover = options.cover ?? SAME_COVER;
  if (left && right) {
    data.head = ["Baseline", "Comparison", "Change"];
    const row = (label: string, a: number, b: number): string[] => [
      label,
      `${formatValue(a, options.unit)}\t${share(a, left.total)}`,
      `${formatValue(b, options.unit)}\t${share(b, right.total)}`,
      options.absolute || left.total === 0 || right.total === 0
        ? rateChange(a / cover[0], b / cover[1])
        : formatPoints(b / right.total - a / left.total),
    ];
    data.rows.push(row("Total", left.w[node]!, right.w[node]!), row("Self", left.self[node]!, right.self[node]!));
    return data;
  }
  const parent = flame.parent[node]!;
  data.rows.push(
    ["Total", formatValue(flame.w[node]!, options.unit), share(flame.w[node]!, flame.total)],
    ["Self", formatValue(flame.self[node]!, options.unit), share(flame.self[node]!, flame.total)],
  );
  if (parent >= 0) data.rows.push(["Of parent", "", share(flame.w[node]!, flame.w[parent]!)]);
  return data;
}

function rateChange(a: number, b: number): string {
  if (a > 0 && b > 0) return formatChange(b / a - 1);
  return b > 0 ? "▲ new" : a > 0 ? "▼ gone" : "–";
}

function runTooltip(flame: Flame, first: number, last: number, options: TooltipOptions): TooltipData {
  let value = 0;
  for (let i = first; i <= last; i++) value += flame.w[i]!;
  return {
    title: `${last - first + 1} frames too small to draw`,
    subtitle: "",
    head: [],
    rows: flame.left ? [] : [["Together", formatValue(value, options.unit), share(value, flame.total)]],
    notes: [],
    hint: "Click to zoom in on them",
  };
}

/* The same in one sentence, for screen readers. */
export function describe(flame: Flame, node: number, unit: Unit): string {
  const name = flame.names[flame.name[node]!]!;
  const level = `level ${flame.level[node]! + 1}`;
  const { left, right } = flame;
  if (left && right)
    return `${name}, ${level}, baseline ${formatValue(left.w[node]!, unit)}, ${share(left.w[node]!, left.total)}, comparison ${formatValue(right.w[node]!, unit)}, ${share(right.w[node]!, right.total)}`;
  return `${name}, ${level}, total ${formatValue(flame.w[node]!, unit)}, ${share(flame.w[node]!, flame.total)}, self ${formatValue(flame.self[node]!, unit)}`;
}

/* A box near the pointer that stays inside the window. */
export class Tooltip {
  private readonly box: HTMLDivElement;

  /* It is a child of what it is about, for the colours of that; fixed, it is cut by nothing. */
  constructor(parent: HTMLElement) {
    this.box = parent.ownerDocument.createElement("div");
    this.box.className = "fg-tip";
    this.box.setAttribute("role", "presentation");
    this.box.hidden = true;
    parent.append(this.box);
  }

  show(data: TooltipData, x: number, y: number): void {
    const doc = this.box.ownerDocument;
    const element = (tag: string, className: string, text: string): HTMLElement => {
      const made = doc.createElement(tag);
      made.className = className;
      made.textContent = text;
      return made;
    };
    this.box.replaceChildren(element("div", "fg-tip-title", data.title));
    if (data.subtitle !== "") this.box.append(element("div", "fg-tip-sub", data.subtitle));
    if (data.rows.length > 0) {
      const table = doc.createElement("table");
      if (data.head.length > 0) {
        const row = table.createTHead().insertRow();
        row.append(doc.createElement("td"), ...data.head.map((text) => element("th", "", text)));
      }
      for (const cells of data.rows) {
        const row = table.insertRow();
        cells.forEach((text, i) => {
          const cell = row.insertCell();
          const [strong, weak] = text.split("\t");
          if (i === 0) cell.textContent = text;
          else if (weak !== undefined) cell.append(element("b", "", strong!), " ", element("span", "fg-tip-weak", weak));
          else if (data.head.length === 0 && i === 1) cell.append(element("b", "", text));
          else cell.textContent = text;
          if (text.startsWith("▲")) cell.className = "fg-inc";
          if (text.startsWith("▼")) cell.className = "fg-dec";
        });
      }
      this.box.append(table);
    }
    for (const note of data.notes) this.box.append(element("div", "fg-tip-note", note));
    if (data.hint !== "") this.box.append(element("div", "fg-tip-hint", data.hint));
    this.box.hidden = false;
    this.place(x, y);
  }

  place(x: number, y: number): void {
    const { clientWidth, clientHeight } = this.box.ownerDocument.documentElement;
    const box = this.box.getBoundingClientRect();
    const left = x + 14 + box.width > clientWidth ? x - 14 - box.width : x + 14;
    const top = y + 16 + box.height > clientHeight ? y - 12 - box.height : y + 16;
    this.box.style.left = `${Math.max(4, Math.min(left, clientWidth - box.width - 4))}px`;
    this.box.style.top = `${Math.max(4, top)}px`;
  }

  hide(): void {
    this.box.hidden = true;
  }

  remove(): void {
    this.box.remove();
  }
}
