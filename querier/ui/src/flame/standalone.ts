/* The viewer inside of exported pages: the same flame graph, a search, a table. It asks no server. */
import "./standalone.css";
import { decode, withDiffWidth } from "./decode";
import { type Saved } from "./export";
import { topOf } from "./top";
import { formatShare, formatValue } from "./units";
import { FlameView } from "./view";

const MOST_ROWS = 500;

function element<K extends keyof HTMLElementTagNameMap>(tag: K, text = ""): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function show(saved: Saved): void {
  const decoded = decode(saved, saved.diff);
  const flame = saved.diff && saved.absolute ? withDiffWidth(decoded, "absolute", saved.cover) : decoded;
  const header = element("header");
  const search = element("input");
  search.type = "search";
  search.placeholder = "Search functions (regex)";
  search.setAttribute("aria-label", "Search functions");
  const found = element("span");
  found.setAttribute("aria-live", "polite");
  const reset = element("button", "Reset zoom");
  const flip = element("button", "Flip");
  const theme = element("button", "Dark or light");
  header.append(element("h1", saved.title), element("p", saved.subtitle), found, search, reset, flip, theme);
  const main = element("main");
  const list = element("div");
  list.className = "list";
  const place = element("div");
  main.append(list, place);
  document.body.append(header, main);

  const options = {
    unit: saved.unit,
    dark: saved.dark,
    label: saved.title,
    upward: saved.upward,
    colourBy: saved.colourBy,
    palette: saved.palette,
    absolute: saved.absolute,
    cover: saved.cover,
    quiet: saved.quiet ? new Set(saved.quiet) : null,
  };
  const view = new FlameView(place, options);
  view.setFlame(flame);
  list.append(table(saved, view, flame));
  search.addEventListener("input", () => {
    view.setSearch(search.value);
    found.textContent = view.foundText();
  });
  reset.addEventListener("click", () => view.zoomTo(0));
  flip.addEventListener("click", () => view.setOptions({ upward: (options.upward = !options.upward) }));
  const applyTheme = (): void => {
    document.documentElement.dataset["theme"] = options.dark ? "dark" : "light";
  };
  applyTheme();
  theme.addEventListener("click", () => {
    options.dark = !options.dark;
    applyTheme();
    view.setOptions({ dark: options.dark });
  });
}

function table(saved: Saved, view: FlameView, flame: ReturnType<typeof decode>): HTMLTableElement {
  const top = topOf(flame);
  const made = element("table");
  const { left, right } = flame;
  const head = made.createTHead().insertRow();
  head.append(...(left ? ["Function", "Baseline", "Comparison"] : ["Function", "Self", "Total"]).map((text) => element("th", text)));
  const change = (name: number): number =>
    left && right ? Math.abs(top.right!.total[name]! / (right.total || 1) - top.left!.total[name]! / (left.total || 1)) : top.self[name]!;
  const body = made.createTBody();
  for (const name of [...top.names].sort((a, b) => change(b) - change(a)).slice(0, MOST_ROWS)) {
    const row = body.insertRow();
    const text = flame.names[name]!;
    const cells =
      left && right
        ? [text, formatShare(top.left!.total[name]! / left.total), formatShare(top.right!.total[name]! / right.total)]
        : [text, formatValue(top.self[name]!, saved.unit), formatValue(top.total[name]!, saved.unit)];
    for (const cell of cells) row.insertCell().textContent = cell;
    row.title = text;
    row.addEventListener("pointerenter", () => view.setHighlight(text));
    row.addEventListener("pointerleave", () => view.setHighlight(null));
  }
  return made;
}

show(JSON.parse(document.getElementById("profile")!.textContent) as Saved);
