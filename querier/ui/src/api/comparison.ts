/* What the pages Compare, Diff, Labels and Spans ask for. */

import { useQuery } from "@tanstack/react-query";

import { type Box, type HeatmapData, heatmapOf } from "../charts/heatmap";
import { stepFor } from "../charts/series";
import { load } from "../flame/load";
import type { Sides } from "../state/sides";
import { type Query, formatQuery, formatSelector } from "../state/selector";
import { call, follow, get, getLong, send } from "./client";
import { type FlameAnswer, type Span, ask, numbers } from "./queries";
import type { LabelRow, Labels, Statistics, ValueRow, Values } from "./types";

export type State = "up" | "down" | "new" | "gone" | "moved" | "not_significant" | "too_little_data";

export interface Figure {
  value: number;
  share: number;
  per_second: number;
  instances: number;
}

export interface Change {
  name: string;
  of: "self" | "total";
  state: State;
  a: Figure;
  b: Figure;
  change: number | null;
  interval?: [number, number];
  p?: number;
  q?: number;
  detectable?: number;
  folded_into?: number;
  moved?: { from: string[]; to: string[] };
}

export interface SideFacts {
  from_ms: number;
  until_ms: number;
  total: number;
  covered_seconds: number;
  instances: number;
  blocks_of_time?: number;
}

export interface Comparison {
  type: string;
  unit: string;
  by: "share" | "rate";
  a: SideFacts;
  b: SideFacts;
  replicates: "same instances" | "instances" | "over time" | "weak";
  weak: boolean;
  instance: string | null;
  same_instances: number;
  min_share: number;
  q: number;
  tests: number;
  significant: number;
  detectable?: { least: number; median: number; largest: number };
  whole: { change?: number | null; interval?: [number, number]; p?: number; detectable?: number };
  count: number;
  changes: Change[];
  statistics: Statistics;
}

const ROWS_MAX = 100_000; // the server's limit of a page

function sidesParameters({ left, right }: Sides) {
  return {
    leftQuery: left.query,
    leftFrom: left.span.from,
    leftUntil: left.span.until,
    rightQuery: right.query,
    rightFrom: right.span.from,
    rightUntil: right.span.until,
  };
}

/* Which functions changed, with confidence: all that were tested, since the flame graph greys those that did not. */
export function useComparison(sides: Sides, by: "share" | "rate", enabled: boolean) {
  const parameters = { ...sidesParameters(sides), by, show: "all", limit: ROWS_MAX };
  return useQuery(ask(["compare", parameters], (signal) => getLong<Comparison>("api/compare", parameters, signal), enabled));
}

export function useDiffFlame(sides: Sides, maxNodes: number, enabled: boolean) {
  const parameters = { ...sidesParameters(sides), "max-nodes": maxNodes, statistics: true };
  return useQuery(
    ask(
      ["diff", parameters],
      async (signal): Promise<FlameAnswer> => {
        const { flame, rest } = await load(await follow("pyroscope/render-diff", parameters, signal));
        return { flame, statistics: rest.statistics as Statistics | undefined };
      },
      enabled,
    ),
  );
}

export type HeatKind = "spans" | "profiles";

export interface Heat {
  kind: HeatKind;
  data: HeatmapData;
  statistics: Statistics | undefined;
}

interface HeatAnswer {
  series?: Parameters<typeof heatmapOf>[0];
  statistics?: Record<string, unknown>;
}

function askHeatmap(query: Query, span: Span, step: number, kind: HeatKind, signal: AbortSignal): Promise<HeatAnswer> {
  const word = kind === "spans" ? "SPAN" : "INDIVIDUAL";
  return call<HeatAnswer>(
    "SelectHeatmap",
    {
      profileTypeID: query.type,
      labelSelector: formatSelector(query.matchers),
      start: span.from,
      end: span.until,
      step: step / 1000,
      queryType: `HEATMAP_QUERY_TYPE_${word}`,
      exemplarType: `EXEMPLAR_TYPE_${word}`,
    },
    signal,
  );
}

export function useHeatmap(query: Query, span: Span, columns: number, kind: HeatKind) {
  const step = stepFor(span.until - span.from, columns);
  return useQuery(
    ask(
      ["heatmap", formatQuery(query), span.from, span.until, step, kind],
      async (signal): Promise<Heat> => {
        const answer = await askHeatmap(query, span, step, kind, signal);
        return {
          kind,
          data: heatmapOf(answer.series ?? [], span.from, span.until, step),
          statistics: numbers(answer.statistics) ?? undefined,
        };
      },
      query.type !== "",
    ),
  );
}

export interface Boxed {
  ids: string[]; // of spans or profiles
  count: number; // of all in the box; more than there are ids if not each has one
}

const BOX_IDS_MAX = 1000;
const BOX_STEPS = 300;
const PROFILES_PAGE = 10_000;

/*
 * What is in a box of a heat map. Profiles are listed. Spans are not, but each cell tells its greatest one, so finer cells than
 * those of the picture tell most of them.
 */
export function useBoxed(query: Query, box: Box | null, kind: HeatKind) {
  return useQuery(
    ask(
      ["boxed", formatQuery(query), box, kind],
      async (signal): Promise<Boxed> => {
        const { from, until, low, high } = box!;
        if (kind === "profiles") {
          const answer = await get<{ profiles: { id: string; value: number }[] }>(
            "api/profiles",
            { query: formatQuery(query), from, until, limit: PROFILES_PAGE },
            signal,
          );
          const inside = answer.profiles.filter((one) => one.value >= low && one.value <= high);
          return { ids: inside.slice(0, BOX_IDS_MAX).map((one) => one.id), count: inside.length };
        }
        const step = Math.max(1000, Math.ceil((until - from) / BOX_STEPS / 1000) * 1000);
        const answer = await askHeatmap(query, { from, until }, step, kind, signal);
        const { exemplars, counts, bounds } = heatmapOf(answer.series ?? [], from, until, step, true);
        const inside = exemplars.filter((one) => one.value >= low && one.value <= high);
        let count = 0;
        for (const column of counts)
          column.forEach((n, row) => {
            if (bounds[row + 1]! > low && bounds[row]! <= high) count += n;
          });
        return { ids: [...new Set(inside.map((one) => one.spanId))].slice(0, BOX_IDS_MAX), count: Math.max(count, inside.length) };
      },
      box !== null && query.type !== "",
    ),
  );
}

/* Samples of some spans, of one trace, or of some profiles. */
export interface Picked {
  spans: string[];
  profiles: string[];
  trace: string;
}

export function usePicked(query: Query, span: Span, picked: Picked, maxNodes: number) {
  const some = picked.spans.length > 0 || picked.profiles.length > 0 || picked.trace !== "";
  return useQuery(
    ask(
      ["picked", formatQuery(query), span.from, span.until, picked, maxNodes],
      async (signal): Promise<FlameAnswer> => {
        const response = await send("querier.v1.QuerierService/SelectMergeStacktraces", {
          method: "POST",
          headers: { "Content-Type": "application/json" },
          body: JSON.stringify({
            profileTypeID: query.type,
            labelSelector: formatSelector(query.matchers),
            start: span.from,
            end: span.until,
            maxNodes,
            ...(picked.spans.length > 0 ? { spanSelector: picked.spans } : {}),
            ...(picked.profiles.length > 0 ? { profileIdSelector: picked.profiles } : {}),
            ...(picked.trace !== "" ? { traceIdSelector: [picked.trace] } : {}),
          }),
          signal,
        });
        const { flame, rest } = await load(await response.arrayBuffer());
        return { flame, statistics: numbers(rest.statistics as Record<string, unknown> | undefined) ?? undefined };
      },
      some && query.type !== "",
    ),
  );
}

export interface Growth {
  series_before?: number;
  series_new?: number;
  values_before?: number;
  values_new?: number;
}

export interface GrownLabels extends Omit<Labels, "labels"> {
  labels: (LabelRow & Growth)[];
  before?: Span | null;
}

const LABELS_SHOWN = 500;

/* Labels by how many values they have, and how many of them are new. */
export function useGrowth(query: Query, span: Span) {
  const parameters = {
    query: formatQuery(query) || "{}",
    from: span.from,
    until: span.until,
    sort: "values",
    growth: true,
    limit: LABELS_SHOWN,
  };
  return useQuery(ask(["growth", parameters], (signal) => getLong<GrownLabels>("api/labels", parameters, signal)));
}

export interface GrownValues extends Omit<Values, "values"> {
  values: (ValueRow & Growth)[];
}

export function useValueRows(query: Query, span: Span, name: string, limit: number) {
  const parameters = {
    query: formatQuery(query) || "{}",
    from: span.from,
    until: span.until,
    sort: query.type === "" ? "series" : "value",
    growth: true,
    limit,
  };
  return useQuery(
    ask(
      ["value rows", name, parameters],
      (signal) => getLong<GrownValues>(`api/labels/${encodeURIComponent(name)}`, parameters, signal),
      name !== "",
    ),
  );
}
