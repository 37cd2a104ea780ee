// A flame graph on a canvas, from the level encoding of SelectMergeStacktraces: bars of four numbers,
// offset from the end of the bar before, total, self, number of the name.

const ROW = 20;       // height of a bar, pixels
const NARROWEST = 0.4; // bars below this many pixels are not drawn

// Levels with absolute positions; each bar knows its parent.
export function decode(graph) {
  const names = graph.names || [];
  const levels = [];

  for (const level of graph.levels || []) {
    const values = (level.values || []).map(Number);
    const above = levels[levels.length - 1] || [];
    const bars = [];
    let x = 0;
    let parent = 0;

    for (let i = 0; i + 3 < values.length; i += 4) {
      x += values[i];
      while (parent + 1 < above.length && above[parent].x + above[parent].total <= x) parent++;
      bars.push({ level: levels.length, x, total: values[i + 1], self: values[i + 2],
                  name: names[values[i + 3]] ?? "", parent: above[parent] || null });
      x += values[i + 1];
    }
    levels.push(bars);
  }
  return levels;
}

// Self and total by function; a function that calls itself counts once on each path.
export function top(levels) {
  const rows = new Map();

  for (const bars of levels.slice(1)) {
    for (const bar of bars) {
      const row = rows.get(bar.name) || { name: bar.name, self: 0, total: 0 };
      let again = false;

      for (let up = bar.parent; up !== null && !again; up = up.parent) again = up.name === bar.name;
      row.self += bar.self;
      if (!again) row.total += bar.total;
      rows.set(bar.name, row);
    }
  }
  return [...rows.values()];
}

function hue(name) {
  let hash = 2166136261;

  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  return 10 + ((hash >>> 0) % 45); // reds to yellows: it is a flame
}

export class Flame {
  constructor(canvas, tip, { onRead, onZoom, describe }) {
    Object.assign(this, { canvas, tip, onRead, onZoom, describe });
    this.levels = [];
    this.zoomed = this.current = null;
    this.search = "";
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
    canvas.addEventListener("mousemove", (event) => this.hover(event));
    canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("click", (event) => this.zoom(this.at(event)));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  show(levels) {
    this.levels = levels;
    this.current = null;
    this.zoom(null);
  }

  find(text) {
    this.search = text.toLowerCase();
    this.draw();
  }

  zoom(bar) {
    const root = this.levels[0]?.[0] ?? null;

    this.zoomed = bar === null || bar === undefined ? root : bar;
    if (bar) this.select(bar);
    this.onZoom(this.zoomed !== root);
    this.draw();
  }

  // Where a bar is on the canvas; bars above the zoomed one span all of it.
  place(bar) {
    const scale = this.width / Math.max(this.zoomed.total, 1);

    if (bar.level < this.zoomed.level) return { x: 0, width: this.width };
    return { x: (bar.x - this.zoomed.x) * scale, width: bar.total * scale };
  }

  visible(bar) {
    const zoomed = this.zoomed;

    if (bar.level > zoomed.level)
      return bar.x >= zoomed.x && bar.x + bar.total <= zoomed.x + zoomed.total;
    for (let up = zoomed; up !== null; up = up.parent) if (up === bar) return true;
    return false;
  }

  draw() {
    const ratio = devicePixelRatio || 1;
    const pen = this.canvas.getContext("2d");

    if (!this.zoomed) return;
    this.width = this.canvas.parentElement.clientWidth;
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.levels.length * ROW * ratio;
    this.canvas.style.height = `${this.levels.length * ROW}px`;
    pen.scale(ratio, ratio);
    pen.font = "12px ui-monospace, monospace";
    pen.textBaseline = "middle";
    for (const bars of this.levels) for (const bar of bars) this.drawBar(pen, bar);
  }

  drawBar(pen, bar) {
    if (!this.visible(bar)) return;
    const { x, width } = this.place(bar);
    const y = bar.level * ROW;
    const faded = bar.level < this.zoomed.level;
    const miss = this.search !== "" && !bar.name.toLowerCase().includes(this.search);

    if (width < NARROWEST) return;
    const light = this.dark.matches ? 42 : 72;
    pen.fillStyle = bar.level === 0 || miss
      ? `hsl(220 8% ${this.dark.matches ? 28 : 86}%)`
      : `hsl(${hue(bar.name)} ${faded ? 25 : 75}% ${light}%)`;
    pen.fillRect(x, y, Math.max(width - 0.5, NARROWEST), ROW - 1);
    if (bar === this.current) {
      pen.strokeStyle = this.dark.matches ? "#fff" : "#000";
      pen.lineWidth = 1.5;
      pen.strokeRect(x + 1, y + 1, Math.max(width - 2.5, 1), ROW - 3);
    }
    if (width < 24) return;
    pen.save();
    pen.beginPath();
    pen.rect(x, y, width - 3, ROW);
    pen.clip();
    pen.fillStyle = this.dark.matches ? "#f2f2f2" : "#1c1c1c";
    pen.fillText(bar.name, x + 4, y + ROW / 2);
    pen.restore();
  }

  at(event) {
    const x = event.offsetX;
    const bars = this.levels[Math.floor(event.offsetY / ROW)] || [];

    return bars.find((bar) => {
      if (!this.visible(bar)) return false;
      const place = this.place(bar);
      return x >= place.x && x < place.x + place.width;
    }) ?? null;
  }

  select(bar) {
    this.current = bar;
    this.onRead(bar);
    this.draw();
  }

  hover(event) {
    const bar = this.at(event);

    this.tip.hidden = bar === null;
    if (bar === null) return;
    this.tip.textContent = this.describe(bar);
    const left = Math.min(event.clientX + 14, innerWidth - this.tip.offsetWidth - 8);
    this.tip.style.left = `${Math.max(left, 8)}px`;
    this.tip.style.top = `${event.clientY + 16}px`;
  }

  key(event) {
    const bar = this.current ?? this.zoomed;
    const level = bar ? this.levels[bar.level].filter((other) => this.visible(other)) : [];
    const moves = {
      ArrowUp: () => bar.parent,
      ArrowDown: () => (this.levels[bar.level + 1] || []).find((below) => below.parent === bar),
      ArrowLeft: () => level[level.indexOf(bar) - 1],
      ArrowRight: () => level[level.indexOf(bar) + 1],
    };

    if (!bar) return;
    if (event.key === "Escape") this.zoom(null);
    else if (event.key === "Enter") this.zoom(bar);
    else if (moves[event.key]) {
      const next = moves[event.key]();
      if (next) this.select(next);
    } else return;
    event.preventDefault();
  }
}
