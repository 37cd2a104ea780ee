/* One selection: its timeline, and the flame graph, the functions, the call tree and the sandwich of the range or a part of it. */

import type { UseQueryResult } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import { FUNCTIONS_MAX, FUNCTIONS_PAGE, type Span, useFlame, useFunctions, useLabels, useLines, useSandwich } from "../api/queries";
import { formatCount, formatDuration, formatShare, formatValue, unitOf } from "../flame/units";
import { useSpan } from "../state/now";
import { useRoute } from "../state/route";
import type { Query } from "../state/selector";
import { formatQuery, serviceOf, withMatcher } from "../state/selector";
import { isLevel, meaning } from "../state/types";
import { SEPARATOR, defaultOf, formatSel, parseSel } from "../state/url";
import { ExportMenu } from "../ui/ExportMenu";
import { ShareMenu } from "../ui/ShareMenu";
import { SlowNote } from "../ui/Busy";
import { Problem } from "../ui/Problem";
import { useDeploys } from "../ui/deploys";
import { PartialStrip, Summary } from "../ui/Summary";
import { TimelineCard } from "../ui/TimelineCard";
import { Onboarding } from "./Onboarding";
import { type Asked, ProfileCard } from "./ProfileCard";

const NODES_MAX = 1_048_576; // the server's limit
const NODES_MORE = 4;
const POINTS = 120; // of the timeline

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
  const [allFunctions, setAllFunctions] = useState(false);
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
      <PartialStrip statistics={statistics} />
      <SlowNote results={[flame, functions, sandwich]} />
      {flame.isError && (
        <section className="card">
          <Problem fault={flame.error} onRetry={() => void flame.refetch()} />
        </section>
      )}
      {!flame.isError && isEmpty && sel === null && query.matchers.length <= 1 && <Onboarding />}
      {!flame.isError && isEmpty && (sel !== null || query.matchers.length > 1) && <Nothing query={query} sel={sel} span={span} />}
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
                {statistics !== undefined && (
                  <span>
                    <b>{formatCount(statistics.profiles)}</b> profiles
                  </span>
                )}
                {statistics !== undefined && !statistics.exact && (
                  <span>
                    bars exact to <b>{formatValue(statistics.bound ?? 0, unit)}</b>
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
            onAllFunctions={functions.data?.next !== undefined && !allFunctions ? () => setAllFunctions(true) : undefined}
            sandwich={asked(sandwich)}
            onOnly={(path) => (path.length > 0 ? set({ site: path.join(SEPARATOR), focus: "" }) : moreNodes())}
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
  return (
    <section className="card problem" role="status">
      <h2>No profile matches</h2>
      <p>
        {sel === null
          ? "All filters together leave nothing."
          : `Nothing was profiled in these ${formatDuration(span.until - span.from)}, or the filters leave nothing.`}{" "}
        Without one of them:
      </p>
      <div className="row">
        {sel !== null && (
          <button type="button" className="btn" onClick={() => set({ sel: "" })}>
            the whole range
          </button>
        )}
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
    </section>
  );
}
