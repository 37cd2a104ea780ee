/*
 * How many profiles, or spans, there were by time and by value. Drawn by ourselves on a canvas.
 *
 * A box of time and values is selected by dragging, or by arrow keys with Shift; diamonds are exemplars, single
 * profiles or spans that can be looked at.
 */
import "./charts.css";
import { axisLabels, moment } from "./time";

export interface Exemplar {
  time: number;
  value: number;
  profileId: string;
  spanId: string;
  traceId: string;
  labels: readonly { name: string; value: string }[];
}

export interface HeatmapData {
  from: number /* milliseconds */;
  until: number;
  step: number;
  bounds: readonly number[] /* of rows: the lower bound of each, and the upper one of the last */;
  times: readonly number[] /* when columns end */;
  counts: readonly (readonly number[])[] /* by column, then by row */;
  exemplars: readonly Exemplar[];
}

export interface Box {
  from: number;
  until: number;
  low: number;
  high: number;
}

export interface HeatmapOptions {
  dark: boolean;
  utc: boolean;
  height: number;
  format: (value: number) => string;
  label: string;
  noun: string /* what is counted: "spans" */;
  binary: boolean /* steps of the axis are powers of two */;
}

export interface HeatmapCallbacks {
  onBox?: (box: Box | null) => void;
  onExemplar?: (exemplar: Exemplar) => void;
}

interface Slot {
  timestamp: number | string;
  yMin?: number[];
  counts?: number[];
  exemplars?: {
    timestamp?: number | string;
    value?: number | string;
    profileId?: string;
    spanId?: string;
    traceId?: string;
    labels?: { name: string; value: string }[];
  }[];
}

const MAX_EXEMPLARS = 200; /* more would hide the cells */
const STEPS = 7;
const COLOURS = {
  dark: ["#15304a", "#1a4a70", "#226a97", "#3a90a8", "#67b598", "#b3d587", "#f7efa2"],
  light: ["#dbe9f6", "#b7d5ec", "#86bbdf", "#529dca", "#2b7cb3", "#1b5a92", "#113868"],
} as const;

/* The colour of a count: by square roots, so that small counts next to large ones can be seen. 0 is none. */
export function heatStep(count: number, most: number): number {
  if (count <= 0 || most <= 0) return 0;
  return Math.max(1, Math.ceil(Math.sqrt(count / most) * STEPS));
}

/*
 * The answer of SelectHeatmap. All series are added up: rows have the same bounds. Each cell has an exemplar, which is more than a
 * picture can show: without all, those stay that are the greatest of their column.
 */
export function heatmapOf(series: readonly { slots?: Slot[] }[], from: number, until: number, step: number, all = false): HeatmapData {
  const columns = new Map<number, number[]>();
  let bounds: number[] = [];
  const exemplars: (Exemplar & { column: number })[] = [];
  for (const one of series) {
    for (const slot of one.slots ?? []) {
      const time = +slot.timestamp;
      const low = (slot.yMin ?? []).map(Number);
      if (low.length > bounds.length) bounds = low;
      let counts = columns.get(time);
      if (!counts) columns.set(time, (counts = []));
      for (const [row, count] of (slot.counts ?? []).entries()) counts[row] = (counts[row] ?? 0) + count;
      for (const found of slot.exemplars ?? [])
        exemplars.push({
          column: time,
          time: +(found.timestamp ?? time),
          value: +(found.value ?? 0),
          profileId: found.profileId ?? "",
          spanId: found.spanId ?? "",
          traceId: found.traceId ?? "",
          labels: found.labels ?? [],
        });
    }
  }
  /* Rows are equally high; the last one needs an upper bound. */
  if (bounds.length > 0) {
    const height = bounds.length > 1 ? bounds[1]! - bounds[0]! : Math.max(1, bounds[0]! * 0.01);
    bounds.push(bounds[bounds.length - 1]! + height);
  }
  const times = [...columns.keys()].sort((a, b) => a - b);
  exemplars.sort((a, b) => b.value - a.value || a.time - b.time);
  const seen = new Set<number>();
  return {
    from,
    until,
    step,
    bounds,
    times,
    counts: times.map((time) => columns.get(time)!),
    exemplars: all ? exemplars : exemplars.filter((one) => !seen.has(one.column) && seen.add(one.column)).slice(0, MAX_EXEMPLARS),
  };
}

const DEFAULTS: HeatmapOptions = {
  dark: false,
  utc: true,
  height: 230,
  format: String,
  label: "Heat map",
  noun: "profiles",
  binary: false,
};
const LEFT = 64;
const BOTTOM = 22;
const TOP = 6;
const RIGHT = 16;

export class Heatmap {
  private readonly root: HTMLDivElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly live: HTMLDivElement;
  private readonly tip: HTMLDivElement;
  private readonly ctx: CanvasRenderingContext2D;
  private readonly resize: ResizeObserver;
  private readonly stop = new AbortController();
  private options: HeatmapOptions;
  private data: HeatmapData | null = null;
  private most = 0;
  private box: Box | null = null;
  private drag: { x: number; y: number; moved: boolean } | null = null;
  private cursor: { column: number; row: number } | null = null;
  private anchor: { column: number; row: number } | null = null;
  private hovered: Exemplar | null = null;
  private width = 0;
  private frame = 0;

  constructor(
    container: HTMLElement,
    options: Partial<HeatmapOptions> = {},
    private readonly callbacks: HeatmapCallbacks = {},
  ) {
    this.options = { ...DEFAULTS, ...options };
    const doc = container.ownerDocument;
    this.root = doc.createElement("div");
    this.root.className = "fg-heat";
    this.root.tabIndex = 0;
    this.root.setAttribute("role", "application");
    this.root.setAttribute("aria-roledescription", "heat map");
    this.canvas = doc.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.live = doc.createElement("div");
    this.live.className = "fg-flame-live";
    this.live.setAttribute("aria-live", "polite");
    this.tip = doc.createElement("div");
    this.tip.className = "fg-tip";
    this.tip.hidden = true;
    this.root.append(this.canvas, this.live, this.tip);
    container.append(this.root);
    const ctx = this.canvas.getContext("2d");
    if (!ctx) throw new Error("this browser draws no canvas");
    this.ctx = ctx;
    const signal = this.stop.signal;
    this.canvas.addEventListener("pointerdown", (event) => this.onDown(event), { signal });
    this.canvas.addEventListener("pointermove", (event) => this.onMove(event), { signal });
    this.canvas.addEventListener("pointerup", (event) => this.onUp(event), { signal });
    this.canvas.addEventListener("pointercancel", () => (this.drag = null), { signal });
    this.canvas.addEventListener("pointerleave", () => this.hover(null, null), { signal });
    this.root.addEventListener("keydown", (event) => this.onKey(event), { signal });
    this.root.addEventListener("blur", () => this.schedule(), { signal });
    doc.fonts?.addEventListener("loadingdone", () => this.schedule(), { signal });
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(this.root);
    this.fit();
  }

  destroy(): void {
    this.stop.abort();
    this.resize.disconnect();
    cancelAnimationFrame(this.frame);
    this.root.remove();
  }

  setData(data: HeatmapData | null): void {
    this.data = data;
    this.cursor = null;
    this.anchor = null;
    this.hover(null, null);
    this.most = 0;
    let all = 0;
    for (const column of data?.counts ?? [])
      for (const count of column) {
        /* Rows without a count are holes of the array. */
        this.most = Math.max(this.most, count ?? 0);
        all += count ?? 0;
      }
    const { label, noun, format, utc } = this.options;
    this.root.setAttribute(
      "aria-label",
      data && data.bounds.length > 0
        ? `${label}: ${all.toLocaleString("en-GB")} ${noun}, ${moment(data.from, utc)} to ${moment(data.until, utc)}, values from ${format(data.bounds[0]!)} to ${format(data.bounds[data.bounds.length - 1]!)}. Arrow keys move between cells, with Shift they select a box, Escape clears it.`
        : `${label}: no data`,
    );
    this.schedule();
  }

  setOptions(options: Partial<HeatmapOptions>): void {
    this.options = { ...this.options, ...options };
    this.fit(true);
  }

  /* While a box is being drawn, that one stays. */
  setBox(box: Box | null): void {
    if (this.drag?.moved) return;
    this.box = box;
    this.schedule();
  }

  /* Where a time and a value are, in pixels of the view: for tests. */
  placeOf(time: number, value: number): { x: number; y: number } {
    return { x: this.x(time), y: this.y(value) };
  }

  private fit(force = false): void {
    const width = this.root.clientWidth;
    if (width === 0 || (width === this.width && !force)) return;
    this.width = width;
    this.schedule();
  }

  private schedule(): void {
    if (this.frame === 0)
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
  }

  private get plotWidth(): number {
    return Math.max(1, this.width - LEFT - RIGHT);
  }

  private get plotHeight(): number {
    return Math.max(1, this.options.height - TOP - BOTTOM);
  }

  private x(time: number): number {
    const { from, until } = this.data!;
    return LEFT + ((time - from) / (until - from)) * this.plotWidth;
  }

  private y(value: number): number {
    const bounds = this.data!.bounds;
    const [low, high] = [bounds[0] ?? 0, bounds[bounds.length - 1] ?? 1];
    return TOP + this.plotHeight * (1 - (value - low) / (high - low || 1));
  }

  private timeAt(x: number): number {
    const { from, until } = this.data!;
    return Math.min(until, Math.max(from, from + ((x - LEFT) / this.plotWidth) * (until - from)));
  }

  private valueAt(y: number): number {
    const bounds = this.data!.bounds;
    const [low, high] = [bounds[0] ?? 0, bounds[bounds.length - 1] ?? 1];
    return Math.min(high, Math.max(low, low + (1 - (y - TOP) / this.plotHeight) * (high - low)));
  }

  private draw(): void {
    const { dark, height, utc, format } = this.options;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${height}px`;
    const ctx = this.ctx;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, this.width, height);
    const data = this.data;
    if (!data || data.bounds.length < 2) return;
    const colours = COLOURS[dark ? "dark" : "light"];
    const line = dark ? "#232b35" : "#e2e7ed";
    const text = dark ? "#8390a0" : "#5f6c7d";
    const rows = data.bounds.length - 1;
    const cellHeight = this.plotHeight / rows;
    /* Cells, colour by colour. */
    for (let step = 1; step <= STEPS; step++) {
      ctx.fillStyle = colours[step - 1]!;
      ctx.beginPath();
      data.times.forEach((time, column) => {
        const left = Math.max(LEFT, this.x(time - data.step));
        const right = Math.min(LEFT + this.plotWidth, this.x(time));
        const gap = right - left > 4 ? 1 : 0;
        data.counts[column]!.forEach((count, row) => {
          if (heatStep(count, this.most) !== step) return;
          const top = TOP + this.plotHeight - (row + 1) * cellHeight;
          ctx.rect(left, top, Math.max(1, right - left - gap), Math.max(1, cellHeight - 1));
        });
      });
      ctx.fill();
    }
    /* Axes. */
    ctx.strokeStyle = line;
    ctx.lineWidth = 1;
    ctx.font = "11px 'Inter Variable', Inter, system-ui, sans-serif";
    ctx.fillStyle = text;
    ctx.textBaseline = "middle";
    ctx.textAlign = "right";
    const [low, high] = [data.bounds[0]!, data.bounds[rows]!];
    for (const value of niceValues(low, high, Math.max(2, Math.floor(this.plotHeight / 40)), this.options.binary)) {
      const y = Math.round(this.y(value)) + 0.5;
      ctx.fillText(format(value), LEFT - 6, Math.min(Math.max(y, TOP + 4), height - BOTTOM - 4));
    }
    ctx.textBaseline = "top";
    ctx.textAlign = "center";
    const step = niceStep((data.until - data.from) / Math.max(2, this.plotWidth / 110));
    const times: number[] = [];
    for (let time = Math.ceil(data.from / step) * step; time <= data.until; time += step) times.push(time);
    axisLabels(times, step, utc).forEach((label, i) =>
      ctx.fillText(label.replace("\n", " "), Math.min(Math.max(this.x(times[i]!), LEFT + 16), this.width - 20), height - BOTTOM + 6),
    );
    /* Exemplars: the page's brand colour, with an edge so that they are seen on any cell. */
    for (const exemplar of data.exemplars) {
      const [x, y] = [this.x(exemplar.time), this.y(exemplar.value)];
      const size = exemplar === this.hovered ? 6 : 4;
      ctx.beginPath();
      ctx.moveTo(x, y - size);
      ctx.lineTo(x + size, y);
      ctx.lineTo(x, y + size);
      ctx.lineTo(x - size, y);
      ctx.closePath();
      ctx.fillStyle = dark ? "#ff8b3d" : "#c2540a";
      ctx.strokeStyle = dark ? "#0c0f13" : "#ffffff";
      ctx.lineWidth = 1.5;
      ctx.stroke();
      ctx.fill();
    }
    if (this.box) {
      const [x0, x1] = [this.x(this.box.from), this.x(this.box.until)];
      const [y0, y1] = [this.y(this.box.high), this.y(this.box.low)];
      const accent = dark ? "#6aa8ff" : "#1a62c4";
      ctx.fillStyle = `${accent}30`;
      ctx.fillRect(x0, y0, x1 - x0, y1 - y0);
      ctx.strokeStyle = accent;
      ctx.lineWidth = 1.5;
      ctx.strokeRect(x0, y0, x1 - x0, y1 - y0);
    }
    if (this.cursor && this.root.ownerDocument.activeElement === this.root) {
      const time = data.times[this.cursor.column]!;
      ctx.strokeStyle = dark ? "#ffffff" : "#141a22";
      ctx.lineWidth = 2;
      ctx.strokeRect(
        this.x(time - data.step),
        TOP + this.plotHeight - (this.cursor.row + 1) * cellHeight,
        Math.max(3, this.x(time) - this.x(time - data.step)),
        cellHeight,
      );
    }
  }

  private place(event: PointerEvent): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private exemplarAt(x: number, y: number): Exemplar | null {
    let best: Exemplar | null = null;
    let least = 9;
    for (const exemplar of this.data?.exemplars ?? []) {
      const distance = Math.hypot(this.x(exemplar.time) - x, this.y(exemplar.value) - y);
      if (distance < least) {
        least = distance;
        best = exemplar;
      }
    }
    return best;
  }

  private cellAt(x: number, y: number): { column: number; row: number } | null {
    const data = this.data;
    if (!data || data.bounds.length < 2 || x < LEFT || x > LEFT + this.plotWidth || y < TOP || y > TOP + this.plotHeight) return null;
    const time = this.timeAt(x);
    const column = data.times.findIndex((end) => time <= end && time > end - data.step);
    const rows = data.bounds.length - 1;
    const row = Math.min(rows - 1, Math.floor(((TOP + this.plotHeight - y) / this.plotHeight) * rows));
    return column < 0 ? null : { column, row };
  }

  private onDown(event: PointerEvent): void {
    if (event.button !== 0 || !this.data || this.data.bounds.length < 2) return;
    const { x, y } = this.place(event);
    this.drag = { x, y, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  private onMove(event: PointerEvent): void {
    const { x, y } = this.place(event);
    const drag = this.drag;
    if (!drag) {
      const exemplar = this.data ? this.exemplarAt(x, y) : null;
      this.canvas.style.cursor = exemplar ? "pointer" : "crosshair";
      this.hover(exemplar, this.cellAt(x, y), event);
      return;
    }
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < 4) return;
    drag.moved = true;
    this.hover(null, null);
    this.box = {
      from: Math.round(this.timeAt(Math.min(x, drag.x))),
      until: Math.round(this.timeAt(Math.max(x, drag.x))),
      low: this.valueAt(Math.max(y, drag.y)),
      high: this.valueAt(Math.min(y, drag.y)),
    };
    this.schedule();
  }

  private onUp(event: PointerEvent): void {
    const drag = this.drag;
    this.drag = null;
    if (!drag) return;
    if (drag.moved) {
      this.callbacks.onBox?.(this.box);
      return;
    }
    const { x, y } = this.place(event);
    const exemplar = this.exemplarAt(x, y);
    if (exemplar) this.callbacks.onExemplar?.(exemplar);
    else if (this.box) {
      this.setBox(null);
      this.callbacks.onBox?.(null);
    }
  }

  private hover(exemplar: Exemplar | null, cell: { column: number; row: number } | null, event?: PointerEvent): void {
    if (exemplar !== this.hovered) this.schedule();
    this.hovered = exemplar;
    const data = this.data;
    const count = data && cell ? (data.counts[cell.column]![cell.row] ?? 0) : 0;
    if (!event || !data || (!exemplar && count === 0)) {
      this.tip.hidden = true;
      return;
    }
    const doc = this.tip.ownerDocument;
    const line = (className: string, text: string): HTMLElement => {
      const made = doc.createElement("div");
      made.className = className;
      made.textContent = text;
      return made;
    };
    const { format, utc, noun } = this.options;
    if (exemplar) {
      this.tip.replaceChildren(line("fg-tip-title", format(exemplar.value)), line("fg-tip-sub", moment(exemplar.time, utc)));
      for (const { name, value } of exemplar.labels.filter((label) => !label.name.startsWith("__")).slice(0, 8))
        this.tip.append(line("", `${name} = ${value}`));
      if (exemplar.spanId !== "") this.tip.append(line("", `span ${exemplar.spanId}`));
      this.tip.append(line("fg-tip-hint", "Click to see its flame graph"));
    } else {
      this.tip.replaceChildren(line("fg-tip-title", `${count.toLocaleString("en-GB")} ${noun}`), line("fg-tip-sub", this.cellText(cell!)));
    }
    this.tip.hidden = false;
    const box = this.tip.getBoundingClientRect();
    const { clientWidth, clientHeight } = doc.documentElement;
    this.tip.style.left = `${event.clientX + 14 + box.width > clientWidth ? event.clientX - 14 - box.width : event.clientX + 14}px`;
    this.tip.style.top = `${event.clientY + 16 + box.height > clientHeight ? event.clientY - 12 - box.height : event.clientY + 16}px`;
  }

  private cellText(cell: { column: number; row: number }): string {
    const data = this.data!;
    const { format, utc } = this.options;
    const end = data.times[cell.column]!;
    return `${moment(end - data.step, utc)} to ${moment(end, utc)}, ${format(data.bounds[cell.row]!)} to ${format(data.bounds[cell.row + 1]!)}`;
  }

  private onKey(event: KeyboardEvent): void {
    const data = this.data;
    if (!data || data.times.length === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const moves: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const move = moves[event.key];
    if (move) {
      const from = this.cursor ?? { column: 0, row: 0 };
      const at = this.cursor
        ? {
            column: Math.min(data.times.length - 1, Math.max(0, from.column + move[0])),
            row: Math.min(data.bounds.length - 2, Math.max(0, from.row + move[1])),
          }
        : from;
      this.cursor = at;
      if (event.shiftKey) {
        this.anchor ??= from;
        const [a, b] = [this.anchor, at];
        this.box = {
          from: data.times[Math.min(a.column, b.column)]! - data.step,
          until: data.times[Math.max(a.column, b.column)]!,
          low: data.bounds[Math.min(a.row, b.row)]!,
          high: data.bounds[Math.max(a.row, b.row) + 1]!,
        };
        this.callbacks.onBox?.(this.box);
      } else this.anchor = null;
      const count = data.counts[at.column]![at.row] ?? 0;
      this.live.textContent = `${count.toLocaleString("en-GB")} ${this.options.noun}, ${this.cellText(at)}`;
      this.schedule();
    } else if (event.key === "Escape" && this.box) {
      this.setBox(null);
      this.anchor = null;
      this.callbacks.onBox?.(null);
    } else if (event.key === "Enter" && this.cursor) {
      const end = data.times[this.cursor.column]!;
      const [low, high] = [data.bounds[this.cursor.row]!, data.bounds[this.cursor.row + 1]!];
      const exemplar = data.exemplars.find((one) => one.time > end - data.step && one.time <= end && one.value >= low && one.value <= high);
      if (exemplar) this.callbacks.onExemplar?.(exemplar);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/* Round values of an axis, at most about so many. */
export function niceValues(low: number, high: number, most: number, binary: boolean): number[] {
  const rough = (high - low) / most;
  if (!(rough > 0)) return [low];
  const power = binary ? 2 ** Math.ceil(Math.log2(rough)) : 10 ** Math.floor(Math.log10(rough));
  const step = binary ? power : power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const values: number[] = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) values.push(i * step);
  return values;
}

/* A distance of axis labels that clocks have, at least so long. */
function niceStep(least: number): number {
  const steps = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  for (const seconds of steps) if (seconds * 1000 >= least) return seconds * 1000;
  return Math.ceil(least / 86_400_000) * 86_400_000;
}
