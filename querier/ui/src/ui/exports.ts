/* Files of what is shown. What the server has is asked of it, whole; pictures are of what the page draws. */

import { address, send } from "../api/client";
import { type Part, type Span, renderParameters } from "../api/queries";
import { type Sheet, toHtml, toPng, toSvg } from "../flame/export";
import type { FlameView } from "../flame/view";
import { type Query, formatMatcher, formatQuery, serviceOf } from "../state/selector";
import { dateTime } from "../state/range";
import { meaning, profileType } from "../state/types";

export interface Shown {
  query: Query;
  span: Span;
  part: Part;
  maxNodes: number;
  utc: boolean;
}

/* The forms of /pyroscope/render, by its names, and the endings of their files. */
export const SERVER_FORMATS = {
  pprof: "pb.gz",
  goPgo: "pgo",
  folded: "folded",
  json: "json",
  speedscope: "speedscope.json",
  firefox: "firefox.json",
  dot: "dot",
} as const;
export type ServerFormat = keyof typeof SERVER_FORMATS;
export type CommandFormat = "table" | "folded" | "pprof" | "goPgo";

/* The server leaves the compression to HTTP; the tools of Go expect files to be compressed. */
const COMPRESSED: readonly ServerFormat[] = ["pprof", "goPgo"];

/* "shop_cpu_2026-04-14_1420_1520.EXT" */
export function fileName(shown: Shown, extension: string): string {
  const from = dateTime(shown.span.from, shown.utc).replace(" ", "_").replaceAll(":", "");
  const until = dateTime(shown.span.until, shown.utc).slice(11).replaceAll(":", "");
  const parts = [serviceOf(shown.query) || "all", profileType(shown.query.type).sample || "profile", from, until];
  return `${parts.join("_").replace(/[^A-Za-z0-9._-]+/g, "-")}.${extension}`;
}

export function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  /* The browser reads it after the click. */
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/* The node limit is of the picture: only the flame graph is cut to it, files for other programs are whole. */
export function serverParameters(shown: Shown, format: ServerFormat) {
  const { "max-nodes": maxNodes, ...parameters } = renderParameters(shown.query, shown.span, shown.maxNodes, shown.part);
  return { ...parameters, format, ...(format === "json" ? { "max-nodes": maxNodes } : {}) };
}

export async function saveFromServer(shown: Shown, format: ServerFormat): Promise<void> {
  const response = await send(address("pyroscope/render", serverParameters(shown, format)), {});
  const whole = COMPRESSED.includes(format) ? new Response(response.body!.pipeThrough(new CompressionStream("gzip"))) : response;
  save(await whole.blob(), fileName(shown, SERVER_FORMATS[format]));
}

export function titleOf(shown: Shown): { title: string; subtitle: string } {
  const others = shown.query.matchers
    .filter((one) => one.name !== "service_name")
    .map(formatMatcher)
    .join(", ");
  const range = `${dateTime(shown.span.from, shown.utc)} – ${dateTime(shown.span.until, shown.utc)}${shown.utc ? " UTC" : ""}`;
  return {
    title: `${serviceOf(shown.query) || "all services"} · ${meaning(shown.query.type).label}`,
    subtitle: others === "" ? range : `${range} · ${others}`,
  };
}

function sheetOf(view: FlameView, title: string, subtitle: string): Sheet | null {
  const picture = view.picture;
  if (picture === null) return null;
  const { flame, colours, found, theme, options, window } = picture;
  return { flame, colours, found, theme, unit: options.unit, window, focus: view.focus, upward: options.upward, title, subtitle };
}

const PICTURE_PX = 1600;

/* A page of one file with the flame graph, a search and a table; the viewer in it is only loaded when somebody wants one. */
async function pageOf(view: FlameView, title: string, subtitle: string): Promise<string> {
  const viewer = await import("virtual:viewer");
  const { flame, options } = view.picture!;
  const { unit, absolute, cover, upward, colourBy, palette, dark, quiet } = options;
  return toHtml(
    flame,
    { title, subtitle, unit, absolute, cover, upward, colourBy, palette, dark, quiet: quiet === null ? null : [...quiet] },
    viewer,
  );
}

/* name without its ending */
export async function savePicture(
  view: FlameView,
  format: "png" | "svg" | "html",
  title: string,
  subtitle: string,
  name: string,
): Promise<void> {
  const sheet = sheetOf(view, title, subtitle);
  if (sheet === null) return;
  const content =
    format === "png"
      ? await toPng(sheet, PICTURE_PX)
      : format === "svg"
        ? new Blob([toSvg(sheet, PICTURE_PX)], { type: "image/svg+xml" })
        : new Blob([await pageOf(view, title, subtitle)], { type: "text/html" });
  save(content, `${name}.${format}`);
}

function shell(text: string): string {
  return /^[A-Za-z0-9_.:/@=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/* What prints the same in a terminal, or saves the same file and starts the program that it is for. */
export function commandLine(shown: Shown, url: string, tenant: string, output: CommandFormat): string {
  const parts = [
    "flamegrid",
    "query",
    shell(formatQuery(shown.query)),
    "--from",
    String(shown.span.from),
    "--until",
    String(shown.span.until),
    "--url",
    shell(url),
  ];
  if (tenant !== "") parts.push("--tenant", shell(tenant));
  const site = shown.part.callSite ?? [];
  /* The table of functions is of all stacks. */
  if (site.length > 0 && output !== "table") parts.push("--call-site", shell(site.join(";")));
  parts.push("--output", output);
  if (output === "pprof" || output === "goPgo") {
    const file = shell(fileName(shown, SERVER_FORMATS[output]));
    parts.push("-o", file, "&&", "go", ...(output === "pprof" ? ["tool", "pprof", "-http", ":", file] : ["build", `-pgo=${file}`]));
  }
  return parts.join(" ");
}
