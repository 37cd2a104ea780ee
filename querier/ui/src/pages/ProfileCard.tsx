/*
 * The card with the flame graph and all other views of one profile: of a selection (Single.tsx) or of a file (Adhoc.tsx), which
 * say where its numbers come from.
 */

import { type ReactNode, type RefObject, useCallback, useMemo, useRef, useState } from "react";

import type { Functions } from "../api/types";
import { openedOf } from "../flame/calltree";
import { packageOf } from "../flame/names";
import { exactly, literal } from "../flame/search";
import { focusOf } from "../flame/focus";
import { type Flame, pathOf } from "../flame/model";
import { hasSiblings } from "../flame/tree";
import { type Unit, formatCount, formatShare, formatValue } from "../flame/units";
import type { FlameView } from "../flame/view";
import { useRoute } from "../state/route";
import { useSettings } from "../state/settings";
import { linkOf } from "../state/source";
import { BAR_SEPARATOR, SEPARATOR } from "../state/url";
import { Skeleton } from "../ui/Busy";
import { CallTreeView } from "../ui/CallTreeView";
import { FlameGraph } from "../ui/FlameGraph";
import { FramePath } from "../ui/FramePath";
import { FunctionsTable, type Sort } from "../ui/FunctionsTable";
import { Icon } from "../ui/Icon";
import { type Entry, Menu, MenuAt } from "../ui/Menu";
import { Problem } from "../ui/Problem";
import { SearchField } from "../ui/SearchField";
import { useKeys } from "../ui/Shortcuts";
import { Split } from "../ui/Split";
import { functionsOf } from "../ui/functions";
import { useShape } from "../ui/shape";
import { copy } from "../ui/toast";

export const VIEWS = [
  ["table", "Table"],
  ["both", "Both"],
  ["flame", "Flame"],
  ["tree", "Call tree"],
  ["sandwich", "Sandwich"],
] as const;
export type ViewName = (typeof VIEWS)[number][0];

/* Something that is asked for: what is there of it, and whether it is of what was asked before. */
export interface Asked<Answer> {
  data: Answer | undefined;
  fault: unknown; // null: none
  stale: boolean;
  retry: () => void;
}

export interface SandwichGraphs {
  callers: Flame;
  callees: Flame;
  all: number;
  total: number;
  self: number;
}

interface Props {
  flame: Flame | null;
  stale: boolean;
  unit: Unit;
  functions: Asked<Functions>;
  onAllFunctions?: (() => void) | undefined; // there are more
  sandwich: Asked<SandwichGraphs>;
  callSite: string[];
  onOnly?: ((path: string[]) => void) | undefined; // asks for the stacks through a call site alone; []: for more of all
  lines?: ((fn: string, onClose: () => void) => ReactNode) | undefined; // of the source of a function: a dialog
  tools: (view: RefObject<FlameView | null>, hasPicture: boolean) => ReactNode;
}

/* What the pointer or the keyboard is at: a function, and where a menu for it opens. */
interface Target {
  name: string;
  path: string[] | null; // of a bar, from the root
  node: number;
  x: number;
  y: number;
}

export function ProfileCard({ flame, stale, unit, functions, onAllFunctions, sandwich, callSite, onOnly, lines, tools }: Props) {
  const { params, set } = useRoute();
  const { sourceLinks } = useSettings();
  const view = useRef<FlameView | null>(null);
  const [hoveredBar, setHoveredBar] = useState<string | null>(null);
  const [hoveredRow, setHoveredRow] = useState<string | null>(null);
  const [found, setFound] = useState("");
  const [target, setTarget] = useState<Target | null>(null);
  const name: ViewName = VIEWS.some(([one]) => one === params.view) ? (params.view as ViewName) : "both";
  const ascending = params.sort.startsWith("-");
  const sort = (params.sort.replace("-", "") || "self") as Sort;
  const upward = params.inv === "1";
  const colourBy = params.color === "function" ? "function" : "package";

  const { flame: shaped, focus, hide, alone, changed } = useShape(flame);
  /* The server's numbers are of all stacks; those of some stacks are of the picture, which is of these alone. */
  const ofSome = params.having !== "" || callSite.length > 0;
  const some = useMemo(() => (ofSome && shaped !== null ? functionsOf(shaped, unit) : undefined), [ofSome, shaped, unit]);
  const listed: Asked<Functions> = some !== undefined ? { ...functions, data: some, fault: null, stale } : functions;

  const zoomTo = (node: number): void => set({ focus: shaped === null ? "" : focusOf(shaped, node).join(SEPARATOR) });
  const sandwichOf = (fn: string): void => set({ view: "sandwich", fn });
  /* The stacks through a bar, asked of the server again: all its nodes fit, and what was folded is there. */
  const only = (node: number): void => {
    const folded = shaped!.names[shaped!.name[node]!] === "other";
    onOnly?.(pathOf(shaped!, folded ? shaped!.parent[node]! : node).slice(1));
  };
  /* The bars of this flame graph whose siblings are one bar, and have the same parent as this one. */
  const aloneWith = (node: number) => alone.filter((one) => one.node > 0 && shaped!.parent[one.node] === shaped!.parent[node]);
  const toggleSiblings = (node: number): void => {
    const among = aloneWith(node);
    const bars =
      among.length > 0
        ? alone.filter((one) => !among.includes(one)).map((one) => one.bar)
        : [...alone.map((one) => one.bar), focusOf(shaped!, node).join(SEPARATOR)];
    set({ alone: bars.join(BAR_SEPARATOR), focus: "" });
  };
  const keepHaving = (having: string): void => set({ having, focus: "", alone: "" });
  const searchFor = useCallback(
    (q: string) => set(q === "" ? { q } : { q, tree: openedOf(params.tree) }, { replace: true }),
    [set, params.tree],
  );

  const entriesFor = (at: Target): Entry[] => {
    const inPackage = packageOf(at.name);
    const bar = at.node >= 0;
    const entries: Entry[] = [{ note: at.name }, "line"];
    if (bar) entries.push({ key: "zoom", text: "Zoom", hint: "Enter", run: () => zoomTo(at.node) });
    if (bar && at.node > 0 && params.group === "" && onOnly !== undefined)
      entries.push({ key: "only", text: "Only stacks through here", run: () => only(at.node) });
    if (bar && (aloneWith(at.node).length > 0 || hasSiblings(shaped!, at.node)))
      entries.push({
        key: "siblings",
        text: aloneWith(at.node).length > 0 ? "Show all siblings" : "Collapse siblings",
        hint: "c",
        run: () => toggleSiblings(at.node),
      });
    entries.push(
      {
        key: "having",
        text: "Use as filter: only stacks with it",
        on: params.having === at.name,
        run: () => keepHaving(params.having === at.name ? "" : at.name),
      },
      { key: "sandwich", text: "Sandwich: callers and callees", hint: "s", run: () => sandwichOf(at.name) },
      { key: "search", text: "Search this", run: () => searchFor(exactly(at.name)) },
    );
    if (inPackage !== "") {
      entries.push(
        {
          key: "package",
          text: `Search its package ${inPackage}`,
          run: () => searchFor(`^${literal(inPackage)}\\b`),
        },
        {
          key: "only package",
          text: "Only its package",
          on: params.only === inPackage,
          run: () => set({ only: params.only === inPackage ? "" : inPackage, focus: "" }),
        },
        { key: "hide", text: "Hide its package", run: () => set({ hide: [...hide, inPackage].join(SEPARATOR), focus: "" }) },
      );
    }
    entries.push("line", { key: "copy", text: "Copy name", run: () => void copy("Name", at.name) });
    if (at.path !== null) entries.push({ key: "stack", text: "Copy stack", run: () => void copy("Stack", at.path!.slice(1).join("\n")) });
    const link = linkOf(sourceLinks, at.name);
    if (lines !== undefined) entries.push({ key: "source", text: "Source and lines", hint: "o", run: () => set({ source: at.name }) });
    else if (link !== null)
      entries.push({ key: "source", text: "Open source", run: () => void window.open(link, "_blank", "noopener,noreferrer") });
    return entries;
  };
  const targetOf = (node: number, x: number, y: number): Target => {
    const path = pathOf(shaped!, node);
    return { name: path.at(-1)!, path, node, x, y };
  };

  /* The function that keys are about: of the row that the pointer or the focus is at, else of the flame graph's bar. */
  const meant = (): string => {
    const node = view.current?.current ?? 0;
    return hoveredRow ?? (shaped !== null && node > 0 ? shaped.names[shaped.name[node]!]! : "");
  };
  useKeys({
    ...Object.fromEntries(VIEWS.map(([one], index) => [String(index + 1), () => set({ view: one })])),
    i: () => set({ inv: upward ? "" : "1" }),
    s: () => {
      if (meant() !== "") sandwichOf(meant());
    },
    c: () => {
      const node = view.current?.current ?? 0;
      if (shaped !== null && (hasSiblings(shaped, node) || aloneWith(node).length > 0)) toggleSiblings(node);
    },
    o: () => {
      if (lines !== undefined && meant() !== "") set({ source: meant() });
    },
    Escape: () =>
      set(params.q !== "" ? { q: "" } : params.focus !== "" ? { focus: "" } : params.having !== "" ? { having: "" } : { site: "" }),
  });

  const table =
    listed.data !== undefined ? (
      <div className={listed.stale ? "side grow stale" : "side grow"}>
        <FunctionsTable
          answer={listed.data}
          search={params.q}
          sort={sort}
          ascending={ascending}
          hovered={hoveredBar}
          onHover={setHoveredRow}
          colourBy={colourBy}
          onSort={(by) => set({ sort: by === sort ? (ascending ? by : `-${by}`) : by === "name" ? "-name" : by })}
          onPick={(fn) => (name === "sandwich" ? set({ fn }) : searchFor(params.q === exactly(fn) ? "" : exactly(fn)))}
          onMenu={(fn, x, y) => setTarget({ name: fn, path: null, node: -1, x, y })}
          onMore={some === undefined ? onAllFunctions : undefined}
        />
      </div>
    ) : listed.fault !== null ? (
      <Problem fault={listed.fault} onRetry={listed.retry} />
    ) : (
      <Skeleton />
    );
  const graph =
    shaped !== null ? (
      <div className={stale ? "flame-box stale" : "flame-box"}>
        <FlameGraph
          flame={shaped}
          search={params.q}
          highlight={hoveredRow}
          focus={focus}
          options={{ unit, upward, colourBy, label: "Flame graph" }}
          onView={(made) => {
            view.current = made;
          }}
          onFound={setFound}
          onZoom={zoomTo}
          onLoad={only}
          onHover={(node) => setHoveredBar(node < 0 ? null : shaped.names[shaped.name[node]!]!)}
          onMenu={(node, x, y) => setTarget(targetOf(node, x, y))}
        />
      </div>
    ) : (
      <Skeleton />
    );
  const callTree =
    shaped !== null ? (
      <CallTreeView
        flame={shaped}
        unit={unit}
        search={params.q}
        colourBy={colourBy}
        onMenu={(node, x, y) => setTarget(targetOf(node, x, y))}
      />
    ) : (
      <Skeleton />
    );

  return (
    <section className="card profile" aria-label="Profile">
      <div className="toolbar">
        <div className="seg" role="group" aria-label="View">
          {VIEWS.map(([one, text]) => (
            <button key={one} type="button" aria-pressed={name === one} onClick={() => set({ view: one })}>
              {text}
            </button>
          ))}
        </div>
        <SearchField label="Search functions (regex)" value={params.q} onChange={searchFor} found={found} />
        <div className="push">
          {name !== "table" && name !== "tree" && name !== "sandwich" && (
            <button type="button" className="btn" title="Flip (i)" onClick={() => set({ inv: upward ? "" : "1" })}>
              <Icon name="flip" />
              {upward ? "Flame" : "Icicle"}
            </button>
          )}
          <Menu
            trigger={
              <>
                <Icon name="palette" />
                <span className="hidden-text">Colours: </span>
                {colourBy === "package" ? "Package" : "Function"}
                <Icon name="down" size={13} />
              </>
            }
            entries={[
              { key: "package", text: "Colour by package", on: colourBy === "package", run: () => set({ color: "package" }) },
              { key: "function", text: "Colour by function", on: colourBy === "function", run: () => set({ color: "function" }) },
            ]}
          />
          <Menu
            trigger={
              <>
                <Icon name="group" />
                Group
                {changed ? <span title="Some frames are put together or hidden"> •</span> : ""}
                <Icon name="down" size={13} />
              </>
            }
            entries={[
              { key: "none", text: "Every frame", on: params.group === "", run: () => set({ group: "", focus: "" }) },
              {
                key: "recursion",
                text: "Recursion as one frame",
                on: params.group === "recursion",
                run: () => set({ group: "recursion", focus: "" }),
              },
              {
                key: "package",
                text: "Packages instead of functions",
                on: params.group === "package",
                run: () => set({ group: "package", focus: "" }),
              },
              "line",
              ...["0.001", "0.01"].map(
                (min): Entry => ({
                  key: min,
                  text: `Fold frames below ${formatShare(Number(min))}`,
                  on: params.min === min,
                  run: () => set({ min: params.min === min ? "" : min, focus: "" }),
                }),
              ),
              ...(params.having === ""
                ? []
                : ["line" as const, { key: "having", text: `Only stacks with ${params.having}`, on: true, run: () => keepHaving("") }]),
              ...(alone.length === 0
                ? []
                : [
                    "line" as const,
                    { key: "alone", text: `Siblings collapsed: ${alone.length}`, on: true, run: () => set({ alone: "", focus: "" }) },
                  ]),
              ...(params.only === ""
                ? []
                : ["line" as const, { key: "only", text: `Only: ${params.only}`, on: true, run: () => set({ only: "", focus: "" }) }]),
              ...(hide.length === 0
                ? []
                : [
                    "line" as const,
                    ...hide.map(
                      (one): Entry => ({
                        key: `hide ${one}`,
                        text: `Hidden: ${one}`,
                        on: true,
                        run: () => set({ hide: hide.filter((other) => other !== one).join(SEPARATOR), focus: "" }),
                      }),
                    ),
                  ]),
            ]}
          />
          {tools(view, name === "both" || name === "flame")}
        </div>
      </div>
      {name === "sandwich" ? (
        <SandwichPath fn={params.fn} onClear={() => set({ fn: "" })} />
      ) : (
        <ZoomPath
          flame={shaped}
          focus={focus}
          unit={unit}
          callSite={callSite}
          having={params.having}
          onZoom={zoomTo}
          onAll={() => set({ site: "", having: "", focus: "" })}
          onAny={() => keepHaving("")}
        />
      )}
      {name === "table" && <div className="split">{table}</div>}
      {name === "both" && <Split left={table} right={graph} />}
      {name === "flame" && (
        <div className="split">
          <div className="side grow">{graph}</div>
        </div>
      )}
      {name === "tree" && (
        <div className="split">
          <div className="side grow">{callTree}</div>
        </div>
      )}
      {name === "sandwich" && (
        <Split
          left={table}
          right={<SandwichView asked={sandwich} fn={params.fn} unit={unit} search={params.q} colourBy={colourBy} onPick={sandwichOf} />}
        />
      )}
      {params.source !== "" && lines?.(params.source, () => set({ source: "" }))}
      <MenuAt at={target} entries={target === null ? [] : entriesFor(target)} onClose={() => setTarget(null)} />
    </section>
  );
}

function ZoomPath({
  flame,
  focus,
  unit,
  callSite,
  having,
  onZoom,
  onAll,
  onAny,
}: {
  flame: Flame | null;
  focus: number;
  unit: Unit;
  callSite: string[];
  having: string;
  onZoom: (node: number) => void;
  onAll: () => void;
  onAny: () => void; // stacks, whatever functions they have
}) {
  const weight = flame === null || flame.count === 0 ? 0 : flame.w[focus]!;
  const start =
    callSite.length === 0 && having === "" ? undefined : (
      <>
        <li>
          <button type="button" title="All stacks" onClick={onAll}>
            All
          </button>
        </li>
        {callSite.length > 0 && (
          <li>
            <button type="button" title={callSite.join(" › ")} onClick={() => onZoom(0)}>
              only through {callSite.at(-1)}
            </button>
          </li>
        )}
        {having !== "" && (
          <li>
            <button type="button" title={having} onClick={() => onZoom(0)}>
              only stacks with {having}
            </button>
            <button type="button" aria-label={`Remove the filter ${having}`} onClick={onAny}>
              <Icon name="close" size={13} />
            </button>
          </li>
        )}
      </>
    );
  return (
    <FramePath flame={flame} focus={focus} start={start} onZoom={onZoom}>
      {flame !== null && `${formatValue(weight, unit)} · ${formatShare(flame.total > 0 ? weight / flame.total : 0)} of total`}
    </FramePath>
  );
}

function SandwichPath({ fn, onClear }: { fn: string; onClear: () => void }) {
  return (
    <div className="path">
      {fn === "" ? <span>Pick a function: its callers and callees are shown.</span> : <b>{fn}</b>}
      {fn !== "" && (
        <span className="push">
          <button type="button" onClick={onClear}>
            Clear
          </button>
        </span>
      )}
    </div>
  );
}

function SandwichView({
  asked,
  fn,
  unit,
  search,
  colourBy,
  onPick,
}: {
  asked: Asked<SandwichGraphs>;
  fn: string;
  unit: Unit;
  search: string;
  colourBy: "package" | "function";
  onPick: (fn: string) => void;
}) {
  if (fn === "")
    return (
      <div className="center">
        <h2>Sandwich</h2>
        <p>Pick a function in the table: above it are its callers, below it what it calls.</p>
      </div>
    );
  if (asked.data === undefined) return asked.fault !== null ? <Problem fault={asked.fault} onRetry={asked.retry} /> : <Skeleton />;
  const { callers, callees, total, all, self } = asked.data;
  if (total === 0)
    return (
      <div className="center">
        <h2>No stack has it</h2>
        <p>No profile of this selection and time was in {fn}. Another function, a wider range or fewer filters may have it.</p>
      </div>
    );
  const hideRoot = callers.names[callers.name[0]!] !== fn; // the server's begin with "total"
  const pick =
    (flame: Flame) =>
    (node: number): void => {
      if (node > 0) onPick(flame.names[flame.name[node]!]!);
    };
  return (
    <div className={asked.stale ? "half stale" : "half"}>
      <p className="path">
        <span>
          <b>{formatValue(total, unit)}</b> total, {formatShare(all > 0 ? total / all : 0)} of all
        </span>
        <span>
          <b>{formatValue(self, unit)}</b> self
        </span>
        <span className="push">{formatCount(Math.max(callers.depth - 2, 0))} caller levels</span>
      </p>
      <div className="half">
        <h3>Callers</h3>
        <div className="flame-box">
          <FlameGraph
            flame={callers}
            search={search}
            options={{ unit, upward: true, hideRoot, colourBy, label: "Callers" }}
            onLoad={pick(callers)}
          />
        </div>
      </div>
      <div className="half">
        <h3>Callees</h3>
        <div className="flame-box">
          <FlameGraph flame={callees} search={search} options={{ unit, hideRoot, colourBy, label: "Callees" }} onLoad={pick(callees)} />
        </div>
      </div>
    </div>
  );
}
