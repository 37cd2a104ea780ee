/* Two selections side by side: the same search, the same zoom, and scales that can be the same. */

import { type RefObject, useCallback, useMemo, useRef, useState } from "react";

import { FUNCTIONS_PAGE, useFlame, useFunctions, useLines } from "../api/queries";
import type { Functions } from "../api/types";
import { focusOf, nodeOf } from "../flame/focus";
import { type Flame, pathOf } from "../flame/model";
import { splitName } from "../flame/names";
import { exactly, patternOf } from "../flame/search";
import { type Unit, formatCount, formatShare, formatValue, unitOf } from "../flame/units";
import type { FlameView } from "../flame/view";
import { useSpan } from "../state/now";
import { useRoute } from "../state/route";
import { type SideName, domainOf, sidePatch, swapped } from "../state/sides";
import { meaning } from "../state/types";
import { SEPARATOR } from "../state/url";
import { Skeleton, SlowNote } from "../ui/Busy";
import { FlameGraph } from "../ui/FlameGraph";
import { FramePath } from "../ui/FramePath";
import { Icon } from "../ui/Icon";
import { type Entry, Menu, MenuAt } from "../ui/Menu";
import { Problem } from "../ui/Problem";
import { useSelection } from "../ui/QueryBar";
import { RowsTable, SortHead, useRowsInSight } from "../ui/rows";
import { SearchField } from "../ui/SearchField";
import { ShareMenu } from "../ui/ShareMenu";
import { useKeys } from "../ui/Shortcuts";
import { POINTS, SIDE_NAMES, SideCard, sharedMost } from "../ui/SideCard";
import { Bound, WorthStrip } from "../ui/Summary";
import { copy } from "../ui/toast";
import { type GivenSides, WithSides } from "./WithSides";
import "./comparison.css";

const NODES_MAX = 1_048_576; // the server's limit
const NAMES: readonly SideName[] = ["left", "right"];

export function Compare() {
  return <WithSides what="Compare">{(given) => <CompareOf {...given} />}</WithSides>;
}

interface Target {
  side: SideName;
  name: string;
  node: number; // -1: of the table
  x: number;
  y: number;
}

function CompareOf({ sides, together, moveSide, setTogether }: GivenSides) {
  const { params, set, link } = useRoute();
  const outer = useSpan();
  const queries = { left: useSelection(sides.left.query).query, right: useSelection(sides.right.query).query };
  const domains = { left: domainOf(sides.left.span, outer), right: domainOf(sides.right.span, outer) };
  const lines = { left: useLines(queries.left, domains.left, POINTS, []), right: useLines(queries.right, domains.right, POINTS, []) };
  const maxNodes = Math.min(Math.max(Number(params.maxNodes) || 0, 1), NODES_MAX);
  const flames = {
    left: useFlame(queries.left, sides.left.span, maxNodes, {}),
    right: useFlame(queries.right, sides.right.span, maxNodes, {}),
  };
  const sameType = queries.left.type === queries.right.type;
  const shared = params.mode === "abs" && sameType;
  const isTable = params.view === "table";
  const functions = {
    left: useFunctions(queries.left, sides.left.span, "self", FUNCTIONS_PAGE, isTable),
    right: useFunctions(queries.right, sides.right.span, "self", FUNCTIONS_PAGE, isTable),
  };
  const most = sameType ? sharedMost(lines.left.data, lines.right.data) : null;
  const views: Record<SideName, RefObject<FlameView | null>> = { left: useRef<FlameView>(null), right: useRef<FlameView>(null) };
  const [hovered, setHovered] = useState<{ side: SideName; name: string } | null>(null);
  const [found, setFound] = useState<Record<SideName, string>>({ left: "", right: "" });
  const [target, setTarget] = useState<Target | null>(null);
  const upward = params.inv === "1";
  const colourBy = params.color === "function" ? "function" : "package";
  const graphs = { left: flames.left.data?.flame ?? null, right: flames.right.data?.flame ?? null };
  const extent = shared ? Math.max(graphs.left?.total ?? 0, graphs.right?.total ?? 0) : 0;
  const path = useMemo(() => (params.focus === "" ? [] : params.focus.split(SEPARATOR)), [params.focus]);
  const focus = {
    left: useMemo(() => (graphs.left === null ? 0 : nodeOf(graphs.left, path)), [graphs.left, path]),
    right: useMemo(() => (graphs.right === null ? 0 : nodeOf(graphs.right, path)), [graphs.right, path]),
  };
  const onFound = {
    left: useCallback((text: string) => setFound((old) => ({ ...old, left: text })), []),
    right: useCallback((text: string) => setFound((old) => ({ ...old, right: text })), []),
  };
  const searchFor = useCallback((q: string) => set({ q }, { replace: true }), [set]);
  const total = (name: SideName): string => (graphs[name] === null ? "" : formatValue(graphs[name].total, unitOf(queries[name].type)));

  useKeys({
    1: () => set({ view: "table" }),
    2: () => set({ view: "" }),
    i: () => set({ inv: upward ? "" : "1" }),
    x: () => set(swapped(sides)),
    Escape: () => set(params.q !== "" ? { q: "" } : { focus: "" }),
  });

  const entries = (at: Target): Entry[] => {
    const side = sides[at.side];
    const alone = link(
      {
        query: side.query,
        from: String(Math.round(side.span.from)),
        until: String(Math.round(side.span.until)),
        sel: "",
        view: "sandwich",
        fn: at.name,
        q: "",
        focus: "",
        leftQuery: "",
        leftFrom: "",
        leftUntil: "",
        rightQuery: "",
        rightFrom: "",
        rightUntil: "",
      },
      "/",
    );
    return [
      { note: at.name },
      "line",
      ...(at.node >= 0
        ? [
            {
              key: "zoom",
              text: "Zoom on both sides",
              hint: "Enter",
              run: () => set({ focus: focusOf(graphs[at.side]!, at.node).join(SEPARATOR) }),
            },
          ]
        : []),
      { key: "search", text: "Search this on both sides", run: () => searchFor(exactly(at.name)) },
      { key: "alone", text: `Sandwich in the ${SIDE_NAMES[at.side].toLowerCase()} alone`, run: () => window.location.assign(alone) },
      "line",
      { key: "copy", text: "Copy name", run: () => void copy("Name", at.name) },
      ...(at.node >= 0
        ? [{ key: "stack", text: "Copy stack", run: () => void copy("Stack", pathOf(graphs[at.side]!, at.node).slice(1).join("\n")) }]
        : []),
    ];
  };

  const half = (name: SideName) => {
    const flame = graphs[name];
    const unit = unitOf(queries[name].type);
    const answer = flames[name];
    const other: SideName = name === "left" ? "right" : "left";
    return (
      <section key={name} className={`half-side ${name}`} aria-label={`${SIDE_NAMES[name]}: flame graph`}>
        <FramePath
          flame={flame}
          focus={focus[name]}
          label={`Zoom of the ${SIDE_NAMES[name].toLowerCase()}`}
          onZoom={(node) => set({ focus: flame === null ? "" : focusOf(flame, node).join(SEPARATOR) })}
        >
          {flame !== null && weightOf(flame, focus[name], unit)} <Bound statistics={answer.data?.statistics} />
          {found[name] !== "" && <b> · found {found[name]}</b>}
        </FramePath>
        <WorthStrip answers={[answer.data?.statistics, lines[name].data?.statistics, functions[name].data?.statistics]} />
        {answer.isError ? (
          <Problem fault={answer.error} onRetry={() => void answer.refetch()} />
        ) : flame === null ? (
          <Skeleton />
        ) : flame.total === 0 ? (
          <div className="center">
            <h2>No profiles</h2>
            <p>The {SIDE_NAMES[name].toLowerCase()} selects none in this time.</p>
          </div>
        ) : (
          <div className={answer.isPlaceholderData ? "flame-box stale" : "flame-box"}>
            <FlameGraph
              flame={flame}
              search={params.q}
              focus={focus[name]}
              highlight={hovered?.side === other ? hovered.name : null}
              options={{ unit, upward, colourBy, extent, label: `${SIDE_NAMES[name]}: flame graph` }}
              onView={(made) => {
                views[name].current = made;
              }}
              onFound={onFound[name]}
              onZoom={(node) => set({ focus: focusOf(flame, node).join(SEPARATOR) })}
              onLoad={(node) => {
                if (flame.names[flame.name[node]!] === "other") set({ maxNodes: String(Math.min(maxNodes * 4, NODES_MAX)) });
              }}
              onHover={(node) => setHovered(node <= 0 ? null : { side: name, name: flame.names[flame.name[node]!]! })}
              onMenu={(node, x, y) => setTarget({ side: name, name: flame.names[flame.name[node]!]!, node, x, y })}
            />
          </div>
        )}
      </section>
    );
  };

  return (
    <>
      <h1 className="hidden-text">Two selections side by side</h1>
      <div className="sides">
        {NAMES.map((name) => (
          <SideCard
            key={name}
            name={name}
            side={sides[name]}
            domain={domains[name]}
            lines={lines[name]}
            most={most}
            total={total(name)}
            withType
            onChange={(side, done) => moveSide(name, side, done)}
            {...(name === "right" ? { together: { on: together, set: setTogether } } : {})}
          />
        ))}
      </div>
      <SlowNote results={isTable ? [functions.left, functions.right] : [flames.left, flames.right]} />
      <section className="card profile" aria-label="Both profiles">
        <div className="toolbar">
          <div className="seg" role="group" aria-label="View">
            <button type="button" aria-pressed={isTable} onClick={() => set({ view: "table" })}>
              Table
            </button>
            <button type="button" aria-pressed={!isTable} onClick={() => set({ view: "" })}>
              Flame graphs
            </button>
          </div>
          <SearchField label="Search both sides (regex)" value={params.q} onChange={searchFor} />
          <button type="button" className="btn" title="Swap sides (x)" onClick={() => set(swapped(sides))}>
            <Icon name="diff" />
            Swap sides
          </button>
          <div className="push">
            {!isTable && (
              <>
                <div className="seg" role="group" aria-label="Scale">
                  <button type="button" aria-pressed={!shared} title="Each side has the whole width" onClick={() => set({ mode: "share" })}>
                    Each whole
                  </button>
                  <button
                    type="button"
                    aria-pressed={shared}
                    disabled={!sameType}
                    title={sameType ? "A pixel is the same value on both sides" : "The sides have different units"}
                    onClick={() => set({ mode: "abs" })}
                  >
                    Same scale
                  </button>
                </div>
                <button type="button" className="btn" title="Flip (i)" onClick={() => set({ inv: upward ? "" : "1" })}>
                  <Icon name="flip" />
                  {upward ? "Flame" : "Icicle"}
                </button>
                <Menu
                  trigger={
                    <>
                      <Icon name="palette" />
                      {colourBy === "package" ? "Package" : "Function"}
                      <Icon name="down" size={13} />
                    </>
                  }
                  entries={[
                    { key: "package", text: "Colour by package", on: colourBy === "package", run: () => set({ color: "package" }) },
                    { key: "function", text: "Colour by function", on: colourBy === "function", run: () => set({ color: "function" }) },
                  ]}
                />
              </>
            )}
            <a className="btn" href={link({ view: "", focus: "", mode: "" }, "/diff")}>
              <Icon name="diff" />
              What changed
            </a>
            <ShareMenu span={outer} path="/compare" also={{ ...sidePatch("left", sides.left), ...sidePatch("right", sides.right) }} />
          </div>
        </div>
        {isTable ? (
          functions.left.isError || functions.right.isError ? (
            <Problem
              fault={functions.left.error ?? functions.right.error}
              onRetry={() => {
                void functions.left.refetch();
                void functions.right.refetch();
              }}
            />
          ) : functions.left.data === undefined || functions.right.data === undefined ? (
            <Skeleton />
          ) : (
            <BothTable
              left={functions.left.data}
              right={functions.right.data}
              units={[unitOf(queries.left.type), unitOf(queries.right.type)]}
              search={params.q}
              sort={params.sort}
              heads={sameType ? ["", ""] : [meaning(queries.left.type).label, meaning(queries.right.type).label]}
              onSort={(sort) => set({ sort })}
              onPick={(fn) => searchFor(params.q === exactly(fn) ? "" : exactly(fn))}
              onMenu={(name, x, y) => setTarget({ side: "right", name, node: -1, x, y })}
            />
          )
        ) : (
          <div className="halves">{NAMES.map(half)}</div>
        )}
      </section>
      <MenuAt at={target} entries={target === null ? [] : entries(target)} onClose={() => setTarget(null)} />
    </>
  );
}

function weightOf(flame: Flame, focus: number, unit: Unit): string {
  if (flame.count === 0) return "";
  const weight = flame.w[focus]!;
  return `${formatValue(weight, unit)} · ${formatShare(flame.total > 0 ? weight / flame.total : 0)} of total`;
}

interface Row {
  name: string;
  self: [number, number]; // of the left and the right side, as shares
  total: [number, number];
  values: [number, number, number, number]; // self and total of the left, of the right
}

function joined(left: Functions, right: Functions): Row[] {
  const rows = new Map<string, Row>();
  [left, right].forEach((answer, side) => {
    for (const one of answer.functions) {
      let row = rows.get(one.name);
      if (row === undefined) rows.set(one.name, (row = { name: one.name, self: [0, 0], total: [0, 0], values: [0, 0, 0, 0] }));
      row.self[side] = one.self_share;
      row.total[side] = one.total_share;
      row.values[side * 2] = one.self;
      row.values[side * 2 + 1] = one.total;
    }
  });
  return [...rows.values()];
}

const COLUMNS = [
  { key: "left", text: "Baseline self", of: (row: Row) => row.values[0] },
  { key: "lefttotal", text: "Baseline total", of: (row: Row) => row.values[1] },
  { key: "right", text: "Comparison self", of: (row: Row) => row.values[2] },
  { key: "righttotal", text: "Comparison total", of: (row: Row) => row.values[3] },
] as const;

function BothTable({
  left,
  right,
  units,
  search,
  sort,
  heads,
  onSort,
  onPick,
  onMenu,
}: {
  left: Functions;
  right: Functions;
  units: [Unit, Unit];
  search: string;
  sort: string;
  heads: [string, string];
  onSort: (sort: string) => void;
  onPick: (name: string) => void;
  onMenu: (name: string, x: number, y: number) => void;
}) {
  const ascending = sort.startsWith("-");
  const by = sort.replace("-", "");
  const column = COLUMNS.find((one) => one.key === by) ?? (by === "name" ? null : COLUMNS[2]);
  const all = useMemo(() => joined(left, right), [left, right]);
  const rows = useMemo(() => {
    const pattern = search === "" ? null : patternOf(search);
    const sign = ascending ? 1 : -1;
    return all
      .filter((row) => pattern === null || pattern.test(row.name))
      .sort(
        (a, b) => (column === null ? 0 : sign * (column.of(a) - column.of(b))) || (column === null ? sign : 1) * (a.name < b.name ? -1 : 1),
      );
  }, [all, search, column, ascending]);
  const sight = useRowsInSight(rows.length, rows);
  const head = (key: string, text: string, number: boolean) => {
    const on = (column?.key ?? "name") === key;
    return (
      <SortHead
        key={key}
        on={on}
        ascending={ascending}
        number={number}
        onSort={() => onSort(on ? (ascending ? key : `-${key}`) : key === "name" ? "-name" : key)}
      >
        {text}
      </SortHead>
    );
  };
  const missing = Math.max(left.count - left.functions.length, right.count - right.functions.length);

  return (
    <RowsTable
      sight={sight}
      label="Functions of both sides"
      className="changes"
      widths={[null, ...COLUMNS.map(() => 158)]}
      head={
        <>
          {head("name", `Function (${formatCount(rows.length)})`, false)}
          {COLUMNS.map((one, index) =>
            head(one.key, `${one.text}${heads[index < 2 ? 0 : 1] === "" ? "" : `, ${heads[index < 2 ? 0 : 1]}`}`, true),
          )}
        </>
      }
      none={`No function matches “${search}”.`}
      row={(index) => {
        const row = rows[index]!;
        const name = splitName(row.name);
        const shares = [row.self[0], row.total[0], row.self[1], row.total[1]];
        return (
          <tr
            key={row.name}
            data-row={index}
            aria-rowindex={index + 2}
            title={row.name}
            onClick={() => onPick(row.name)}
            onContextMenu={(event) => {
              event.preventDefault();
              onMenu(row.name, event.clientX, event.clientY);
            }}
          >
            <td className="name">
              <div className="cell">
                <button
                  type="button"
                  tabIndex={index === sight.stop ? 0 : -1}
                  aria-label={row.name}
                  onKeyDown={(event) => sight.onKey(event, index, (x, y) => onMenu(row.name, x, y))}
                >
                  <span className="dim">{name.dim}</span>
                  {name.main}
                </button>
              </div>
            </td>
            {row.values.map((value, at) => (
              <td key={at} className="n">
                <span className="text">
                  {formatValue(value, units[at < 2 ? 0 : 1])}
                  <span className="share">{formatShare(shares[at]!)}</span>
                </span>
              </td>
            ))}
          </tr>
        );
      }}
    >
      {missing > 0 && <p className="table-foot">Of each side the first {formatCount(FUNCTIONS_PAGE)} functions by their self value.</p>}
    </RowsTable>
  );
}
