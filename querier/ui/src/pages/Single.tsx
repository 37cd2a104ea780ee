/* One selection: its timeline, and the flame graph, the functions, the call tree and the sandwich of the range or a part of it. */

import { type UseQueryResult, useMutation } from "@tanstack/react-query";
import { Suspense, lazy, useMemo } from "react";

import {
  FUNCTIONS_MAX,
  FUNCTIONS_PAGE,
  type Span,
  askLines,
  useFlame,
  useFunctions,
  useLabels,
  useLines,
  useSandwich,
} from "../api/queries";
import { nearest } from "../charts/series";
import { formatCount, formatDuration, formatShare, formatValue, unitOf } from "../flame/units";
import { useNow, useSpan } from "../state/now";
import { DAY_MS, HOUR_MS } from "../state/range";
import { useRoute } from "../state/route";
import type { Query } from "../state/selector";
import { formatQuery, serviceOf, withMatcher } from "../state/selector";
import { isLevel, meaning } from "../state/types";
import { SEPARATOR, defaultOf, formatSel, parseSel } from "../state/url";
import { ExportMenu } from "../ui/ExportMenu";
import { ShareMenu } from "../ui/ShareMenu";
import { SlowNote } from "../ui/Busy";
import { Icon } from "../ui/Icon";
import { Problem } from "../ui/Problem";
import { useDeploys } from "../ui/deploys";
import { Summary, WorthStrip } from "../ui/Summary";
import { TimelineCard } from "../ui/TimelineCard";
import { Onboarding } from "./Onboarding";
import { type Asked, ProfileCard } from "./ProfileCard";

const Source = lazy(() => import("../ui/SourceDialog").then((module) => ({ default: module.SourceDialog })));

const NODES_MAX = 1_048_576; // the server's limit
const NODES_MORE = 4;
const POINTS = 120; // of the timeline
const AROUND_MS = 30 * DAY_MS; // how far the nearest profiles are looked for
const AROUND_STEP_MS = 2 * HOUR_MS;

/* The share of the total that the node limit has put into bars "other". */
function foldedShare(flame: { names: readonly string[]; name: Uint32Array; w: Float64Array; total: number; count: number }): number {
  const other = flame.names.indexOf("other");
  if (other < 0 || flame.total === 0) return 0;
  let sum = 0;
  for (let node = 1; node < flame.count; node++) if (flame.name[node] === other) sum += flame.w[node]!;
  return sum / flame.total;
}

function asked<Answer>(result: UseQueryResult<Answer>): Asked<Answer> {
  return { data: result.data, fault: result.error, stale: result.isPlaceholderData, retry: () => void result.refetch() };
}

export function Single({ query }: { query: Query }) {
  const { params, set } = useRoute();
  const outer = useSpan();
  const sel = parseSel(params.sel);
  const span: Span = useMemo(() => (sel === null ? outer : { from: sel[0], until: sel[1] }), [outer, params.sel]);
  const maxNodes = Math.min(Math.max(Number(params.maxNodes) || 0, 1), NODES_MAX);
  const callSite = useMemo(() => (params.site === "" ? [] : params.site.split(SEPARATOR)), [params.site]);
  const lines = useLines(query, outer, POINTS, params.by === "" ? [] : [params.by], params.by === "" ? 0 : 10);
  const flame = useFlame(query, span, maxNodes, { callSite });
  const allFunctions = params.show === "all";
  const functions = useFunctions(
    query,
    span,
    params.sort.endsWith("total") ? "total" : "self",
    allFunctions ? FUNCTIONS_MAX : FUNCTIONS_PAGE,
    params.view !== "flame" && params.view !== "tree",
  );
  const sandwich = useSandwich(query, span, params.view === "sandwich" ? params.fn : "", maxNodes);
  const moreNodes = (): void => set({ maxNodes: String(Math.min(maxNodes * NODES_MORE, NODES_MAX)) });
  const labels = useLabels(query, outer);
  const { marks } = useDeploys(query, outer, POINTS);
  const unit = unitOf(query.type);
  const folded = useMemo(() => (flame.data === undefined ? 0 : foldedShare(flame.data.flame)), [flame.data]);
  const statistics = flame.data?.statistics;

  if (query.type === "")
    return (
      <section className="card center">
        <h2>Pick a profile type</h2>
        <p>The query names no type; the list “Profile” above has those of this service.</p>
      </section>
    );
  const isEmpty = flame.data !== undefined && !flame.isPlaceholderData && flame.data.flame.total === 0 && callSite.length === 0;
  return (
    <>
      <h1 className="hidden-text">
        {serviceOf(query) || "All services"}, {meaning(query.type).label}
      </h1>
      <TimelineCard
        query={query}
        span={outer}
        lines={lines}
        sel={sel}
        by={params.by}
        labels={(labels.data?.labels ?? [])
          .filter((row) => !row.name.startsWith("__"))
          .map((row) => ({ name: row.name, values: row.values }))}
        marks={marks}
        onSel={(next) => set({ sel: formatSel(next) })}
        onZoom={(next) => set({ from: String(Math.round(next[0])), until: String(Math.round(next[1])), sel: "" })}
        onBy={(by) => set({ by })}
        onOnly={(value) => set({ query: formatQuery(withMatcher(query, { name: params.by, op: "=", value })), by: "" })}
      />
      <WorthStrip answers={[statistics, lines.data?.statistics, functions.data?.statistics, sandwich.data?.statistics]} />
      <SlowNote results={[flame, functions, sandwich]} />
      {flame.isError && (
        <section className="card">
          <Problem fault={flame.error} onRetry={() => void flame.refetch()} />
        </section>
      )}
      {!flame.isError && isEmpty && sel === null && query.matchers.length === 0 && <Onboarding />}
      {!flame.isError && isEmpty && (sel !== null || query.matchers.length > 0) && <Nothing query={query} sel={sel} span={span} />}
      {!flame.isError && !isEmpty && (
        <>
          <Summary statistics={statistics} loading={flame.isFetching}>
            {flame.data !== undefined && (
              <>
                <span>
                  <b>{formatValue(flame.data.flame.total, unit)}</b> {meaning(query.type).label}
                </span>
                {isLevel(query.type) && statistics !== undefined && statistics.profiles > 0 && (
                  <span title="All profiles of the range are added up; this is what one of them has">
                    <b>{formatValue(flame.data.flame.total / statistics.profiles, unit)}</b> in a profile on average
                  </span>
                )}
                <span>
                  <b>{formatCount(flame.data.flame.count)}</b> stack nodes
                </span>
                {functions.data !== undefined && (
                  <span>
                    <b>{formatCount(functions.data.count)}</b> functions
                  </span>
                )}
                {statistics !== undefined && (
                  <span>
                    <b>{formatCount(statistics.profiles)}</b> profiles
                  </span>
                )}
                {folded > 0 && (
                  <span>
                    <b>{formatShare(folded)}</b> folded into “other”{" "}
                    {maxNodes < NODES_MAX && (
                      <button type="button" className="link" onClick={moreNodes}>
                        load more nodes
                      </button>
                    )}
                  </span>
                )}
                {params.maxNodes !== defaultOf("maxNodes") && (
                  <button type="button" className="link" onClick={() => set({ maxNodes: "" })}>
                    default nodes
                  </button>
                )}
                {sel !== null && <span>{formatDuration(span.until - span.from)} selected</span>}
              </>
            )}
          </Summary>
          <ProfileCard
            flame={flame.data?.flame ?? null}
            stale={flame.isPlaceholderData}
            unit={unit}
            callSite={callSite}
            functions={asked(functions)}
            onAllFunctions={functions.data?.next !== undefined && !allFunctions ? () => set({ show: "all" }) : undefined}
            sandwich={asked(sandwich)}
            onOnly={(path) => (path.length > 0 ? set({ site: path.join(SEPARATOR), focus: "" }) : moreNodes())}
            lines={(fn, onClose) => (
              <Suspense>
                <Source query={query} span={span} callSite={callSite} fn={fn} onClose={onClose} />
              </Suspense>
            )}
            tools={(view, hasPicture) => (
              <>
                <ShareMenu span={span} />
                <ExportMenu query={query} span={span} maxNodes={maxNodes} callSite={callSite} view={view} hasPicture={hasPicture} />
              </>
            )}
          />
        </>
      )}
    </>
  );
}

/* Nothing there: each filter that may be why, with a way to do without it. */
function Nothing({ query, sel, span }: { query: Query; sel: [number, number] | null; span: Span }) {
  const { set } = useRoute();
  const { nowMs } = useNow();
  const search = useMutation({
    mutationFn: async (): Promise<Span | null> => {
      /* A point stands for the step before it, so that of now is up to a step away. */
      const around = { from: Math.max(span.from - AROUND_MS, 0), until: Math.min(span.until + AROUND_MS, nowMs + AROUND_STEP_MS) };
      const { lines, times, step } = await askLines(query, around, (2 * AROUND_MS) / AROUND_STEP_MS, [], 0, new AbortController().signal);
      const found = nearest(times, lines[0]?.values ?? [], span.from, span.until);
      if (found === null) return null;
      return { from: found - Math.max(span.until - span.from, step), until: Math.min(found, nowMs) };
    },
    onSuccess: (found) => {
      if (found !== null) set({ from: String(Math.round(found.from)), until: String(Math.round(found.until)), sel: "" });
    },
  });
  return (
    <section className="card problem" role="status">
      <h2>No profile matches</h2>
      <p>
        Nothing was profiled in {sel === null ? "this range" : `these ${formatDuration(span.until - span.from)}`}
        {query.matchers.length > 1 ? ", or the filters together leave nothing" : ""}. Go on with:
      </p>
      <div className="row">
        {sel !== null && (
          <button type="button" className="btn" onClick={() => set({ sel: "" })}>
            the whole range
          </button>
        )}
        <button type="button" className="btn" disabled={search.isPending} onClick={() => search.mutate()}>
          <Icon name="search" />
          {search.isPending ? "Looking …" : "Go to the nearest time with profiles"}
        </button>
        {query.matchers.map((matcher, index) =>
          matcher.name === "service_name" ? null : (
            <button
              key={index}
              type="button"
              className="btn"
              onClick={() => set({ query: formatQuery({ ...query, matchers: query.matchers.filter((_, at) => at !== index) }) })}
            >
              remove {matcher.name}
              {matcher.op}
              {matcher.value}
            </button>
          ),
        )}
      </div>
      {search.isError && <Problem fault={search.error} onRetry={() => search.mutate()} />}
      {search.data === null && <p>There is none in the 30 days before and after this range either.</p>}
    </section>
  );
}
