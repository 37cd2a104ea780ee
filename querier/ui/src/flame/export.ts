/* Pictures and files of what is shown: PNG, SVG, and a page of its own that can be looked at without a server. */
import { type DiffPalette, type ColourBy, COLOUR_DIM, COLOUR_FOLDED, type Theme } from "./colors";
import { type Cover, encode } from "./decode";
import { Labels } from "./labels";
import { contentHeight, DrawList, layout, type Viewport } from "./layout";
import { type Flame } from "./model";
import { fontOf, labelOf, paint, type Picture } from "./paint";
import { type Found } from "./search";
import { formatValue, type Unit } from "./units";

export interface Sheet {
  flame: Flame;
  colours: Uint8Array;
  found: Found | null;
  theme: Theme;
  unit: Unit;
  window: readonly [number, number];
  focus: number;
  upward: boolean;
  title: string /* the service and the type */;
  subtitle: string /* the range, the selector */;
}

const HEAD = 46;
const MARGIN = 12;
const ROW = 20;
const FONT = 11.5;
/* Browsers refuse canvases beyond 16,384 pixels; at two pixels each that is the height of 400 levels. */
const MAX_CANVAS = 16384;

function pictureOf(sheet: Sheet, width: number, ratio: number, measure: (text: string) => number): Picture {
  const view: Viewport = {
    x0: sheet.window[0],
    x1: sheet.window[1],
    width: width - 2 * MARGIN,
    top: 0,
    height: 0,
    row: ROW,
    ratio,
    upward: sheet.upward,
    skip: 0,
  };
  view.height = contentHeight(sheet.flame, view);
  const list = new DrawList();
  layout(sheet.flame, sheet.colours, sheet.found, view, list);
  /* Rows that a zoom leaves empty are no part of the picture. */
  let deepest = 0;
  for (let i = 0; i < list.count; i++) deepest = Math.max(deepest, sheet.flame.level[list.node[i]!]!);
  const height = (deepest + 1) * ROW;
  if (sheet.upward) view.top = view.height - height;
  view.height = height;
  layout(sheet.flame, sheet.colours, sheet.found, view, list);
  return {
    flame: sheet.flame,
    list,
    view,
    theme: sheet.theme,
    labels: new Labels(sheet.flame.names, measure),
    fontSize: FONT,
    value: (node) => formatValue(valueOf(sheet.flame, node), sheet.unit),
    focus: sheet.focus,
    marked: [],
    highlight: -1,
  };
}

function valueOf(flame: Flame, node: number): number {
  return flame.left && flame.right ? flame.left.w[node]! + flame.right.w[node]! : flame.w[node]!;
}

/* A picture at two pixels for each, with the title and the range printed in. */
export async function toPng(sheet: Sheet, width: number): Promise<Blob> {
  const canvas = document.createElement("canvas");
  const ctx = canvas.getContext("2d", { alpha: false });
  if (!ctx) throw new Error("this browser draws no canvas");
  const measure = (text: string): number => {
    ctx.font = fontOf(sheet.theme, FONT);
    return ctx.measureText(text).width;
  };
  let ratio = 2;
  let picture = pictureOf(sheet, width, ratio, measure);
  const height = picture.view.height + HEAD + MARGIN;
  ratio = Math.min(2, MAX_CANVAS / height, MAX_CANVAS / width);
  if (ratio < 2) picture = pictureOf(sheet, width, ratio, measure);
  /* Bars are painted on a canvas of their own, since paint() begins at the corner. */
  const bars = document.createElement("canvas");
  bars.width = Math.round(picture.view.width * ratio);
  bars.height = Math.round(picture.view.height * ratio);
  const barsCtx = bars.getContext("2d", { alpha: false });
  if (!barsCtx) throw new Error("this browser draws no canvas");
  paint(barsCtx, picture);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = sheet.theme.background;
  ctx.fillRect(0, 0, width, height);
  ctx.textBaseline = "alphabetic";
  ctx.fillStyle = sheet.theme.foreground;
  ctx.font = `600 14px ${sheet.theme.font}`;
  ctx.fillText(sheet.title, MARGIN, 20, width - 2 * MARGIN);
  ctx.fillStyle = sheet.theme.muted;
  ctx.font = `400 12px ${sheet.theme.font}`;
  ctx.fillText(sheet.subtitle, MARGIN, 37, width - 2 * MARGIN);
  ctx.drawImage(bars, MARGIN, HEAD, picture.view.width, picture.view.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large for this browser"))), "image/png");
  });
}

function escape(text: string): string {
  /* Control characters are no XML, not even escaped. */
  // eslint-disable-next-line no-control-regex
  const clean = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
  return clean.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}

/* Letters are as wide as Inter's mean ones; a little more, so that text stays inside its bar with other fonts. */
const LETTER = FONT * 0.6;

/* A vector picture that needs nothing else; each bar says its whole name and value to the pointer. */
export function toSvg(sheet: Sheet, width: number): string {
  const picture = pictureOf(sheet, width, 1, (text) => text.length * LETTER);
  const { list, view, flame, theme } = picture;
  const height = view.height + HEAD + MARGIN;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="Inter, system-ui, sans-serif">`,
    `<title>${escape(sheet.title)}</title>`,
    `<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="1" height="6" fill="${theme.hatch}"/></pattern></defs>`,
    `<rect width="${width}" height="${height}" fill="${theme.background}"/>`,
    `<text x="${MARGIN}" y="20" font-size="14" font-weight="600" fill="${theme.foreground}">${escape(sheet.title)}</text>`,
    `<text x="${MARGIN}" y="37" font-size="12" fill="${theme.muted}">${escape(sheet.subtitle)}</text>`,
    `<svg x="${MARGIN}" y="${HEAD}" width="${view.width}" height="${view.height}" font-size="${FONT}" font-weight="500">`,
  ];
  const at = (n: number): string => n.toFixed(2).replace(/\.?0+$/, "");
  for (let i = 0; i < list.count; i++) {
    const node = list.node[i]!;
    const box = `x="${at(list.x[i]!)}" y="${at(list.y[i]!)}" width="${at(list.w[i]!)}" height="${ROW - 1}"`;
    if (list.last[i]! > node) {
      parts.push(`<rect ${box} fill="${theme.fills[list.colour[i]!]}"/>`);
      continue;
    }
    const label = labelOf(picture, i);
    const gone = flame.right !== null && node > 0 && flame.right.w[node] === 0 && list.colour[i] !== COLOUR_DIM;
    parts.push(
      `<g><title>${escape(flame.names[flame.name[node]!]!)} · ${escape(picture.value(node))}</title><rect ${box} fill="${theme.fills[list.colour[i]!]}"/>`,
      gone || list.colour[i] === COLOUR_FOLDED ? `<rect ${box} fill="url(#hatch)"/>` : "",
      label
        ? `<text x="${at(label.x)}" y="${at(list.y[i]! + ROW / 2 + 4)}" fill="${theme.text[list.colour[i]!]}">${escape(label.text)}</text>`
        : "",
      "</g>",
    );
  }
  parts.push("</svg></svg>");
  return parts.join("");
}

/* What an exported page needs to know. */
export interface Saved {
  title: string;
  subtitle: string;
  unit: Unit;
  diff: boolean;
  absolute: boolean;
  cover: Cover;
  upward: boolean;
  colourBy: ColourBy;
  palette: DiffPalette;
  dark: boolean;
  quiet: string[] | null;
  names: string[];
  levels: number[][];
}

export type SavedOptions = Omit<Saved, "names" | "levels" | "diff">;

/* A page that carries its viewer (standalone.ts, built into one script) and its data, and asks nobody for anything: its policy forbids that. */
export function toHtml(flame: Flame, options: SavedOptions, viewer: { script: string; style: string }): string {
  const saved: Saved = { ...options, diff: flame.left !== null, ...encode(flame) };
  /* "</script" and "<!--" would end the element; in a string of JSON the escaped sign is the same. */
  const data = JSON.stringify(saved).replace(/</g, "\\u003c");
  const script = viewer.script.replace(/<\/(script)/gi, "<\\/$1").replace(/<!--/g, "<\\!--");
  const style = viewer.style.replace(/<\//g, "<\\/");
  return `<!doctype html>
<html lang="en" data-theme="${options.dark ? "dark" : "light"}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<title>${escape(options.title)}</title>
<style>${style}</style>
</head>
<body>
<script type="application/json" id="profile">${data}</script>
<script>${script}</script>
</body>
</html>
`;
}
