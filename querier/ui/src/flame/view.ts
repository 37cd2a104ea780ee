/*
 * A flame graph in a page: one element with a canvas, for the pointer, the keyboard and screen readers.
 *
 * Knows no framework. Its owner gives it a container, options and callbacks, calls its methods, and calls destroy().
 * All state that a URL keeps (focus, search, direction, colours) is the owner's, who sets it again when it changes;
 * the view says by callbacks what the user wants.
 */
import "./flame.css";
import { type ColourBy, diffColours, FOLDED, makeTheme, singleColours, type DiffPalette, type Theme } from "./colors";
import { type Cover, SAME_COVER } from "./decode";
import { Labels } from "./labels";
import { contentHeight, DrawList, itemAt, layout, rowY, type Viewport } from "./layout";
import { type Flame, isAbove } from "./model";
import { fontOf, paint, type Picture } from "./paint";
import { type Found, nextMatch, search } from "./search";
import { describe, Tooltip, type TooltipData, tooltipOf } from "./tooltip";
import { formatShare, formatValue, type Unit } from "./units";

const ZOOM_MS = 160;
const ANNOUNCE_MS = 250;
const DRAG_PX = 4;
const WHEEL_STEP = 1.0015;
/* The narrowest window: 2^-40 of the whole, beyond which doubles run out of digits. */
const MIN_PART = 2 ** -40;

export interface FlameOptions {
  unit: Unit;
  dark: boolean;
  label: string /* the name for screen readers */;
  upward: boolean /* flame graph: the root at the bottom; else icicle */;
  colourBy: ColourBy;
  palette: DiffPalette /* of comparisons */;
  absolute: boolean /* comparisons by rate instead of share */;
  cover: Cover /* what rates are counted by */;
  quiet: ReadonlySet<string> | null /* functions of a comparison whose change is not significant */;
  rowHeight: number;
  hideRoot: boolean;
  extent: number /* what the whole width stands for, if that is more than the total: for graphs that share a scale */;
  tooltip: boolean;
  notes?: (node: number) => string[] /* more lines of the tooltip */;
}

export interface FlameCallbacks {
  /* The user zoomed to a node; 0 is the root. */
  onZoom?: (node: number) => void;
  /* The user asked for the frames of a node that the limit folded: of "other", or of the focused bar once more. */
  onLoad?: (node: number) => void;
  /* The pointer or the keyboard is at a bar; -1: at none. */
  onHover?: (node: number) => void;
  /* A menu for a bar is asked for, at a place in the window. */
  onMenu?: (node: number, x: number, y: number) => void;
}

const DEFAULTS: FlameOptions = {
  unit: "count",
  dark: false,
  label: "Flame graph",
  upward: false,
  colourBy: "package",
  palette: "cb",
  absolute: false,
  cover: SAME_COVER,
  quiet: null,
  rowHeight: 20,
  hideRoot: false,
  extent: 0,
  tooltip: true,
};

export interface Hit {
  node: number;
  last: number /* above node: a run of bars that are too small to draw */;
}

export class FlameView {
  private readonly root: HTMLDivElement;
  private readonly scroller: HTMLDivElement;
  private readonly spacer: HTMLDivElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly live: HTMLDivElement;
  private readonly ctx: CanvasRenderingContext2D;
  private readonly tip: Tooltip;
  private readonly resize: ResizeObserver;
  private readonly list = new DrawList();
  private readonly stop = new AbortController();

  private options: FlameOptions;
  private flame: Flame | null = null;
  private colours: Uint8Array = new Uint8Array(0);
  private labels: Labels | null = null;
  private readonly letters = new Map<string, number>();
  private theme: Theme;
  private searched = "";
  private found: Found | null = null;
  private x0 = 0;
  private x1 = 1;
  private focused = 0;
  private cursor = -1; /* of the keyboard */
  private hover: Hit | null = null;
  private highlight = -1;
  private width = 0;
  private height = 0;
  private frame = 0;
  private animation: { from: [number, number]; to: [number, number]; start: number } | null = null;
  private drag: { x: number; y: number; x0: number; x1: number; top: number; moved: boolean } | null = null;
  private announceTimer = 0;
  /* How long the last picture took to draw, in ms: for measurements. */
  lastDrawMs = 0;

  constructor(
    container: HTMLElement,
    options: Partial<FlameOptions> = {},
    private readonly callbacks: FlameCallbacks = {},
  ) {
    this.options = { ...DEFAULTS, ...options };
    this.theme = makeTheme(this.options.dark, this.options.palette);
    const doc = container.ownerDocument;
    this.root = doc.createElement("div");
    this.root.className = "fg-flame";
    this.root.tabIndex = 0;
    this.root.setAttribute("role", "application");
    this.root.setAttribute("aria-roledescription", "flame graph");
    this.scroller = doc.createElement("div");
    this.scroller.className = "fg-flame-scroll";
    this.spacer = doc.createElement("div");
    this.canvas = doc.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.live = doc.createElement("div");
    this.live.className = "fg-flame-live";
    this.live.setAttribute("aria-live", "polite");
    this.spacer.append(this.canvas);
    this.scroller.append(this.spacer);
    this.root.append(this.scroller, this.live);
    container.append(this.root);
    const ctx = this.canvas.getContext("2d", { alpha: false });
    if (!ctx) throw new Error("this browser draws no canvas");
    this.ctx = ctx;
    this.tip = new Tooltip(this.root);
    this.listen(doc);
    this.resize = new ResizeObserver(() => this.measure());
    this.resize.observe(this.scroller);
    this.measure();
    this.name();
  }

  destroy(): void {
    this.stop.abort();
    this.resize.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.announceTimer);
    this.tip.remove();
    this.root.remove();
  }

  /* Shows another flame graph. The focus is the root until zoomTo() is called; a search goes on. */
  setFlame(flame: Flame | null): void {
    this.flame = flame;
    this.labels = flame ? new Labels(flame.names, (text) => this.measureText(text)) : null;
    this.animation = null;
    this.focused = 0;
    this.cursor = -1;
    this.hover = null;
    this.highlight = -1;
    this.tip.hide();
    this.x0 = 0;
    this.x1 = this.whole > 0 ? this.whole : 1;
    this.found = flame && this.searched !== "" ? search(flame, this.searched) : null;
    this.recolour();
    this.layOut();
    this.name();
  }

  setOptions(options: Partial<FlameOptions>): void {
    const before = this.options;
    this.options = { ...before, ...options };
    const now = this.options;
    if (before.dark !== now.dark || before.palette !== now.palette) this.theme = makeTheme(now.dark, now.palette);
    if (before.colourBy !== now.colourBy || before.absolute !== now.absolute || before.cover !== now.cover || before.quiet !== now.quiet)
      this.recolour();
    if (before.rowHeight !== now.rowHeight) this.onFont();
    if (before.upward !== now.upward || before.rowHeight !== now.rowHeight || before.hideRoot !== now.hideRoot) this.layOut();
    if (before.extent !== now.extent && this.focused === 0) [this.x0, this.x1] = [0, this.whole || 1];
    if (before.label !== now.label) this.name();
    this.schedule();
  }

  /* Marks what a search finds, and dims the rest; an empty text marks nothing. */
  setSearch(text: string): Found | null {
    this.searched = text;
    this.found = text === "" || !this.flame ? null : search(this.flame, text);
    this.schedule();
    return this.found;
  }

  /* Outlines all bars of a function, as while the pointer is at its row of the table. */
  setHighlight(name: string | null): void {
    const highlight = name === null || !this.flame ? -1 : this.flame.names.indexOf(name);
    if (highlight === this.highlight) return;
    this.highlight = highlight;
    this.schedule();
  }

  get focus(): number {
    return this.focused;
  }

  /* The bar that actions of the keyboard mean: the cursor, or else the focus. */
  get current(): number {
    return this.cursor >= 0 ? this.cursor : this.focused;
  }

  get search(): Found | null {
    return this.found;
  }

  zoomTo(node: number, animate = true): void {
    const flame = this.flame;
    if (!flame || node < 0 || node >= flame.count) return;
    this.focused = node;
    if (this.cursor >= 0 && !isAbove(flame, node, this.cursor)) this.cursor = node;
    if (node === 0) this.moveTo(0, this.whole, animate);
    else this.moveTo(flame.x[node]!, flame.x[node]! + Math.max(flame.w[node]!, flame.total * MIN_PART), animate);
    this.showLevel(Math.max(0, flame.level[node]! - 2), false);
  }

  /* Shows a window of values, as the wheel does. */
  moveTo(x0: number, x1: number, animate: boolean): void {
    const flame = this.flame;
    if (!flame || flame.total === 0) return;
    const span = Math.min(Math.max(x1 - x0, flame.total * MIN_PART), this.whole);
    const from = Math.min(Math.max(0, x0), this.whole - span);
    const to: [number, number] = [from, from + span];
    if (animate && !this.calm()) this.animation = { from: [this.x0, this.x1], to, start: performance.now() };
    else {
      this.animation = null;
      [this.x0, this.x1] = to;
    }
    this.schedule();
  }

  private get whole(): number {
    return Math.max(this.flame?.total ?? 0, this.options.extent);
  }

  get window(): [number, number] {
    return this.animation ? this.animation.to : [this.x0, this.x1];
  }

  /* What is at a place of the canvas, in CSS pixels of the view. */
  hitTest(x: number, y: number): Hit | null {
    const item = itemAt(this.list, this.viewport(), x, y);
    return item < 0 ? null : { node: this.list.node[item]!, last: this.list.last[item]! };
  }

  /* What is drawn, as of the last frame: for tests. */
  get drawList(): DrawList {
    return this.list;
  }

  /* What a picture is drawn with, for exporters. */
  get picture(): {
    flame: Flame;
    colours: Uint8Array;
    found: Found | null;
    theme: Theme;
    options: FlameOptions;
    window: [number, number];
  } | null {
    if (!this.flame) return null;
    return { flame: this.flame, colours: this.colours, found: this.found, theme: this.theme, options: this.options, window: this.window };
  }

  tooltip(hit: Hit): TooltipData | null {
    return this.flame ? tooltipOf(this.flame, hit.node, hit.last, { ...this.options, menu: this.callbacks.onMenu !== undefined }) : null;
  }

  /* Draws now, and not in the next frame. */
  draw(): void {
    const flame = this.flame;
    const start = performance.now();
    const view = this.viewport();
    this.fitCanvas(view.ratio);
    if (!flame || !this.labels) {
      this.list.count = 0;
      this.ctx.setTransform(1, 0, 0, 1, 0, 0);
      this.ctx.fillStyle = this.theme.background;
      this.ctx.fillRect(0, 0, this.canvas.width, this.canvas.height);
    } else {
      layout(flame, this.colours, this.found, view, this.list);
      const marked: { node: number; width: number; dash: boolean }[] = [];
      if (this.hover) marked.push({ node: this.hover.node, width: 1.5, dash: false });
      if (this.cursor >= 0 && this.focusVisible()) marked.push({ node: this.cursor, width: 2, dash: false });
      const picture: Picture = {
        flame,
        list: this.list,
        view,
        theme: this.theme,
        labels: this.labels,
        fontSize: this.fontSize(),
        value: (node) => this.valueOf(node),
        focus: this.focused,
        marked,
        highlight: this.highlight,
      };
      paint(this.ctx, picture);
    }
    this.lastDrawMs = performance.now() - start;
  }

  private valueOf(node: number): string {
    const flame = this.flame!;
    const value = flame.left && flame.right ? flame.left.w[node]! + flame.right.w[node]! : flame.w[node]!;
    return formatValue(value, this.options.unit);
  }

  private fontSize(): number {
    return this.options.rowHeight >= 24 ? 12.5 : this.options.rowHeight <= 18 ? 11 : 11.5;
  }

  /* Letter by letter, since shaping whole names costs more than all else of a first picture. Kerning makes them narrower, if at all. */
  private measureText(text: string): number {
    let width = 0;
    for (const letter of text) {
      let one = this.letters.get(letter);
      if (one === undefined) {
        this.ctx.font = fontOf(this.theme, this.fontSize());
        one = this.ctx.measureText(letter).width;
        this.letters.set(letter, one);
      }
      width += one;
    }
    return width;
  }

  private viewport(): Viewport {
    return {
      x0: this.x0,
      x1: this.x1,
      width: this.width,
      top: this.scroller.scrollTop,
      height: this.height,
      row: this.options.rowHeight,
      ratio: window.devicePixelRatio || 1,
      upward: this.options.upward,
      skip: this.options.hideRoot ? 1 : 0,
    };
  }

  private fitCanvas(ratio: number): void {
    const [width, height] = [Math.max(1, Math.round(this.width * ratio)), Math.max(1, Math.round(this.height * ratio))];
    if (this.canvas.width === width && this.canvas.height === height) return;
    this.canvas.width = width;
    this.canvas.height = height;
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
  }

  private measure(): void {
    const { clientWidth, clientHeight } = this.scroller;
    if (clientWidth === this.width && clientHeight === this.height) return;
    this.width = clientWidth;
    this.height = clientHeight;
    this.layOut();
  }

  /* The scrolled part has the height of all rows; the canvas is as high as what is seen of it. */
  private layOut(): void {
    const rows = this.flame ? contentHeight(this.flame, { row: this.options.rowHeight, skip: this.options.hideRoot ? 1 : 0 }) : 0;
    this.spacer.style.height = `${Math.max(rows, this.height)}px`;
    if (this.options.upward) this.scroller.scrollTop = this.scroller.scrollHeight;
    this.schedule();
  }

  private recolour(): void {
    const flame = this.flame;
    if (!flame) this.colours = new Uint8Array(0);
    else if (flame.left) this.colours = diffColours(flame, this.options.absolute, this.options.quiet, this.options.cover);
    else this.colours = singleColours(flame, this.options.colourBy);
    this.schedule();
  }

  private schedule(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  private tick(now: number): void {
    this.frame = 0;
    const animation = this.animation;
    if (animation) {
      const t = Math.min(1, Math.max(0, (now - animation.start) / ZOOM_MS));
      const eased = 1 - (1 - t) ** 3;
      this.x0 = animation.from[0] + (animation.to[0] - animation.from[0]) * eased;
      this.x1 = animation.from[1] + (animation.to[1] - animation.from[1]) * eased;
      if (t === 1) {
        [this.x0, this.x1] = animation.to;
        this.animation = null;
      } else this.schedule();
    }
    this.draw();
  }

  private calm(): boolean {
    return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  private focusVisible(): boolean {
    return this.root.ownerDocument.activeElement === this.root;
  }

  private name(): void {
    const nodes = this.flame?.count ?? 0;
    this.root.setAttribute(
      "aria-label",
      `${this.options.label}, ${nodes.toLocaleString("en-GB")} frames. Arrow keys move between frames, Enter zooms, Escape resets, N finds the next match.`,
    );
  }

  private listen(doc: Document): void {
    const signal = this.stop.signal;
    this.scroller.addEventListener("scroll", () => this.schedule(), { signal, passive: true });
    this.scroller.addEventListener("wheel", (event) => this.onWheel(event), { signal, passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.onDown(event), { signal });
    this.canvas.addEventListener("pointermove", (event) => this.onMove(event), { signal });
    this.canvas.addEventListener("pointerup", (event) => this.onUp(event), { signal });
    this.canvas.addEventListener("pointercancel", () => (this.drag = null), { signal });
    this.canvas.addEventListener("pointerleave", () => this.setHover(null, 0, 0), { signal });
    this.canvas.addEventListener("contextmenu", (event) => this.onContextMenu(event), { signal });
    this.root.addEventListener("keydown", (event) => this.onKey(event), { signal });
    this.root.addEventListener("focus", () => this.onFocus(), { signal });
    this.root.addEventListener("blur", () => this.schedule(), { signal });
    doc.fonts?.addEventListener("loadingdone", () => this.onFont(), { signal });
  }

  private onFont(): void {
    this.letters.clear();
    this.labels?.clear();
    this.schedule();
  }

  private place(event: MouseEvent): [number, number] {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  private setHover(hit: Hit | null, x: number, y: number): void {
    const changed = hit?.node !== this.hover?.node || hit?.last !== this.hover?.last;
    this.hover = hit;
    if (changed) {
      this.schedule();
      this.canvas.style.cursor = hit ? "pointer" : "";
      this.callbacks.onHover?.(hit && hit.last === hit.node ? hit.node : -1);
    }
    if (!this.options.tooltip) return;
    if (!hit) this.tip.hide();
    else if (changed) this.tip.show(this.tooltip(hit)!, x, y);
    else this.tip.place(x, y);
  }

  /* With Ctrl, or by two fingers on a touchpad, the wheel zooms; with Shift it moves sideways; else the rows scroll. */
  private onWheel(event: WheelEvent): void {
    if (!this.flame) return;
    const span = this.x1 - this.x0;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const at = this.x0 + (this.place(event)[0] / this.width) * span;
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      const factor = WHEEL_STEP ** (event.deltaY * lines);
      this.moveTo(at - (at - this.x0) * factor, at + (this.x1 - at) * factor, false);
      this.setHover(null, 0, 0);
      return;
    }
    const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
    if (sideways === 0) {
      this.setHover(null, 0, 0);
      return;
    }
    event.preventDefault();
    const by = (sideways / this.width) * span;
    this.moveTo(this.x0 + by, this.x1 + by, false);
  }

  private onDown(event: PointerEvent): void {
    if (event.button !== 0 || !this.flame) return;
    const [x, y] = [event.clientX, event.clientY];
    this.drag = { x, y, x0: this.x0, x1: this.x1, top: this.scroller.scrollTop, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  private onMove(event: PointerEvent): void {
    const drag = this.drag;
    if (!drag) {
      const [x, y] = this.place(event);
      this.setHover(this.hitTest(x, y), event.clientX, event.clientY);
      return;
    }
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.moved && Math.hypot(dx, dy) < DRAG_PX) return;
    if (!drag.moved) {
      drag.moved = true;
      this.setHover(null, 0, 0);
      this.canvas.style.cursor = "grabbing";
    }
    const by = (-dx / this.width) * (drag.x1 - drag.x0);
    this.moveTo(drag.x0 + by, drag.x1 + by, false);
    if (event.pointerType !== "touch") this.scroller.scrollTop = drag.top - dy;
  }

  private onUp(event: PointerEvent): void {
    const drag = this.drag;
    this.drag = null;
    this.canvas.style.cursor = "";
    if (!drag || drag.moved || event.button !== 0) return;
    const [x, y] = this.place(event);
    const hit = this.hitTest(x, y);
    if (!hit) return;
    this.tip.hide();
    if (hit.last > hit.node) this.zoomRun(hit);
    else this.choose(hit.node);
  }

  private zoomRun(hit: Hit): void {
    const flame = this.flame!;
    const [from, to] = [flame.x[hit.node]!, flame.x[hit.last]! + flame.w[hit.last]!];
    const margin = (to - from) * 0.1;
    this.moveTo(from - margin, to + margin, true);
  }

  /* A click or Enter: zooms, or asks for what was folded. */
  private choose(node: number): void {
    const flame = this.flame!;
    this.cursor = node;
    const folded = node > 0 && flame.names[flame.name[node]!] === FOLDED;
    if (folded) {
      this.callbacks.onLoad?.(node);
      return;
    }
    const [x0, x1] = this.window;
    const there = node === this.focused && x0 === flame.x[node] && x1 === x0 + flame.w[node]!;
    if (there && node > 0) {
      this.callbacks.onLoad?.(node);
      return;
    }
    this.zoomTo(node);
    this.callbacks.onZoom?.(node);
  }

  private onContextMenu(event: MouseEvent): void {
    const [x, y] = this.place(event);
    const hit = this.hitTest(x, y);
    if (!hit || hit.last > hit.node || !this.callbacks.onMenu) return;
    event.preventDefault();
    this.tip.hide();
    this.cursor = hit.node;
    this.schedule();
    this.callbacks.onMenu(hit.node, event.clientX, event.clientY);
  }

  private onFocus(): void {
    if (this.cursor < 0 && this.flame && this.flame.count > 0) this.cursor = this.focused;
    this.announce();
    this.schedule();
  }

  private onKey(event: KeyboardEvent): void {
    const flame = this.flame;
    if (!flame || flame.count === 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const at = this.current;
    const out = this.options.upward ? "ArrowDown" : "ArrowUp";
    switch (event.key) {
      case "ArrowUp":
      case "ArrowDown":
        if (event.key === out) this.moveCursor(flame.parent[at]!);
        else this.moveCursor(this.widestChild(at));
        break;
      case "ArrowLeft":
        if (at > flame.levelStart[flame.level[at]!]!) this.moveCursor(at - 1);
        break;
      case "ArrowRight":
        if (at + 1 < flame.levelStart[flame.level[at]! + 1]!) this.moveCursor(at + 1);
        break;
      case "Home":
        this.moveCursor(0);
        break;
      case "Enter":
      case " ":
        this.choose(at);
        break;
      case "Escape":
        if (this.focused === 0 && this.x0 === 0 && this.x1 === this.whole) return;
        this.zoomTo(0);
        this.callbacks.onZoom?.(0);
        break;
      case "+":
      case "=":
        this.zoomBy(0.5);
        break;
      case "-":
        this.zoomBy(2);
        break;
      case "n":
      case "N":
        if (!this.found || this.found.nodes === 0) return;
        this.moveCursor(nextMatch(flame, this.found, at, event.key === "n" ? 1 : -1));
        break;
      case "m":
      case "ContextMenu": {
        if (!this.callbacks.onMenu) return;
        const place = this.placeOf(at);
        this.callbacks.onMenu(at, place.x, place.y);
        break;
      }
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  private zoomBy(factor: number): void {
    const [x0, x1] = this.window;
    const flame = this.flame!;
    const at = Math.min(Math.max(flame.x[this.current]! + flame.w[this.current]! / 2, x0), x1);
    this.moveTo(at - (at - x0) * factor, at + (x1 - at) * factor, true);
  }

  /* The widest child; of equal ones the first. */
  private widestChild(node: number): number {
    const flame = this.flame!;
    let best = -1;
    for (let child = flame.child[node]!; child < flame.child[node + 1]!; child++)
      if (best < 0 || flame.w[child]! > flame.w[best]!) best = child;
    return best;
  }

  /* Puts the cursor on a bar and brings it into view. */
  moveCursor(node: number): void {
    const flame = this.flame;
    if (!flame || node < 0) return;
    this.cursor = node;
    const [x0, x1] = this.window;
    const [left, right] = [flame.x[node]!, flame.x[node]! + flame.w[node]!];
    const seen = Math.min(right, x1) - Math.max(left, x0);
    if (seen <= 0 || (right - left < (x1 - x0) / 200 && right - left < flame.total / 200)) {
      const span = Math.max(Math.min(x1 - x0, (right - left) * 20), right - left);
      const middle = (left + right) / 2;
      this.moveTo(middle - span / 2, middle + span / 2, true);
    }
    this.showLevel(flame.level[node]!, true);
    this.announce();
    this.callbacks.onHover?.(node);
    this.schedule();
  }

  /* Scrolls so that a level is seen: at least somewhere, or at the edge where the picture begins. */
  private showLevel(level: number, anywhere: boolean): void {
    const flame = this.flame!;
    const y = rowY(flame, this.viewport(), level);
    const row = this.options.rowHeight;
    if (anywhere && y >= 0 && y + row <= this.height) return;
    const top = this.scroller.scrollTop;
    if (this.options.upward) this.scroller.scrollTop = top + y + row - this.height;
    else this.scroller.scrollTop = anywhere && y > 0 ? top + y + row - this.height : top + y;
  }

  /* Where a bar is in the window. */
  private placeOf(node: number): { x: number; y: number } {
    const flame = this.flame!;
    const box = this.canvas.getBoundingClientRect();
    const scale = this.width / (this.x1 - this.x0);
    const left = Math.max(0, (flame.x[node]! - this.x0) * scale);
    return {
      x: box.left + Math.min(left + 8, this.width),
      y: box.top + rowY(flame, this.viewport(), flame.level[node]!) + this.options.rowHeight,
    };
  }

  private announce(): void {
    clearTimeout(this.announceTimer);
    this.announceTimer = window.setTimeout(() => {
      const flame = this.flame;
      if (!flame || this.cursor < 0) return;
      const notes = this.options.notes?.(this.cursor) ?? [];
      const matched = this.found && this.found.before[this.cursor + 1]! > this.found.before[this.cursor]! ? ["matches the search"] : [];
      this.live.textContent = [describe(flame, this.cursor, this.options.unit), ...matched, ...notes].join(", ");
    }, ANNOUNCE_MS);
  }

  /* What part of the whole the search found, as text. */
  foundText(): string {
    const found = this.found;
    const flame = this.flame;
    if (!found || !flame) return "";
    const share = flame.total > 0 ? formatShare(found.value / flame.total) : "–";
    return `${found.nodes.toLocaleString("en-GB")} frames · ${share}`;
  }
}
