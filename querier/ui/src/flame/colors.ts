/*
 * Colours of bars. A bar has a number, its colour's place in the theme's list, so that a picture is drawn colour by
 * colour and the same arrays serve dark and light.
 */
import { type Cover, SAME_COVER } from "./decode";
import { type Flame } from "./model";
import { colourKey, isRuntime } from "./names";

export const PALETTE = [
  "#7fb2e5",
  "#e8a15f",
  "#86c59a",
  "#c59be0",
  "#e58f9b",
  "#63c0c4",
  "#cdb95c",
  "#a2a9ef",
  "#e39bc4",
  "#93bd6a",
  "#d9a98a",
  "#78b8a4",
  "#b3b0c8",
  "#dcb0d9",
] as const;
export const RUNTIME = "#8f99a8";
export const LABEL = "#12161c"; /* the text on all of these */

/* Steps of a change on each side of the middle. */
export const DIFF_STEPS = 8;

/* Places of colours. Those of the palette are 0 to 13. */
export const COLOUR_RUNTIME = PALETTE.length;
export const COLOUR_ROOT = COLOUR_RUNTIME + 1;
export const COLOUR_TINY = COLOUR_ROOT + 1;
export const COLOUR_DIM = COLOUR_TINY + 1;
export const COLOUR_FOLDED = COLOUR_DIM + 1;
export const COLOUR_MIDDLE = COLOUR_FOLDED + 1 + DIFF_STEPS; /* of a comparison; -8 to +8 around it */
export const COLOURS = COLOUR_MIDDLE + DIFF_STEPS + 1;

export type DiffPalette = "cb" | "rg";

const ENDS: Record<DiffPalette, { less: string; more: string }> = {
  cb: { less: "#3e92e0", more: "#ee7c2b" },
  rg: { less: "#4caf6d", more: "#e5534b" },
};

export interface Theme {
  dark: boolean;
  fills: string[] /* by place */;
  background: string;
  foreground: string;
  muted: string;
  text: string[] /* of labels, by place */;
  outline: string;
  hatch: string;
  font: string;
  mono: string;
}

export function makeTheme(dark: boolean, palette: DiffPalette = "cb"): Theme {
  const fills = new Array<string>(COLOURS);
  PALETTE.forEach((colour, i) => (fills[i] = colour));
  fills[COLOUR_RUNTIME] = RUNTIME;
  fills[COLOUR_ROOT] = dark ? "#3a4453" : "#c9d1dc";
  fills[COLOUR_TINY] = dark ? "#3b4452" : "#cfd6df";
  fills[COLOUR_DIM] = dark ? "#2a313b" : "#e7ebf0";
  fills[COLOUR_FOLDED] = dark ? "#3b4452" : "#cfd6df";
  const middle = dark ? "#7e8692" : "#d6dbe2";
  for (let step = -DIFF_STEPS; step <= DIFF_STEPS; step++)
    fills[COLOUR_MIDDLE + step] = mix(middle, step < 0 ? ENDS[palette].less : ENDS[palette].more, Math.abs(step) / DIFF_STEPS);
  const foreground = dark ? "#e8ecf1" : "#141a22";
  const muted = dark ? "#8390a0" : "#5f6c7d";
  const text = new Array<string>(COLOURS).fill(LABEL);
  for (const place of [COLOUR_ROOT, COLOUR_FOLDED, COLOUR_TINY]) text[place] = dark ? "#e8ecf1" : "#141a22";
  text[COLOUR_DIM] = muted;
  return {
    dark,
    fills,
    background: dark ? "#12161c" : "#ffffff",
    foreground,
    muted,
    text,
    outline: dark ? "#ffffff" : "#141a22",
    hatch: dark ? "#5a6676" : "#9aa5b3",
    font: "'Inter Variable', Inter, system-ui, sans-serif",
    mono: "ui-monospace, SFMono-Regular, Menlo, monospace",
  };
}

/* From one colour to another, part 0 to 1. */
export function mix(from: string, to: string, part: number): string {
  let result = "#";
  for (let i = 1; i < 7; i += 2) {
    const a = parseInt(from.slice(i, i + 2), 16);
    const b = parseInt(to.slice(i, i + 2), 16);
    result += Math.round(a + (b - a) * part)
      .toString(16)
      .padStart(2, "0");
  }
  return result;
}

/* WCAG 2's contrast of two colours, 1 to 21. */
export function contrast(a: string, b: string): number {
  const luminance = (colour: string): number => {
    const [r, g, b2] = [1, 3, 5].map((i) => {
      const c = parseInt(colour.slice(i, i + 2), 16) / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r! + 0.7152 * g! + 0.0722 * b2!;
  };
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

/* FNV-1a of 32 bits over the bytes of UTF-8, so that other programs can compute the same. */
export function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  const add = (byte: number): void => {
    hash = Math.imul(hash ^ byte, 0x01000193);
  };
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c < 0x80) add(c);
    else for (const byte of new TextEncoder().encode(text.slice(i))) add(byte);
    if (c >= 0x80) break;
  }
  return hash >>> 0;
}

export type ColourBy = "package" | "function";

/* The colour of a name. */
export function colourOf(name: string, by: ColourBy): number {
  if (isRuntime(name)) return COLOUR_RUNTIME;
  return fnv1a(by === "package" ? colourKey(name) : name) % PALETTE.length;
}

/* The frame that stands for nodes beyond the limit. */
export const FOLDED = "other";

/* Colours of all nodes of a flame graph of one selection. */
export function singleColours(flame: Flame, by: ColourBy): Uint8Array {
  const byName = new Uint8Array(flame.names.length);
  flame.names.forEach((name, i) => (byName[i] = name === FOLDED ? COLOUR_FOLDED : colourOf(name, by)));
  const colours = new Uint8Array(flame.count);
  for (let i = 0; i < flame.count; i++) colours[i] = byName[flame.name[i]!]!;
  if (flame.count > 0) colours[0] = COLOUR_ROOT;
  return colours;
}

/* How much a node changed: (r - l) / max(l, r), from -1 (gone) to 1 (new). */
export function changeOf(left: number, right: number): number {
  const most = Math.max(left, right);
  return most > 0 ? (right - left) / most : 0;
}

/*
 * Colours of all nodes of a comparison, by the change of their share or, if absolute, of their rate. Names in quiet
 * stay grey: their change is not significant, and a colour would claim that it is.
 */
export function diffColours(flame: Flame, absolute: boolean, quiet: ReadonlySet<string> | null, cover: Cover = SAME_COVER): Uint8Array {
  const left = flame.left!;
  const right = flame.right!;
  const a = absolute ? 1 / cover[0] : left.total === 0 ? 1 : 1 / left.total;
  const b = absolute ? 1 / cover[1] : right.total === 0 ? 1 : 1 / right.total;
  const silent = new Uint8Array(flame.names.length);
  if (quiet) flame.names.forEach((name, i) => (silent[i] = quiet.has(name) ? 1 : 0));
  const folded = flame.names.indexOf(FOLDED);
  const colours = new Uint8Array(flame.count);
  for (let i = 0; i < flame.count; i++) {
    if (flame.name[i] === folded && i > 0) {
      colours[i] = COLOUR_FOLDED;
      continue;
    }
    const t = changeOf(left.w[i]! * a, right.w[i]! * b);
    const step = silent[flame.name[i]!] ? 0 : Math.round(Math.sqrt(Math.abs(t)) * DIFF_STEPS);
    colours[i] = COLOUR_MIDDLE + (t < 0 ? -step : step);
  }
  return colours;
}
