/* What changed between two selections: which functions, by how much, how surely, and what could not have been seen. */

import { useCallback, useMemo, useRef, useState } from "react";

import type { Change, Comparison } from "../api/comparison";
import { address, send } from "../api/client";
import type { Statistics } from "../api/types";
import { useLines } from "../api/queries";
import { meanBetween } from "../charts/series";
import type { Mark } from "../charts/timeseries";
import { type DiffPalette, DIFF_STEPS, COLOUR_MIDDLE, makeTheme } from "../flame/colors";
import { focusOf, nodeOf } from "../flame/focus";
import { pathOf } from "../flame/model";
import { splitName } from "../flame/names";
import { exactly } from "../flame/search";
import { type Unit, formatCount, formatDuration, formatPoints, formatShare, formatValue, unitOf } from "../flame/units";
import type { FlameView } from "../flame/view";
import { useSpan } from "../state/now";
import { dateTime } from "../state/range";
import { useRoute } from "../state/route";
import { formatQuery, parseQuery, serviceOf } from "../state/selector";
import { useDark, useSettings } from "../state/settings";
import {
  type ChangeSort,
  STATES,
  type Shown,
  basisOf,
  countsOf,
  extremes,
  figure,
  formatShown,
  parseShown,
  percent,
  rowsOf,
  withMeans,
} from "../state/changes";
import { isVersionLabel } from "../state/deploys";
import { type Side, type SideName, type Sides, aroundDeploy, domainOf, presetsOf, sidePatch, swapped } from "../state/sides";
import { formatPoint, isLevel, meaning } from "../state/types";
import { SEPARATOR } from "../state/url";
import { Skeleton, SlowNote } from "../ui/Busy";
import { ChangesTable } from "../ui/ChangesTable";
import { useDeploys } from "../ui/deploys";
import { type Difference, useDifference } from "../ui/difference";
import { save, savePicture } from "../ui/exports";
import { FlameGraph } from "../ui/FlameGraph";
import { FramePath } from "../ui/FramePath";
import { Icon } from "../ui/Icon";
import { type Entry, Menu, MenuAt } from "../ui/Menu";
import { Problem } from "../ui/Problem";
import { useSelection } from "../ui/QueryBar";
import { SearchField } from "../ui/SearchField";
import { ShareMenu } from "../ui/ShareMenu";
import { useKeys } from "../ui/Shortcuts";
import { POINTS, SideCard, sharedMost } from "../ui/SideCard";
import { Split } from "../ui/Split";
import { Bound, Summary, WorthStrip } from "../ui/Summary";
import { copy, toast } from "../ui/toast";
import { type GivenSides, WithSides } from "./WithSides";
import "./comparison.css";

const NODES_MAX = 1_048_576; // the server's limit
const VIEWS = [
  ["table", "Table"],
  ["both", "Both"],
  ["flame", "Flame"],
] as const;
const SORTS: readonly ChangeSort[] = ["change", "relative", "left", "right", "name"];

export function Diff() {
  return <WithSides what="Diff">{(given) => <DiffOf {...given} />}</WithSides>;
}

function DiffOf({ sides, together, moveSide, setBaseline, setTogether }: GivenSides) {
  const { params, set } = useRoute();
  const outer = useSpan();
  const left = useSelection(sides.left.query).query;
  const right = useSelection(sides.right.query).query;
  const by = params.mode === "abs" ? "rate" : "share";
  const unit = unitOf(right.type);
  const maxNodes = Math.min(Math.max(Number(params.maxNodes) || 0, 1), NODES_MAX);
  const domains = { left: domainOf(sides.left.span, outer), right: domainOf(sides.right.span, outer) };
  const lines = { left: useLines(left, domains.left, POINTS, []), right: useLines(right, domains.right, POINTS, []) };
  const most = left.type === right.type ? sharedMost(lines.left.data, lines.right.data) : null;
  const ready = left.type !== "" && left.type === right.type;
  const difference = useDifference(sides, by, maxNodes, params.noise === "1", ready);
  const { comparison, flame } = difference;
  const level = isLevel(right.type);
  const meanOf = (name: SideName): number =>
    meanBetween(lines[name].data?.times ?? [], lines[name].data?.lines[0]?.values ?? [], sides[name].span.from, sides[name].span.until);
  const [meanLeft, meanRight] = level ? [meanOf("left"), meanOf("right")] : [0, 0];
  const found = ready ? comparison.data : undefined;
  const data = useMemo(
    () => (found === undefined || !level ? found : withMeans(found, [meanLeft, meanRight])),
    [found, level, meanLeft, meanRight],
  );
  const amount = useCallback((value: number) => formatPoint(value, right.type), [right.type]);

  /* Filters of a version would hide the other versions. */
  const everyVersion = useMemo(() => ({ ...right, matchers: right.matchers.filter((matcher) => !isVersionLabel(matcher.name)) }), [right]);
  const deploys = useDeploys(everyVersion, domains.right, POINTS);
  const onSide =
    (name: SideName) =>
    (side: Side, done: boolean): void =>
      moveSide(name, side, done);
  const totals = {
    left: data === undefined ? "" : formatValue(data.a.total, unit),
    right: data === undefined ? "" : formatValue(data.b.total, unit),
  };
  const empty =
    data === undefined || comparison.isPlaceholderData ? null : data.b.total === 0 ? "comparison" : data.a.total === 0 ? "baseline" : null;
  useKeys({ x: () => set(swapped(sides)) });

  return (
    <>
      <h1 className="hidden-text">Difference of two selections</h1>
      <div className="sides">
        {(["left", "right"] as const).map((name) => (
          <SideCard
            key={name}
            name={name}
            side={sides[name]}
            domain={domains[name]}
            lines={lines[name]}
            most={most}
            total={totals[name]}
            withType
            onChange={onSide(name)}
            {...(name === "right" ? { together: { on: together, set: setTogether } } : {})}
          />
        ))}
      </div>
      {!ready && (
        <section className="card problem" role="status">
          <h2>Two types cannot be compared</h2>
          <p>
            The baseline has {meaning(left.type).label}, the comparison {meaning(right.type).label}. Take one of them for both:
          </p>
          <div className="row">
            <button
              type="button"
              className="btn"
              onClick={() => onSide("right")({ ...sides.right, query: formatQuery({ ...right, type: left.type }) }, true)}
            >
              {meaning(left.type).label}
            </button>
            <button
              type="button"
              className="btn"
              onClick={() => onSide("left")({ ...sides.left, query: formatQuery({ ...left, type: right.type }) }, true)}
            >
              {meaning(right.type).label}
            </button>
          </div>
        </section>
      )}
      {ready && empty !== null && (
        <section className="card problem" role="status">
          <h2>The {empty} has no profiles</h2>
          <p>
            Nothing was profiled in this time, or the filters leave nothing. Drag over a part of its timeline that has values
            {empty === "baseline" ? ", or take one of these:" : "."}
          </p>
          {empty === "baseline" && (
            <div className="row">
              {presetsOf(sides.right.span).map((preset) => (
                <button key={preset.key} type="button" className="btn" onClick={() => setBaseline(preset.left)}>
                  {preset.text}
                </button>
              ))}
            </div>
          )}
        </section>
      )}
      {ready && empty === null && (
        <>
          <Facts
            comparison={data}
            stale={comparison.isPlaceholderData}
            by={by}
            unit={unit}
            level={level}
            wholes={level ? [meanLeft, meanRight] : [rateOf(data?.a), rateOf(data?.b)]}
            amount={amount}
            sides={sides}
            onBaseline={setBaseline}
            deploy={deploys.marks.at(-1)}
            onDeploy={() => set({ ...aroundDeploy(sides, deploys.marks.at(-1)!.time - deploys.step), sync: "", focus: "" })}
          />
          <WorthStrip answers={[flame.data?.statistics, data?.statistics, lines.left.data?.statistics, lines.right.data?.statistics]} />
          <SlowNote results={[comparison, flame]} />
          {comparison.isError && (
            <section className="card">
              <Problem fault={comparison.error} onRetry={() => void comparison.refetch()}>
                <span className="note">Colours below show differences as they are, also those that may be chance.</span>
              </Problem>
            </section>
          )}
          {flame.isError && (
            <section className="card">
              <Problem fault={flame.error} onRetry={() => void flame.refetch()} />
            </section>
          )}
          {data !== undefined && <Basis comparison={data} drawn={flame.data?.statistics} loading={comparison.isFetching} />}
          {!flame.isError && (
            <DiffCard sides={sides} by={by} unit={unit} comparison={data} amount={amount} difference={difference} maxNodes={maxNodes} />
          )}
        </>
      )}
    </>
  );
}

function rateOf(side: Comparison["a"] | undefined): number {
  return side !== undefined && side.covered_seconds > 0 ? side.total / side.covered_seconds : 0;
}

function Facts({
  comparison,
  stale,
  by,
  unit,
  level,
  wholes,
  amount,
  sides,
  onBaseline,
  deploy,
  onDeploy,
}: {
  comparison: Comparison | undefined;
  stale: boolean;
  by: "share" | "rate";
  unit: Unit;
  level: boolean;
  wholes: readonly [number, number]; // of an instance, or of a profile
  amount: (value: number) => string;
  sides: Sides;
  onBaseline: (span: Side["span"]) => void;
  deploy: Mark | undefined;
  onDeploy: () => void;
}) {
  const { set } = useRoute();
  const found = useMemo(() => extremes(comparison?.changes ?? [], by), [comparison, by]);
  const searchFor = (name: string): void => set({ q: exactly(name) });
  const extreme = (change: Change | null, none: string) => {
    if (comparison === undefined) return <dd>…</dd>;
    if (change === null)
      return (
        <dd>
          <small>{none}</small>
        </dd>
      );
    const name = splitName(change.name);
    const size =
      by === "share"
        ? formatPoints(change.b.share - change.a.share)
        : `${change.b.per_second > change.a.per_second ? "▲" : "▼"} ${amount(Math.abs(change.b.per_second - change.a.per_second))}`;
    return (
      <dd title={change.name}>
        <button type="button" className="fn" onClick={() => searchFor(change.name)}>
          {name.dim}
          {name.main}
        </button>{" "}
        <span className={figure(change, "b", by) > figure(change, "a", by) ? "inc" : "dec"}>{size}</span>
      </dd>
    );
  };
  const whole = comparison?.whole;
  const sure = whole?.interval !== undefined && (whole.interval[0] > 0 || whole.interval[1] < 0);

  return (
    <dl className={stale ? "diff-facts stale" : "diff-facts"}>
      <div className="card fact">
        <dt>{level ? "Mean of the profiles" : unit === "ns" ? "Cores of an instance" : "An instance, per second"}</dt>
        {comparison === undefined ? (
          <dd>…</dd>
        ) : (
          <dd title={whole?.interval === undefined ? undefined : `95 %: ${percent(whole.interval[0])} … ${percent(whole.interval[1])}`}>
            {amount(wholes[0])} → {amount(wholes[1])}{" "}
            {whole?.change == null ? null : sure ? (
              <span className={whole.change > 0 ? "inc" : "dec"}>
                {whole.change > 0 ? "▲" : "▼"} {percent(whole.change)}
              </span>
            ) : (
              <span className="noise" title="No larger than what varies anyway">
                ≈ {percent(whole.change)}
              </span>
            )}
          </dd>
        )}
      </div>
      <div className="card fact">
        <dt>Largest increase (self)</dt>
        {extreme(found.up, "no significant change")}
      </div>
      <div className="card fact">
        <dt>Largest decrease (self)</dt>
        {extreme(found.down, "no significant change")}
      </div>
      <div className="card fact">
        <dt>Baseline presets</dt>
        <dd className="links">
          {presetsOf(sides.right.span).map((preset) => (
            <button
              key={preset.key}
              type="button"
              className="link"
              aria-pressed={preset.left.from === sides.left.span.from && preset.left.until === sides.left.span.until}
              title={
                preset.key === "period"
                  ? `The ${formatDuration(sides.right.span.until - sides.right.span.from)} before the comparison`
                  : `As long as the comparison, ${preset.text.replace("ago", "before it")}`
              }
              onClick={() => onBaseline(preset.left)}
            >
              {preset.text}
            </button>
          ))}
          {deploy !== undefined && (
            <button type="button" className="link" title={`From ${deploy.title} on, against as long before it`} onClick={onDeploy}>
              last deploy
            </button>
          )}
        </dd>
      </div>
    </dl>
  );
}

/* What the findings rest on, and what could not have been seen: without that, "nothing changed" says nothing. */
function Basis({
  comparison,
  drawn,
  loading,
}: {
  comparison: Comparison;
  drawn: Statistics | undefined; // of the flame graph
  loading: boolean;
}) {
  const { detectable, significant, tests, q, min_share: least } = comparison;
  return (
    <>
      {comparison.weak && (
        <div className="strip" role="status">
          <Icon name="warn" />
          <span>
            <b>Weak evidence.</b> There are too few instances and too little time to see what varies anyway, so samples were counted. Take
            longer ranges, or more instances.
          </span>
        </div>
      )}
      <Summary statistics={comparison.statistics} loading={loading}>
        <span>
          <b>{formatCount(significant)}</b> of {formatCount(tests)} differences are significant
        </span>
        <span>
          compared by <b>{basisOf(comparison)}</b>
        </span>
        <span title={`Of all findings together, about ${percent(q, false)} may be false`}>
          false findings <b>≤ {percent(q, false)}</b>
        </span>
        {detectable !== undefined && (
          <span title={`Functions of at least ${formatShare(least)} of either side, seen with a probability of 80 %`}>
            no change above <b>{percent(detectable.largest, false)}</b> could hide here; of half the functions none above{" "}
            <b>{percent(detectable.median, false)}</b>
          </span>
        )}
        <Bound statistics={drawn} />
      </Summary>
    </>
  );
}

interface Target {
  name: string;
  node: number; // -1: of the table
  x: number;
  y: number;
}

function DiffCard({
  sides,
  by,
  unit,
  comparison,
  amount,
  difference,
  maxNodes,
}: {
  sides: Sides;
  by: "share" | "rate";
  unit: Unit;
  comparison: Comparison | undefined;
  amount: (value: number) => string;
  difference: Difference;
  maxNodes: number;
}) {
  const { params, set, link } = useRoute();
  const { utc } = useSettings();
  const dark = useDark();
  const outer = useSpan();
  const { drawn, cover, quiet, notes } = difference;
  const failed = difference.comparison.isError;
  const stale = difference.flame.isPlaceholderData || difference.comparison.isPlaceholderData;
  const view = useRef<FlameView | null>(null);
  const [hoveredBar, setHoveredBar] = useState<string | null>(null);
  const [hoveredRow, setHoveredRow] = useState<string | null>(null);
  const [found, setFound] = useState("");
  const [target, setTarget] = useState<Target | null>(null);
  const absolute = by === "rate";
  const palette: DiffPalette = params.pal === "rg" ? "rg" : "cb";
  const name = VIEWS.find(([one]) => one === params.view)?.[0] ?? "both";
  const upward = params.inv === "1";
  const ascending = params.sort.startsWith("-");
  const sort = SORTS.find((one) => one === params.sort.replace("-", "")) ?? "change";
  const shown = useMemo(() => parseShown(params.show), [params.show]);
  const changes = useMemo(() => comparison?.changes ?? [], [comparison]);
  const counts = useMemo(() => countsOf(changes), [changes]);
  const focus = useMemo(
    () => (drawn === null || params.focus === "" ? 0 : nodeOf(drawn, params.focus.split(SEPARATOR))),
    [drawn, params.focus],
  );

  const zoomTo = (node: number): void => set({ focus: drawn === null ? "" : focusOf(drawn, node).join(SEPARATOR) });
  const searchFor = useCallback((q: string) => set({ q }, { replace: true }), [set]);
  const toggle = (one: Shown): void => {
    const next = new Set(shown);
    if (!next.delete(one)) next.add(one);
    set({ show: formatShown(next) }, { replace: true });
  };
  const side = (which: SideName): string =>
    link(
      {
        query: sides[which].query,
        from: String(Math.round(sides[which].span.from)),
        until: String(Math.round(sides[which].span.until)),
        sel: "",
        leftQuery: "",
        leftFrom: "",
        leftUntil: "",
        rightQuery: "",
        rightFrom: "",
        rightUntil: "",
        view: "sandwich",
        fn: target?.name ?? "",
        q: "",
        focus: "",
        show: "",
        sort: "",
        noise: "",
      },
      "/",
    );
  const entries = (at: Target): Entry[] => [
    { note: at.name },
    "line",
    ...(at.node >= 0 ? [{ key: "zoom", text: "Zoom", hint: "Enter", run: () => zoomTo(at.node) }] : []),
    { key: "search", text: "Search this", run: () => searchFor(exactly(at.name)) },
    { key: "left", text: "Sandwich in the baseline alone", run: () => window.location.assign(side("left")) },
    { key: "right", text: "Sandwich in the comparison alone", run: () => window.location.assign(side("right")) },
    "line",
    { key: "copy", text: "Copy name", run: () => void copy("Name", at.name) },
    ...(at.node >= 0
      ? [{ key: "stack", text: "Copy stack", run: () => void copy("Stack", pathOf(drawn!, at.node).slice(1).join("\n")) }]
      : []),
  ];

  const attempt = (what: string, work: Promise<void>): void => {
    work.then(
      () => toast(`${what} saved`),
      (fault: unknown) => toast(`${what}: ${fault instanceof Error ? fault.message : String(fault)}`),
    );
  };
  const when = (one: Side): string => `${dateTime(one.span.from, utc)} – ${dateTime(one.span.until, utc)}`;
  const fileName = (): string =>
    `${(serviceOf(parseQuery(sides.right.query)) || "all").replace(/[^A-Za-z0-9._-]+/g, "-")}_diff_${dateTime(sides.right.span.from, utc).replace(" ", "_").replaceAll(":", "")}`;
  const picture = (format: "png" | "svg" | "html", text: string): Entry => ({
    key: format,
    text,
    hint: `.${format}`,
    disabled: name === "table",
    run: () =>
      attempt(
        text,
        savePicture(
          view.current!,
          format,
          `${sides.left.query} → ${sides.right.query}`,
          `${when(sides.left)} → ${when(sides.right)}${utc ? " UTC" : ""}`,
          fileName(),
        ),
      ),
  });
  const exportEntries: Entry[] = [
    {
      key: "csv",
      text: "Table as it is",
      hint: ".csv",
      disabled: comparison === undefined,
      run: () =>
        save(
          new Blob([csvOf(rowsOf({ changes, shown, by, search: params.q, sort, ascending }))], { type: "text/csv" }),
          `${fileName()}.csv`,
        ),
    },
    {
      key: "json",
      text: "Flame graph as JSON",
      hint: ".json",
      run: () =>
        attempt(
          "Flame graph",
          send(
            address("pyroscope/render-diff", {
              leftQuery: sides.left.query,
              leftFrom: sides.left.span.from,
              leftUntil: sides.left.span.until,
              rightQuery: sides.right.query,
              rightFrom: sides.right.span.from,
              rightUntil: sides.right.span.until,
              "max-nodes": maxNodes,
            }),
            {},
          )
            .then((answer) => answer.blob())
            .then((blob) => save(blob, `${fileName()}.json`)),
        ),
    },
    "line",
    picture("png", "Picture"),
    picture("svg", "Vector picture"),
    picture("html", "Page of one file, with its viewer"),
  ];

  useKeys({
    ...Object.fromEntries(VIEWS.map(([one], index) => [String(index + 1), () => set({ view: one })])),
    i: () => set({ inv: upward ? "" : "1" }),
    Escape: () => set(params.q !== "" ? { q: "" } : { focus: "" }),
  });

  const ramp = useMemo(() => {
    const { fills } = makeTheme(dark, palette);
    const stops = Array.from({ length: 2 * DIFF_STEPS + 1 }, (_, i) => fills[COLOUR_MIDDLE - DIFF_STEPS + i]!);
    return `linear-gradient(90deg, ${stops.join(", ")})`;
  }, [dark, palette]);

  const table =
    comparison !== undefined ? (
      <div className={stale ? "side grow stale" : "side grow"}>
        <ChangesTable
          changes={changes}
          shown={shown}
          by={by}
          amount={amount}
          search={params.q}
          sort={sort}
          ascending={ascending}
          wide={name === "table"}
          hovered={hoveredBar}
          onHover={setHoveredRow}
          onSort={(key) => set({ sort: key === sort ? (ascending ? key : `-${key}`) : key === "name" ? "-name" : key })}
          onPick={(fn) => searchFor(params.q === exactly(fn) ? "" : exactly(fn))}
          onMenu={(fn, x, y) => setTarget({ name: fn, node: -1, x, y })}
        />
      </div>
    ) : failed ? (
      <div className="center">
        <p>There is no table without the comparison.</p>
      </div>
    ) : (
      <Skeleton />
    );
  const graph =
    drawn !== null ? (
      <div className={stale ? "flame-box stale" : "flame-box"}>
        <FlameGraph
          flame={drawn}
          search={params.q}
          highlight={hoveredRow}
          focus={focus}
          options={{ unit, upward, palette, absolute, cover, quiet, notes, label: "Flame graph of the difference" }}
          onView={(made) => {
            view.current = made;
          }}
          onFound={setFound}
          onZoom={zoomTo}
          onLoad={(node) => {
            if (drawn.names[drawn.name[node]!] === "other") set({ maxNodes: String(Math.min(maxNodes * 4, NODES_MAX)) });
          }}
          onHover={(node) => setHoveredBar(node < 0 ? null : drawn.names[drawn.name[node]!]!)}
          onMenu={(node, x, y) => setTarget({ name: drawn.names[drawn.name[node]!]!, node, x, y })}
        />
      </div>
    ) : (
      <Skeleton />
    );

  return (
    <section className={`card profile pal-${palette}`} aria-label="Difference">
      <div className="toolbar">
        <div className="seg" role="group" aria-label="View">
          {VIEWS.map(([one, text]) => (
            <button key={one} type="button" aria-pressed={name === one} onClick={() => set({ view: one })}>
              {text}
            </button>
          ))}
        </div>
        <SearchField label="Search functions (regex)" value={params.q} onChange={searchFor} found={found} />
        <button type="button" className="btn" title="Swap sides (x)" onClick={() => set(swapped(sides))}>
          <Icon name="diff" />
          Swap sides
        </button>
        <div className="push">
          {name !== "table" && (
            <span
              className="ramp"
              title={`Width is baseline and comparison together, colour the change of the ${absolute ? "value per second" : "share"}`}
            >
              ▼ less
              <i style={{ background: ramp }} />
              more ▲
            </span>
          )}
          {name !== "table" && (
            <Menu
              trigger={
                <>
                  <Icon name="palette" />
                  Colours
                  <Icon name="down" size={13} />
                </>
              }
              entries={[
                { key: "cb", text: "Blue–orange: for all eyes", on: palette === "cb", run: () => set({ pal: "cb" }) },
                { key: "rg", text: "Green–red", on: palette === "rg", run: () => set({ pal: "rg" }) },
                "line",
                {
                  key: "noise",
                  text: "Grey what is not significant",
                  on: params.noise !== "1",
                  run: () => set({ noise: params.noise === "1" ? "" : "1" }),
                },
                "line",
                { key: "icicle", text: "Root at the top", on: !upward, run: () => set({ inv: "" }) },
                { key: "flame", text: "Root at the bottom", on: upward, run: () => set({ inv: "1" }) },
              ]}
            />
          )}
          <div className="seg" role="group" aria-label="Figures">
            <button
              type="button"
              aria-pressed={!absolute}
              title="Shares of the total of each side: what load does is left out"
              onClick={() => set({ mode: "share" })}
            >
              Share
            </button>
            <button
              type="button"
              aria-pressed={absolute}
              title="Values per second that an instance is covered: load is in them"
              onClick={() => set({ mode: "abs" })}
            >
              Absolute
            </button>
          </div>
          <ShareMenu span={outer} path="/diff" also={{ ...sidePatch("left", sides.left), ...sidePatch("right", sides.right) }} />
          <Menu
            trigger={
              <>
                <Icon name="export" />
                Export
                <Icon name="down" size={13} />
              </>
            }
            entries={exportEntries}
          />
        </div>
      </div>
      <div className="states">
        {name !== "flame" && (
          <div className="row" role="group" aria-label="States that the table has">
            {STATES.map((state) => (
              <button
                key={state.key}
                type="button"
                aria-pressed={shown.has(state.key)}
                title={state.what}
                disabled={(counts.get(state.key) ?? 0) === 0 && !shown.has(state.key)}
                onClick={() => toggle(state.key)}
              >
                <span aria-hidden="true">{state.mark}</span>
                {state.text} <b>{formatCount(counts.get(state.key) ?? 0)}</b>
              </button>
            ))}
            <button
              type="button"
              aria-pressed={shown.has("folded")}
              title="Functions whose change is that of functions they call"
              disabled={(counts.get("folded") ?? 0) === 0 && !shown.has("folded")}
              onClick={() => toggle("folded")}
            >
              callers of those <b>{formatCount(counts.get("folded") ?? 0)}</b>
            </button>
          </div>
        )}
        {name !== "table" && (
          <FramePath flame={drawn} focus={focus} onZoom={zoomTo}>
            {quiet !== null && "grey = not significant"}
          </FramePath>
        )}
      </div>
      {name === "table" && <div className="split">{table}</div>}
      {name === "both" && <Split left={table} right={graph} />}
      {name === "flame" && (
        <div className="split">
          <div className="side grow">{graph}</div>
        </div>
      )}
      <MenuAt at={target} entries={target === null ? [] : entries(target)} onClose={() => setTarget(null)} />
    </section>
  );
}

function csvOf(rows: readonly Change[]): string {
  /* A spreadsheet takes what begins with these signs for a formula. */
  const text = (value: string): string => `"${(/^[=+\-@\t\r]/.test(value) ? `'${value}` : value).replaceAll('"', '""')}"`;
  const head = "function,figure,state,baseline,baseline_share,comparison,comparison_share,change,low,high,q";
  return [
    head,
    ...rows.map((row) =>
      [
        text(row.name),
        row.of,
        row.state,
        row.a.value,
        row.a.share,
        row.b.value,
        row.b.share,
        row.change ?? "",
        row.interval?.[0] ?? "",
        row.interval?.[1] ?? "",
        row.q ?? "",
      ].join(","),
    ),
  ].join("\n");
}
