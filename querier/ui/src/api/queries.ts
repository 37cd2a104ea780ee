/* What pages ask for, with the keys under which answers are kept. */

import { type QueryKey, keepPreviousData, useQuery } from "@tanstack/react-query";

import { type Point, gridOf, onGrid, stepFor } from "../charts/series";
import { load, take } from "../flame/load";
import type { Flame } from "../flame/model";
import { type Unit, unitOfMetadata } from "../flame/units";
import { type Query, formatQuery, formatSelector } from "../state/selector";
import { isLevel } from "../state/types";
import { ApiError, address, call, follow, get, getLong, send } from "./client";
import type { AdhocFile, Flamebearer, Functions, Labels, Sandwich, Statistics, Values } from "./types";

export interface Span {
  from: number; // milliseconds
  until: number;
}

const STALE_MS = 30_000;

/* Trouble that passes is tried again, with the time the server asks for; mistakes and limits are not. */
export function isPassing(fault: unknown): boolean {
  return fault instanceof ApiError && (fault.status === 0 || fault.status === 502 || fault.status === 503 || fault.status === 504);
}

export function ask<Answer>(key: QueryKey, run: (signal: AbortSignal) => Promise<Answer>, enabled = true) {
  return {
    queryKey: key,
    queryFn: ({ signal }: { signal: AbortSignal }) => run(signal),
    enabled,
    staleTime: STALE_MS,
    placeholderData: keepPreviousData,
    structuralSharing: false, // answers are large, and arrays of a flame graph are never compared
  };
}

export interface ServiceTypes {
  service: string;
  types: string[];
}

/* Services with the profile types they have. */
export function useServices(span: Span) {
  return useQuery(
    ask(["services", span.from, span.until], async (signal) => {
      const answer = await call<{ labelsSet?: { labels?: { name: string; value: string }[] }[] }>(
        "Series",
        {
          matchers: [],
          labelNames: ["service_name", "__profile_type__"],
          start: span.from,
          end: span.until,
        },
        signal,
      );
      const found = new Map<string, string[]>();
      for (const set of answer.labelsSet ?? []) {
        const labels = new Map((set.labels ?? []).map((label) => [label.name, label.value]));
        const type = labels.get("__profile_type__");
        if (type === undefined) continue;
        const service = labels.get("service_name") ?? "";
        found.set(service, [...(found.get(service) ?? []), type]);
      }
      return [...found]
        .map(([service, types]): ServiceTypes => ({ service, types: types.sort() }))
        .sort((a, b) => (a.service < b.service ? -1 : 1));
    }),
  );
}

export interface Line {
  labels: Record<string, string>;
  values: (number | null)[];
}

export interface Lines {
  lines: Line[];
  times: number[]; // milliseconds
  step: number; // of the grid
  statistics: Statistics | null;
}

interface SeriesAnswer {
  series?: { labels?: { name: string; value: string }[]; points?: Point[] }[];
  statistics?: Record<string, unknown>;
}

/* JSON of protobuf has large numbers as text, and names of its own. */
export function numbers(statistics: Record<string, unknown> | undefined): Statistics | null {
  if (statistics === undefined) return null;
  const of = (name: string): number => Number(statistics[name] ?? 0);
  return {
    complete: statistics.complete === true,
    exact: statistics.exact !== false,
    profiles: of("profiles"),
    series: of("series"),
    bytes: of("bytes"),
    millis: of("millis"),
    ...(typeof statistics.missing === "string" ? { missing: statistics.missing } : {}),
    ...(typeof statistics.unit === "string" ? { unit: statistics.unit } : {}),
    ...(statistics.bound !== undefined ? { bound: of("bound") } : {}),
    ...(statistics.saturated === true ? { saturated: true } : {}),
  };
}

/* Values over time: of levels means, of everything else values per second; null where no profile stands for the time. */
export async function askLines(
  query: Query,
  span: Span,
  points: number,
  groupBy: string[],
  limit: number,
  signal: AbortSignal,
): Promise<Lines> {
  const step = stepFor(span.until - span.from, points);
  const start = Math.ceil(span.from / step) * step;
  const level = isLevel(query.type);
  const answer = await call<SeriesAnswer>(
    "SelectSeries",
    {
      profileTypeID: query.type,
      labelSelector: formatSelector(query.matchers),
      start,
      end: span.until,
      step: step / 1000,
      groupBy,
      ...(limit > 0 ? { limit } : {}),
      ...(level ? { aggregation: "TIME_SERIES_AGGREGATION_TYPE_AVERAGE" } : {}),
    },
    signal,
  );
  const times = gridOf(start, span.until, step);
  const lines = (answer.series ?? []).map((one) => ({
    labels: Object.fromEntries((one.labels ?? []).map((label) => [label.name, label.value])),
    values: onGrid(one.points ?? [], times, level ? "value" : "rate"),
  }));
  return { lines, times, step, statistics: numbers(answer.statistics) };
}

export function useLines(query: Query, span: Span, points: number, groupBy: string[], limit = 0, enabled = true) {
  return useQuery(
    ask(
      ["lines", formatQuery(query), span.from, span.until, points, groupBy, limit],
      (signal) => askLines(query, span, points, groupBy, limit, signal),
      enabled && query.type !== "",
    ),
  );
}

export interface Part {
  callSite?: string[];
  function?: string;
}

export function renderParameters(query: Query, span: Span, maxNodes: number, part: Part) {
  return {
    query: formatQuery(query),
    from: span.from,
    until: span.until,
    "max-nodes": maxNodes,
    ...(part.callSite !== undefined && part.callSite.length > 0 ? { callSite: part.callSite } : {}),
    ...(part.function !== undefined && part.function !== "" ? { function: part.function } : {}),
  };
}

/* Decoded once, where the answer comes in: a large one by a worker. */
export interface FlameAnswer {
  flame: Flame;
  statistics: Statistics | undefined;
}

export function useFlame(query: Query, span: Span, maxNodes: number, part: Part, enabled = true) {
  const parameters = renderParameters(query, span, maxNodes, part);
  return useQuery(
    ask(
      ["flame", parameters],
      async (signal): Promise<FlameAnswer> => {
        const { flame, rest } = await load(await follow("pyroscope/render", { ...parameters, statistics: true }, signal));
        return { flame, statistics: rest.statistics as Statistics | undefined };
      },
      enabled && query.type !== "",
    ),
  );
}

export const FUNCTIONS_PAGE = 10_000;
export const FUNCTIONS_MAX = 100_000; // the server's limit of a page

export function useFunctions(query: Query, span: Span, sort: "self" | "total", limit: number, enabled = true) {
  const parameters = { query: formatQuery(query), from: span.from, until: span.until, sort, limit };
  return useQuery(
    ask(["functions", parameters], (signal) => getLong<Functions>("api/functions", parameters, signal), enabled && query.type !== ""),
  );
}

export interface SandwichAnswer {
  callees: Flame;
  callers: Flame;
  all: number;
  total: number; // of the function and what it calls
  self: number;
  statistics: Statistics;
}

export function useSandwich(query: Query, span: Span, fn: string, maxNodes: number) {
  const parameters = { query: formatQuery(query), from: span.from, until: span.until, function: fn, "max-nodes": maxNodes };
  return useQuery(
    ask(
      ["sandwich", parameters],
      async (signal): Promise<SandwichAnswer> => {
        const answer = await getLong<Sandwich>("api/sandwich", parameters, signal);
        const graph = (flamebearer: Flamebearer): Flame => take({ flamebearer }).flame;
        const { total: all, with_callees: total, self } = answer;
        return { callees: graph(answer.callees), callers: graph(answer.callers), all, total, self, statistics: answer.statistics };
      },
      query.type !== "" && fn !== "",
    ),
  );
}

/* Labels of what is selected, the ones with the most values first; private ones are the server's own. */
export function useLabels(query: Query, span: Span, enabled = true) {
  const parameters = { query: formatQuery(query) || "{}", from: span.from, until: span.until, sort: "name", limit: 1000 };
  return useQuery(ask(["labels", parameters], (signal) => getLong<Labels>("api/labels", parameters, signal), enabled));
}

export function useValues(query: Query, span: Span, name: string, prefix: string, enabled = true) {
  const parameters = { query: formatQuery(query) || "{}", from: span.from, until: span.until, prefix, sort: "series", limit: 200 };
  return useQuery(
    ask(
      ["values", name, parameters],
      (signal) => getLong<Values>(`api/labels/${encodeURIComponent(name)}`, parameters, signal),
      enabled && name !== "",
    ),
  );
}

export function useAdhocList(enabled = true) {
  return useQuery({ ...ask(["adhoc"], (signal) => get<{ profiles: AdhocFile[] }>("api/adhoc", {}, signal), enabled), staleTime: 0 });
}

export interface AdhocAnswer {
  flame: Flame;
  file: AdhocFile;
  unit: Unit;
}

export function useAdhoc(id: string, type: string, maxNodes: number) {
  return useQuery(
    ask(
      ["adhoc", id, type, maxNodes],
      async (signal): Promise<AdhocAnswer> => {
        const path = address(`api/adhoc/${encodeURIComponent(id)}`, { type, "max-nodes": maxNodes });
        const { flame, rest } = await load(await (await send(path, { signal })).arrayBuffer());
        const metadata = rest.metadata as { units: string; sampleRate: number };
        return { flame, file: rest.file as AdhocFile, unit: unitOfMetadata(metadata.units, metadata.sampleRate) };
      },
      id !== "",
    ),
  );
}
