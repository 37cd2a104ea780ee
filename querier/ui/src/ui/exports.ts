/* Files of what is shown. What the server has is asked of it, whole; pictures are of what the page draws. */

import { address, send } from "../api/client";
import { askPprof } from "../api/pprof";
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

export const SERVER_FORMATS = {
  folded: "folded",
  json: "json",
  speedscope: "speedscope.json",
  firefox: "firefox.json",
  dot: "dot",
} as const;
export type ServerFormat = keyof typeof SERVER_FORMATS;

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

export async function saveFromServer(shown: Shown, format: ServerFormat): Promise<void> {
  const parameters = renderParameters(shown.query, shown.span, shown.maxNodes, shown.part);
  const response = await send(address("pyroscope/render", { ...parameters, format }), {});
  save(await response.blob(), fileName(shown, SERVER_FORMATS[format]));
}

export async function savePprof(shown: Shown): Promise<void> {
  save(await askPprof(shown.query, shown.span, shown.part.callSite ?? []), fileName(shown, "pb.gz"));
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

/* What prints the same in a terminal. */
export function commandLine(shown: Shown, url: string, tenant: string, output: string): string {
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
  if (site.length > 0 && output !== "pprof" && output !== "table") parts.push("--call-site", shell(site.join(";")));
  parts.push("--output", output);
  if (output === "pprof")
    parts.push("-o", shell(fileName(shown, "pb.gz")), "&&", "go", "tool", "pprof", "-http", ":", shell(fileName(shown, "pb.gz")));
  return parts.join(" ");
}
