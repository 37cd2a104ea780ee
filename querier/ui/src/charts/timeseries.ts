/*
 * Series over time with a range to select, around uPlot. Knows no framework, as the flame graph does not.
 *
 * The pointer selects by dragging. The keyboard does by two handles, sliders at the edges of the selection; without
 * one they are at the edges of the chart. Marks are moments that matter, such as deploys.
 */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import "./charts.css";
import { mix } from "../flame/colors";
import { alone, numbersOf, type Series, stack } from "./series";
import { axisLabels, moment } from "./time";

export interface Mark {
  time: number;
  title: string;
  kind: "deploy" | "incident" | "test" | "other";
}

export interface Range {
  from: number;
  until: number;
}

export interface ChartData {
  times: readonly number[] /* milliseconds; all series have a value, or null, for each */;
  series: readonly Series[];
  from: number /* what the axis shows */;
  until: number;
}

export interface ChartOptions {
  dark: boolean;
  utc: boolean;
  mode: "lines" | "stacked";
  height: number;
  format: (value: number) => string;
  binary: boolean /* steps of the axis are powers of two */;
  label: string;
  colour: string | null /* of the selection; null: the accent */;
  selectable: boolean;
  marks: readonly Mark[];
  most: number | null /* the end of the value axis; null: what the series need. For charts that share a scale */;
}

export interface ChartCallbacks {
  /* done is false while dragging goes on. null: nothing is selected any more. */
  onSelect?: (range: Range | null, done: boolean) => void;
  onHover?: (time: number | null) => void;
}

const DEFAULTS: ChartOptions = {
  dark: false,
  utc: true,
  mode: "lines",
  height: 112,
  format: String,
  binary: false,
  label: "Values over time",
  colour: null,
  selectable: true,
  marks: [],
  most: null,
};

const LEGEND_ROWS = 12;
const MARK_NEAR_PX = 6;

export class TimeSeriesChart {
  private readonly root: HTMLDivElement;
  private readonly picture: HTMLDivElement;
  private readonly legend: HTMLDivElement;
  private readonly handles: [HTMLDivElement, HTMLDivElement];
  private readonly resize: ResizeObserver;
  private readonly stop = new AbortController();
  private options: ChartOptions;
  private data: ChartData = { times: [], series: [], from: 0, until: 1 };
  private plot: uPlot | null = null;
  private selection: Range | null = null;
  private width = 0;
  private drag: { handle: 0 | 1 } | null = null;
  private silent = false;
  private held = false; /* the pointer is down on the plot */
  private late = false; /* it has to be built again when the pointer is up */

  constructor(
    container: HTMLElement,
    options: Partial<ChartOptions> = {},
    private readonly callbacks: ChartCallbacks = {},
  ) {
    this.options = { ...DEFAULTS, ...options };
    const doc = container.ownerDocument;
    const div = (className: string): HTMLDivElement => {
      const made = doc.createElement("div");
      made.className = className;
      return made;
    };
    this.root = div("fg-chart");
    this.picture = div("fg-chart-picture");
    this.picture.setAttribute("role", "img");
    this.legend = div("fg-tip fg-chart-legend");
    this.legend.hidden = true;
    this.handles = [div("fg-chart-handle"), div("fg-chart-handle")];
    this.handles.forEach((handle, i) => this.makeHandle(handle, i as 0 | 1));
    this.root.append(this.picture, ...this.handles, this.legend);
    container.append(this.root);
    const { signal } = this.stop;
    this.picture.addEventListener("pointerdown", () => (this.held = true), { signal });
    for (const end of ["pointerup", "pointercancel"]) doc.addEventListener(end, () => this.release(), { signal });
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(this.root);
    doc.fonts?.addEventListener("loadingdone", () => this.plot?.redraw(), { signal: this.stop.signal });
    this.fit();
  }

  destroy(): void {
    this.stop.abort();
    this.resize.disconnect();
    this.plot?.destroy();
    this.root.remove();
  }

  setData(data: ChartData): void {
    this.data = data;
    this.build();
  }

  setOptions(options: Partial<ChartOptions>): void {
    const before = this.options;
    this.options = { ...before, ...options };
    if ((Object.keys(options) as (keyof ChartOptions)[]).some((key) => before[key] !== this.options[key])) this.build();
  }

  /* Shows a selection without saying so to its owner. */
  setSelection(range: Range | null): void {
    this.selection = range;
    this.showSelection();
  }

  /* Where a time is, in pixels of the window: for tests. */
  clientX(time: number): number {
    const over = this.plot?.over.getBoundingClientRect();
    return over ? over.left + this.plot!.valToPos(time / 1000, "x") : NaN;
  }

  private fit(): void {
    const width = this.root.clientWidth;
    if (width === this.width || width === 0) return;
    this.width = width;
    this.build();
  }

  /* After uPlot has taken the selection, which it does by the mouse event that follows. */
  private release(): void {
    if (!this.held) return;
    setTimeout(() => {
      this.held = false;
      if (this.late && !this.stop.signal.aborted) this.build();
      this.late = false;
    });
  }

  private get step(): number {
    return this.data.times.length > 1 ? this.data.times[1]! - this.data.times[0]! : 1000;
  }

  private build(): void {
    /* New data must not take the plot from under a hand that drags over it. */
    if (this.held) {
      this.late = true;
      return;
    }
    this.plot?.destroy();
    this.plot = null;
    this.legend.hidden = true;
    if (this.width === 0) return;
    const { dark, height, mode } = this.options;
    const series = this.data.series;
    /* Stacked ones are drawn from the top sum down, each over the one before it. */
    const sums = mode === "stacked" ? stack(series) : null;
    const order = series.map((_, i) => (sums ? series.length - 1 - i : i));
    const values = order.map((i) => (sums ? sums[i]! : (series[i]!.values as (number | null)[])));
    const line = dark ? "#232b35" : "#e2e7ed";
    const text = dark ? "#8390a0" : "#5f6c7d";
    const days = this.data.until - this.data.from > 6 * 3600_000;
    const axis = {
      stroke: text,
      font: "11px 'Inter Variable', Inter, system-ui, sans-serif",
      grid: { stroke: line, width: 1 },
      ticks: { show: false },
    };
    const incrs = Array.from({ length: 60 }, (_, i) => 2 ** i);
    this.plot = new uPlot(
      {
        width: this.width,
        height,
        padding: [6, 16, 0, 0],
        legend: { show: false },
        tzDate: (seconds) => (this.options.utc ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000)),
        scales: {
          x: { range: () => [this.data.from / 1000, this.data.until / 1000] },
          y: { range: (_, __, max) => [0, this.options.most ?? (max > 0 ? max * 1.08 : 1)] },
        },
        axes: [
          {
            ...axis,
            size: days ? 34 : 22,
            gap: 4,
            space: 70,
            values: (_, splits, __, ___, incr) =>
              axisLabels(
                splits.map((s) => s * 1000),
                incr * 1000,
                this.options.utc,
              ),
          },
          {
            ...axis,
            /* Zeros that make columns even have no place at an axis: 0.20 cores is 0.2 cores. */
            size: 64,
            gap: 6,
            space: 28,
            ...(this.options.binary ? { incrs } : {}),
            values: (_, splits) =>
              splits.map((value) =>
                this.options
                  .format(value)
                  .replace(/(\.\d*?)0+(?=\D|$)/, "$1")
                  .replace(/\.(?=\D|$)/, ""),
              ),
          },
        ],
        series: [
          {},
          ...order.map((i) => ({
            label: series[i]!.name,
            stroke: series[i]!.colour,
            width: 1.5,
            points: { show: true, size: 4, filter: (plot: uPlot, of: number) => alone(plot.data[of]!) },
            dash: sums ? [] : [...series[i]!.dash],
            ...(sums
              ? { fill: mix(dark ? "#12161c" : "#ffffff", series[i]!.colour, dark ? 0.65 : 0.5) }
              : series.length === 1
                ? { fill: `${series[i]!.colour}2e` }
                : {}),
          })),
        ],
        cursor: {
          drag: { x: this.options.selectable, y: false, setScale: false, dist: 4 },
          points: { size: 6 },
          y: false,
          focus: { prox: -1 },
        },
        hooks: {
          ready: [() => this.showSelection()],
          setSelect: [(plot) => this.onSelect(plot)],
          setCursor: [(plot) => this.onCursor(plot)],
          draw: [(plot) => this.drawMarks(plot)],
        },
      },
      [this.data.times.map((ms) => ms / 1000), ...values] as uPlot.AlignedData,
      this.picture,
    );
    this.root.style.setProperty("--fg-select", this.options.colour ?? "var(--accent)");
    this.describe();
    this.showSelection();
  }

  private describe(): void {
    const { series, from, until } = this.data;
    const { utc, format, label, marks } = this.options;
    const parts = [`${label}, ${moment(from, utc)} to ${moment(until, utc)}`];
    for (const one of series.slice(0, 10)) {
      const { mean, max, count } = numbersOf(one.values);
      parts.push(count > 0 ? `${one.name}: mean ${format(mean)}, greatest ${format(max)}` : `${one.name}: no data`);
    }
    if (series.length > 10) parts.push(`and ${series.length - 10} more`);
    for (const mark of marks.slice(0, 10)) parts.push(`${mark.kind} at ${moment(mark.time, utc)}: ${mark.title}`);
    this.picture.setAttribute("aria-label", `${parts.join(". ")}.`);
  }

  private drawMarks(plot: uPlot): void {
    const { ctx } = plot;
    const { left, top, width, height } = plot.bbox;
    for (const mark of this.options.marks) {
      const x = Math.round(plot.valToPos(mark.time / 1000, "x", true));
      if (x < left || x > left + width) continue;
      const colour = mark.kind === "incident" ? (this.options.dark ? "#f2777a" : "#c0343a") : this.options.dark ? "#a9b4c2" : "#465262";
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = colour;
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(x + 0.5, top);
      ctx.lineTo(x + 0.5, top + height);
      ctx.stroke();
      const size = 4.5 * devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(x - size, top);
      ctx.lineTo(x + size, top);
      ctx.lineTo(x, top + size * 1.4);
      ctx.fill();
      ctx.restore();
    }
  }

  private onSelect(plot: uPlot): void {
    if (this.silent) return;
    const { left, width } = plot.select;
    if (width < 4) return;
    const from = Math.round(plot.posToVal(left, "x") * 1000);
    const until = Math.round(plot.posToVal(left + width, "x") * 1000);
    this.selection = { from: Math.max(from, this.data.from), until: Math.min(until, this.data.until) };
    this.showSelection();
    this.callbacks.onSelect?.(this.selection, true);
  }

  /* uPlot draws a box; handles are at its edges. */
  private showSelection(): void {
    const plot = this.plot;
    if (!plot) return;
    const range = this.selection;
    const [low, high] = [this.data.from, this.data.until];
    const x = (ms: number): number => plot.valToPos(Math.min(Math.max(ms, low), high) / 1000, "x");
    /* Where uPlot has put the plot, by its own account: asking the document would make it lay out all of the page. */
    const { left: plotLeft, top: plotTop, height: plotHeight } = plot.bbox;
    const height = plotHeight / devicePixelRatio;
    const [left, right] = range ? [x(range.from), x(range.until)] : [0, 0];
    this.silent = true;
    plot.setSelect({ left, top: 0, width: Math.max(0, right - left), height }, false);
    this.silent = false;
    const edges = [range?.from ?? low, range?.until ?? high];
    this.handles.forEach((handle, i) => {
      handle.hidden = !this.options.selectable;
      handle.classList.toggle("fg-chart-handle-idle", range === null);
      handle.style.left = `${plotLeft / devicePixelRatio + x(edges[i]!)}px`;
      handle.style.top = `${plotTop / devicePixelRatio}px`;
      handle.style.height = `${height}px`;
      handle.setAttribute("aria-valuemin", String(Math.round(low)));
      handle.setAttribute("aria-valuemax", String(Math.round(high)));
      handle.setAttribute("aria-valuenow", String(Math.round(edges[i]!)));
      handle.setAttribute("aria-valuetext", moment(edges[i]!, this.options.utc));
    });
  }

  private makeHandle(handle: HTMLDivElement, i: 0 | 1): void {
    const signal = this.stop.signal;
    handle.tabIndex = 0;
    handle.setAttribute("role", "slider");
    handle.setAttribute("aria-label", i === 0 ? "Start of the selection" : "End of the selection");
    handle.addEventListener("keydown", (event) => this.onHandleKey(event, i), { signal });
    handle.addEventListener(
      "pointerdown",
      (event) => {
        if (event.button !== 0) return;
        this.drag = { handle: i };
        handle.setPointerCapture(event.pointerId);
        event.preventDefault();
        handle.focus();
      },
      { signal },
    );
    handle.addEventListener(
      "pointermove",
      (event) => {
        if (!this.drag || !this.plot) return;
        const over = this.plot.over.getBoundingClientRect();
        this.moveEdge(i, this.plot.posToVal(event.clientX - over.left, "x") * 1000, false);
      },
      { signal },
    );
    handle.addEventListener(
      "pointerup",
      () => {
        if (!this.drag) return;
        this.drag = null;
        if (this.selection) this.callbacks.onSelect?.(this.selection, true);
      },
      { signal },
    );
  }

  private onHandleKey(event: KeyboardEvent, i: 0 | 1): void {
    const { from, until } = this.data;
    const at = i === 0 ? (this.selection?.from ?? from) : (this.selection?.until ?? until);
    const step = this.step;
    const keys: Record<string, number> = {
      ArrowLeft: at - step,
      ArrowDown: at - step,
      ArrowRight: at + step,
      ArrowUp: at + step,
      PageDown: at - 10 * step,
      PageUp: at + 10 * step,
      Home: from,
      End: until,
    };
    if (event.key === "Escape" && this.selection) {
      this.setSelection(null);
      this.callbacks.onSelect?.(null, true);
    } else if (event.key in keys) this.moveEdge(i, keys[event.key]!, true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /* Edges stop at each other, a step apart. */
  private moveEdge(i: 0 | 1, to: number, done: boolean): void {
    const { from, until } = this.data;
    const now = this.selection ?? { from, until };
    const step = Math.min(this.step, until - from);
    const next =
      i === 0
        ? { from: Math.round(Math.min(Math.max(from, to), now.until - step)), until: now.until }
        : { from: now.from, until: Math.round(Math.max(Math.min(until, to), now.from + step)) };
    this.selection = next;
    this.showSelection();
    this.callbacks.onSelect?.(next, done);
  }

  private onCursor(plot: uPlot): void {
    const i = plot.cursor.idx;
    const left = plot.cursor.left ?? -1;
    if (i === null || i === undefined || left < 0 || this.data.times.length === 0) {
      this.legend.hidden = true;
      this.callbacks.onHover?.(null);
      return;
    }
    const time = this.data.times[i]!;
    this.callbacks.onHover?.(time);
    const doc = this.legend.ownerDocument;
    const title = doc.createElement("div");
    title.className = "fg-tip-title";
    title.textContent = moment(time, this.options.utc);
    const table = doc.createElement("table");
    const rows = this.data.series
      .map((one) => ({ one, value: one.values[i] ?? null }))
      .filter((row) => row.value !== null)
      .sort((a, b) => b.value! - a.value!);
    for (const { one, value } of rows.slice(0, LEGEND_ROWS)) {
      const row = table.insertRow();
      const name = row.insertCell();
      const swatch = doc.createElement("i");
      swatch.style.background = one.colour;
      name.append(swatch, one.name);
      const cell = row.insertCell();
      const strong = doc.createElement("b");
      strong.textContent = this.options.format(value!);
      cell.append(strong);
    }
    this.legend.replaceChildren(title, table);
    const line = (text: string): void => {
      const note = doc.createElement("div");
      note.className = "fg-tip-hint";
      note.textContent = text;
      this.legend.append(note);
    };
    if (rows.length > LEGEND_ROWS) line(`and ${rows.length - LEGEND_ROWS} more`);
    if (rows.length === 0) line("no data");
    for (const mark of this.options.marks)
      if (Math.abs(plot.valToPos(mark.time / 1000, "x") - left) <= MARK_NEAR_PX) line(`${mark.kind}: ${mark.title}`);
    this.legend.hidden = false;
    const box = plot.over.getBoundingClientRect();
    const { width, height } = this.legend.getBoundingClientRect();
    const x = box.left + left;
    const right = x + 14 + width > doc.documentElement.clientWidth;
    this.legend.style.left = `${right ? Math.max(4, x - 14 - width) : x + 14}px`;
    this.legend.style.top = `${Math.max(4, Math.min(box.top + 4, doc.documentElement.clientHeight - height - 4))}px`;
  }
}

/* The same numbers as a table: a row a time. */
export function chartRows(data: ChartData, options: Pick<ChartOptions, "utc" | "format">): { head: string[]; rows: string[][] } {
  return {
    head: ["Time", ...data.series.map((one) => one.name)],
    rows: data.times.map((time, i) => [
      moment(time, options.utc),
      ...data.series.map((one) => (one.values[i] === null || one.values[i] === undefined ? "–" : options.format(one.values[i]))),
    ]),
  };
}
