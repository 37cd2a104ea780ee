/* Single spans and single profiles: how many there are by time and value, and what one of them, or a box of them, did. */

import { type FormEvent, useCallback, useMemo, useState } from "react";

import { type Boxed, type HeatKind, type Picked, useBoxed, useHeatmap, usePicked } from "../api/comparison";
import { address, send } from "../api/client";
import type { Span } from "../api/queries";
import type { Exemplar } from "../charts/heatmap";
import { moment } from "../charts/time";
import { focusOf, nodeOf } from "../flame/focus";
import { pathOf } from "../flame/model";
import { exactly } from "../flame/search";
import { formatCount, formatDuration, formatShare, formatValue, unitOf } from "../flame/units";
import { useSpan } from "../state/now";
import { useRoute } from "../state/route";
import { type Query, formatQuery } from "../state/selector";
import { useSettings } from "../state/settings";
import { meaning } from "../state/types";
import { SEPARATOR, formatBox, formatSel, parseBox } from "../state/url";
import { Skeleton, SlowNote } from "../ui/Busy";
import { save } from "../ui/exports";
import { FlameGraph } from "../ui/FlameGraph";
import { FramePath } from "../ui/FramePath";
import { FunctionsTable, type Sort } from "../ui/FunctionsTable";
import { HeatmapChart } from "../ui/HeatmapChart";
import { Icon } from "../ui/Icon";
import { type Entry, MenuAt } from "../ui/Menu";
import { Problem } from "../ui/Problem";
import { useSelection } from "../ui/QueryBar";
import { Scroll } from "../ui/Scroll";
import { SearchField } from "../ui/SearchField";
import { useKeys } from "../ui/Shortcuts";
import { Split } from "../ui/Split";
import { Summary, WorthStrip } from "../ui/Summary";
import { functionsOf } from "../ui/functions";
import { copy, toast } from "../ui/toast";
import { PickService } from "./PickService";
import "./labels.css";
import "./spans.css";

const COLUMNS = 140;
const HEIGHT_PX = 236;
const NODES = 16_384;
const ROWS = 60;

export function Spans() {
  const { params } = useRoute();
  const { query, fault } = useSelection(params.query);
  if (fault !== null)
    return (
      <section className="card">
        <Problem fault={fault} />
      </section>
    );
  if (query.type === "") return <PickService what="Spans" text="Spans and profiles are shown one by one, by their time and their value." />;
  return <SpansOf query={query} />;
}

function SpansOf({ query }: { query: Query }) {
  const { params, set, link } = useRoute();
  const span = useSpan();
  const kind: HeatKind = params.kind === "profiles" ? "profiles" : "spans";
  const box = useMemo(() => parseBox(params.box), [params.box]);
  const heat = useHeatmap(query, span, COLUMNS, kind);
  const boxed = useBoxed(query, box, kind);
  const unit = unitOf(query.type);
  const format = useMemo(() => (value: number) => formatValue(value, unit), [unit]);
  const total = useMemo(
    () => (heat.data?.data.counts ?? []).reduce((sum, column) => column.reduce((all, count) => all + count, sum), 0),
    [heat.data],
  );
  /* What is shown until the answer for another kind is there is still that of the old one. */
  const shown = heat.data?.kind ?? kind;
  const noun = total === 1 ? shown.slice(0, -1) : shown;
  const pick = useCallback(
    (exemplar: Exemplar): void => {
      set(
        shown === "spans"
          ? { span: exemplar.spanId, profile: "", trace: "", focus: "", q: "" }
          : { profile: exemplar.profileId, span: "", trace: "", focus: "", q: "" },
      );
    },
    [shown, set],
  );
  const picked = useMemo(
    (): Picked => ({
      spans: params.span === "" ? [] : params.span.split(","),
      profiles: params.profile === "" ? [] : params.profile.split(","),
      trace: params.trace,
    }),
    [params.span, params.profile, params.trace],
  );
  const isPicked = picked.spans.length + picked.profiles.length > 0 || picked.trace !== "";
  const fromBox: Picked = useMemo(
    () => ({
      spans: kind === "spans" ? (boxed.data?.ids ?? []) : [],
      profiles: kind === "profiles" ? (boxed.data?.ids ?? []) : [],
      trace: "",
    }),
    [kind, boxed.data],
  );

  return (
    <>
      <h1 className="hidden-text">Single spans and profiles</h1>
      <section className="card by-label heat-card" aria-label="Heat map">
        <header>
          <h2>
            {meaning(query.type).label} of single {shown}
          </h2>
          {heat.data !== undefined && (
            <span className="note">
              {formatCount(total)} {noun}
              {total > 0 ? " · drag a box to see what they did" : ""}
            </span>
          )}
          <div className="push">
            {heat.data !== undefined && heat.data.data.exemplars.length > 0 && (
              <span className="note exemplar-key">
                <i aria-hidden="true" />
                the greatest of its time
              </span>
            )}
            {box !== null && (
              <>
                <span className="selection">
                  {formatDuration(box.until - box.from)}, {format(box.low)} – {format(box.high)}
                  <button type="button" aria-label="Clear the box" onClick={() => set({ box: "" })}>
                    ×
                  </button>
                </span>
                <a
                  className="btn bare small"
                  href={link({ sel: formatSel([box.from, box.until]), box: "", kind: "", focus: "", q: "" }, "/")}
                >
                  All profiles of this time
                </a>
                <a
                  className="btn small"
                  href={link(
                    {
                      leftQuery: params.query,
                      leftFrom: String(span.from),
                      leftUntil: String(span.until),
                      rightQuery: params.query,
                      rightFrom: String(box.from),
                      rightUntil: String(box.until),
                      box: "",
                      kind: "",
                      focus: "",
                      q: "",
                    },
                    "/diff",
                  )}
                >
                  <Icon name="diff" />
                  This time against the whole range
                </a>
              </>
            )}
            <LookUp onFound={(patch) => set({ span: "", profile: "", trace: "", box: "", focus: "", q: "", ...patch })} />
            <div className="seg" role="group" aria-label="What is counted">
              <button
                type="button"
                aria-pressed={kind === "spans"}
                onClick={() => set({ kind: "", box: "", span: "", profile: "", trace: "" })}
              >
                Spans
              </button>
              <button
                type="button"
                aria-pressed={kind === "profiles"}
                onClick={() => set({ kind: "profiles", box: "", span: "", profile: "", trace: "" })}
              >
                Profiles
              </button>
            </div>
          </div>
        </header>
        {heat.isError ? (
          <Problem fault={heat.error} onRetry={() => void heat.refetch()} />
        ) : heat.data === undefined ? (
          <Skeleton rows={10} />
        ) : total === 0 ? (
          <Nothing kind={shown} />
        ) : (
          <div className={heat.isPlaceholderData ? "stale" : undefined}>
            <HeatmapChart
              data={heat.data.data}
              box={box}
              onExemplar={pick}
              onBox={(next) => set({ box: formatBox(next), span: "", profile: "", trace: "", focus: "" })}
              options={{
                height: HEIGHT_PX,
                format,
                label: `${meaning(query.type).label} of single ${shown}`,
                noun: shown,
                binary: unit === "bytes",
              }}
            />
          </div>
        )}
      </section>
      <WorthStrip answers={[heat.data?.statistics]} />
      <SlowNote results={[heat, boxed]} />
      {isPicked && (
        <PickedCard
          query={query}
          span={span}
          picked={picked}
          title={titleOf(picked)}
          onClose={() => set({ span: "", profile: "", trace: "", focus: "", q: "" })}
        />
      )}
      {!isPicked && box !== null && boxed.isError && (
        <section className="card">
          <Problem fault={boxed.error} onRetry={() => void boxed.refetch()} />
        </section>
      )}
      {!isPicked && box !== null && boxed.data === undefined && !boxed.isError && (
        <section className="card profile">
          <Skeleton />
        </section>
      )}
      {!isPicked &&
        box !== null &&
        boxed.data !== undefined &&
        (boxed.data.ids.length === 0 ? (
          <section className="card center">
            <h2>Nothing in the box</h2>
            <p>No {kind.slice(0, -1)} has a value like that in this time.</p>
          </section>
        ) : (
          <PickedCard
            query={query}
            span={{ from: box.from, until: box.until }}
            picked={fromBox}
            title={boxTitle(boxed.data, kind)}
            onClose={() => set({ box: "", focus: "", q: "" })}
          />
        ))}
      {!isPicked && box === null && heat.data !== undefined && total > 0 && (
        <Exemplars
          exemplars={heat.data.data.exemplars}
          kind={shown}
          format={format}
          onPick={pick}
          onTrace={(trace) => set({ trace, span: "", profile: "", focus: "", q: "" })}
        />
      )}
    </>
  );
}

function titleOf(picked: Picked): string {
  if (picked.trace !== "") return `Trace ${picked.trace}`;
  const [kind, ids] = picked.spans.length > 0 ? ["Span", picked.spans] : ["Profile", picked.profiles];
  return ids.length === 1 ? `${kind} ${ids[0]}` : `${formatCount(ids.length)} ${kind!.toLowerCase()}s`;
}

function boxTitle(boxed: Boxed, kind: HeatKind): string {
  if (boxed.ids.length >= boxed.count) return `All ${formatCount(boxed.count)} ${kind} of the box`;
  return `${formatCount(boxed.ids.length)} of about ${formatCount(boxed.count)} ${kind} of the box: the greatest ones`;
}

/* An id that somebody has from a trace or a log. */
function LookUp({ onFound }: { onFound: (patch: { span?: string; profile?: string; trace?: string }) => void }) {
  const [text, setText] = useState("");
  const id = text.trim().toLowerCase();
  const kind = /^[0-9a-f]{16}$/.test(id)
    ? "span"
    : /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/.test(id)
      ? "profile"
      : /^[0-9a-f]{32}$/.test(id)
        ? "trace"
        : null;
  const go = (event: FormEvent): void => {
    event.preventDefault();
    if (kind === null) toast("An id of a span has 16 hex digits, that of a trace 32, that of a profile is a UUID");
    else onFound({ [kind]: id });
  };
  return (
    <form onSubmit={go}>
      <input
        className="input look-up"
        value={text}
        placeholder="Id of a span, trace or profile"
        aria-label="Id of a span, trace or profile"
        spellCheck={false}
        onChange={(event) => setText(event.target.value)}
      />
    </form>
  );
}

function Nothing({ kind }: { kind: HeatKind }) {
  const { set } = useRoute();
  return (
    <div className="center">
      <h2>{kind === "spans" ? "No spans" : "No profiles"}</h2>
      {kind === "spans" ? (
        <>
          <p>
            No sample of this selection belongs to a span. Agents add spans if tracing is on in the program, and its
            <br />
            OpenTelemetry integration for profiles: each sample then says which request it worked for.
          </p>
          <p>
            <button type="button" className="btn" onClick={() => set({ kind: "profiles" })}>
              Single profiles instead
            </button>
          </p>
        </>
      ) : (
        <p>There is no profile in this time, or the filters leave none.</p>
      )}
    </div>
  );
}

function Exemplars({
  exemplars,
  kind,
  format,
  onPick,
  onTrace,
}: {
  exemplars: readonly Exemplar[];
  kind: HeatKind;
  format: (value: number) => string;
  onPick: (exemplar: Exemplar) => void;
  onTrace: (trace: string) => void;
}) {
  const { utc } = useSettings();
  const { params, set } = useRoute();
  const shown = params.show === "all" ? exemplars : exemplars.slice(0, ROWS);
  return (
    <section className="card by-label" aria-label="Exemplars">
      <header>
        <h2>The greatest {kind}</h2>
        <span className="note">one of each column of the heat map</span>
      </header>
      <Scroll label="Exemplars">
        <table className="values" aria-label={`The greatest ${kind}`}>
          <thead>
            <tr>
              <th scope="col" className="n">
                value
              </th>
              <th scope="col">time</th>
              {kind === "spans" && <th scope="col">name</th>}
              <th scope="col">labels</th>
              <th scope="col">{kind === "spans" ? "span" : "profile"}</th>
              <th scope="col" className="n">
                Actions
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((one) => {
              const label = (name: string): string => one.labels.find((pair) => pair.name === name)?.value ?? "";
              const others = one.labels.filter(
                ({ name }) => !name.startsWith("__") && name !== "service_name" && name !== "span_name" && name !== "pyroscope_spy",
              );
              const id = kind === "spans" ? one.spanId : one.profileId;
              return (
                <tr key={`${id} ${one.time} ${one.traceId}`}>
                  <td className="n">
                    <b>{format(one.value)}</b>
                  </td>
                  <td>{moment(one.time, utc)}</td>
                  {kind === "spans" && <td>{label("span_name") || "–"}</td>}
                  <td className="value">{others.map(({ name, value }) => `${name}=${value}`).join(" ")}</td>
                  <td>
                    <code>{id}</code>
                  </td>
                  <td className="n actions">
                    <button type="button" className="link" aria-label={`Flame graph of ${id}`} onClick={() => onPick(one)}>
                      Flame graph
                    </button>
                    {one.traceId !== "" && (
                      <button type="button" className="link" aria-label={`Trace ${one.traceId}`} onClick={() => onTrace(one.traceId)}>
                        Trace
                      </button>
                    )}
                    <button type="button" className="link" aria-label={`Copy id ${id}`} onClick={() => void copy("Id", id)}>
                      Copy id
                    </button>
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Scroll>
      {shown.length < exemplars.length && (
        <p className="table-foot">
          <button type="button" className="link" onClick={() => set({ show: "all" }, { replace: true })}>
            All {formatCount(exemplars.length)}
          </button>
        </p>
      )}
    </section>
  );
}

interface Target {
  name: string;
  node: number;
  x: number;
  y: number;
}

function PickedCard({
  query,
  span,
  picked,
  title,
  onClose,
}: {
  query: Query;
  span: Span;
  picked: Picked;
  title: string;
  onClose: () => void;
}) {
  const { params, set } = useRoute();
  const answer = usePicked(query, span, picked, NODES);
  const [found, setFound] = useState("");
  const [hoveredBar, setHoveredBar] = useState<string | null>(null);
  const [hoveredRow, setHoveredRow] = useState<string | null>(null);
  const [target, setTarget] = useState<Target | null>(null);
  const unit = unitOf(query.type);
  const flame = answer.data?.flame ?? null;
  const statistics = answer.data?.statistics;
  const upward = params.inv === "1";
  const ascending = params.sort.startsWith("-");
  const sort = (["self", "total", "name"] as const).find((one) => one === params.sort.replace("-", "")) ?? ("self" satisfies Sort);
  const focus = useMemo(
    () => (flame === null || params.focus === "" ? 0 : nodeOf(flame, params.focus.split(SEPARATOR))),
    [flame, params.focus],
  );
  const functions = useMemo(
    () => (flame === null ? null : functionsOf(flame, unitOf(query.type), statistics)),
    [flame, query.type, statistics],
  );
  const searchFor = useCallback((q: string) => set({ q }, { replace: true }), [set]);
  const zoomTo = (node: number): void => set({ focus: flame === null ? "" : focusOf(flame, node).join(SEPARATOR) });
  const one = picked.profiles.length === 1 ? picked.profiles[0]! : null;
  const download = (): void => {
    void send(address(`api/profiles/${encodeURIComponent(one!)}`, { query: formatQuery(query), from: span.from, until: span.until }), {})
      .then((response) => response.blob())
      .then(
        (blob) => save(blob, `${one}.pb`),
        (fault: unknown) => toast(fault instanceof Error ? fault.message : String(fault)),
      );
  };
  const entries = (at: Target): Entry[] => [
    { note: at.name },
    "line",
    ...(at.node >= 0 ? [{ key: "zoom", text: "Zoom", hint: "Enter", run: () => zoomTo(at.node) }] : []),
    { key: "search", text: "Search this", run: () => searchFor(exactly(at.name)) },
    { key: "copy", text: "Copy name", run: () => void copy("Name", at.name) },
    ...(at.node >= 0
      ? [{ key: "stack", text: "Copy stack", run: () => void copy("Stack", pathOf(flame!, at.node).slice(1).join("\n")) }]
      : []),
  ];
  useKeys({ i: () => set({ inv: upward ? "" : "1" }), Escape: () => set(params.q !== "" ? { q: "" } : { focus: "" }) });

  return (
    <section className="card profile picked" aria-label={title}>
      <div className="toolbar">
        <h2>{title}</h2>
        <button type="button" className="btn bare small" onClick={onClose}>
          <Icon name="close" />
          Close
        </button>
        <SearchField label="Search functions (regex)" value={params.q} onChange={searchFor} found={found} />
        <div className="push">
          {one !== null && (
            <button type="button" className="btn" onClick={download}>
              <Icon name="export" />
              pprof
            </button>
          )}
          <button type="button" className="btn" title="Flip (i)" onClick={() => set({ inv: upward ? "" : "1" })}>
            <Icon name="flip" />
            {upward ? "Flame" : "Icicle"}
          </button>
          <Summary statistics={statistics} loading={answer.isFetching}>
            {null}
          </Summary>
        </div>
      </div>
      <WorthStrip answers={[statistics]} />
      <FramePath flame={flame} focus={focus} onZoom={zoomTo}>
        {flame !== null &&
          flame.count > 0 &&
          `${formatValue(flame.w[focus]!, unit)} · ${formatShare(flame.total > 0 ? flame.w[focus]! / flame.total : 0)} of total`}
      </FramePath>
      {answer.isError ? (
        <Problem fault={answer.error} onRetry={() => void answer.refetch()} />
      ) : flame === null || functions === null ? (
        <Skeleton />
      ) : flame.total === 0 ? (
        <div className="center">
          <h2>Nothing found</h2>
          <p>No sample of this selection and time belongs to it. Another type or a wider range may have it.</p>
        </div>
      ) : (
        <Split
          left={
            <div className={answer.isPlaceholderData ? "side grow stale" : "side grow"}>
              <FunctionsTable
                answer={functions}
                search={params.q}
                sort={sort}
                ascending={ascending}
                hovered={hoveredBar}
                onHover={setHoveredRow}
                colourBy="package"
                onSort={(by) => set({ sort: by === sort ? (ascending ? by : `-${by}`) : by === "name" ? "-name" : by })}
                onPick={(fn) => searchFor(params.q === exactly(fn) ? "" : exactly(fn))}
                onMenu={(name, x, y) => setTarget({ name, node: -1, x, y })}
              />
            </div>
          }
          right={
            <div className={answer.isPlaceholderData ? "flame-box stale" : "flame-box"}>
              <FlameGraph
                flame={flame}
                search={params.q}
                highlight={hoveredRow}
                focus={focus}
                options={{ unit, upward, label: title }}
                onFound={setFound}
                onZoom={zoomTo}
                onHover={(node) => setHoveredBar(node < 0 ? null : flame.names[flame.name[node]!]!)}
                onMenu={(node, x, y) => setTarget({ name: flame.names[flame.name[node]!]!, node, x, y })}
              />
            </div>
          }
        />
      )}
      <MenuAt at={target} entries={target === null ? [] : entries(target)} onClose={() => setTarget(null)} />
    </section>
  );
}
