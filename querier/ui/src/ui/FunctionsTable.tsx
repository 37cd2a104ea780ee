/*
 * Functions with their exact numbers: the server's, made of all data. It is the flame graph's equal for those who cannot see
 * it. Rows are of one height, so only those in sight are in the document.
 */

import { useMemo, useRef } from "react";

import type { Functions, FunctionRow } from "../api/types";
import { colourOf, makeTheme } from "../flame/colors";
import { splitName } from "../flame/names";
import { patternOf } from "../flame/search";
import { formatCount, formatShare, formatValue, unitOf } from "../flame/units";
import { useDark } from "../state/settings";
import { ROW_PX, useRowsInSight } from "./rows";

export type Sort = "self" | "total" | "name";

interface Props {
  answer: Functions;
  search: string;
  sort: Sort;
  ascending: boolean;
  onSort: (sort: Sort) => void;
  hovered: string | null; // a function that the pointer is at in the flame graph
  onHover: (name: string | null) => void;
  onPick: (name: string) => void; // click or Enter
  onMenu: (name: string, x: number, y: number) => void;
  colourBy: "package" | "function";
  onMore?: (() => void) | undefined; // the answer has not all functions
}

function ordered(rows: readonly FunctionRow[], sort: Sort, ascending: boolean): FunctionRow[] {
  const sign = ascending ? 1 : -1;
  return [...rows].sort((a, b) =>
    sort === "name" ? sign * (a.name < b.name ? -1 : a.name > b.name ? 1 : 0) : sign * (a[sort] - b[sort]) || (a.name < b.name ? -1 : 1),
  );
}

function Head({
  sort,
  by,
  ascending,
  onSort,
  children,
  number = false,
}: {
  sort: Sort;
  by: Sort;
  ascending: boolean;
  onSort: (sort: Sort) => void;
  children: string;
  number?: boolean;
}) {
  const on = sort === by;
  return (
    <th scope="col" className={number ? "n" : undefined} aria-sort={on ? (ascending ? "ascending" : "descending") : "none"}>
      <button type="button" onClick={() => onSort(by)}>
        {children}
        {on ? (ascending ? " ↑" : " ↓") : ""}
      </button>
    </th>
  );
}

export function FunctionsTable({ answer, search, sort, ascending, onSort, hovered, onHover, onPick, onMenu, colourBy, onMore }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const dark = useDark();
  const theme = useMemo(() => makeTheme(dark), [dark]);
  const unit = unitOf(answer.unit);

  const rows = useMemo(() => {
    const found = search === "" ? answer.functions : answer.functions.filter((row) => patternOf(search).test(row.name));
    return ordered(found, sort, ascending);
  }, [answer, search, sort, ascending]);
  const most = useMemo(() => answer.functions.reduce((max, row) => Math.max(max, row.self), 0), [answer]);

  const order = useMemo(() => ({ search, sort, ascending }), [search, sort, ascending]);
  const { first, last, stop, onScroll, onKey } = useRowsInSight(box, rows.length, order);
  const keys = (event: React.KeyboardEvent, index: number, name: string): void => {
    if (onKey(event, index) || (event.key !== "m" && event.key !== "ContextMenu")) return;
    event.preventDefault();
    event.stopPropagation();
    const at = event.currentTarget.getBoundingClientRect();
    onMenu(name, at.left + 20, at.bottom);
  };

  return (
    <>
      <div className="rows" ref={box} onScroll={onScroll} onMouseLeave={() => onHover(null)}>
        <table className="functions fixed" aria-label="Functions" aria-rowcount={rows.length + 1}>
          <colgroup>
            <col />
            <col style={{ width: 142 }} />
            <col style={{ width: 128 }} />
          </colgroup>
          <thead>
            <tr aria-rowindex={1}>
              <Head sort={sort} by="name" ascending={ascending} onSort={onSort}>{`Function (${formatCount(rows.length)})`}</Head>
              <Head sort={sort} by="self" ascending={ascending} onSort={onSort} number>
                Self
              </Head>
              <Head sort={sort} by="total" ascending={ascending} onSort={onSort} number>
                Total
              </Head>
            </tr>
          </thead>
          <tbody>
            {first > 0 && (
              <tr className="spacer" aria-hidden="true">
                <td colSpan={3} style={{ height: first * ROW_PX }} />
              </tr>
            )}
            {rows.slice(first, last).map((row, offset) => {
              const index = first + offset;
              const name = splitName(row.name);
              return (
                <tr
                  key={row.name}
                  data-row={index}
                  aria-rowindex={index + 2}
                  className={row.name === hovered ? "hover" : undefined}
                  onMouseEnter={() => onHover(row.name)}
                  onContextMenu={(event) => {
                    event.preventDefault();
                    onMenu(row.name, event.clientX, event.clientY);
                  }}
                  onClick={() => onPick(row.name)}
                >
                  <td className="name" title={row.name}>
                    <div className="cell">
                      <i className="key" style={{ background: theme.fills[colourOf(row.name, colourBy)] }} />
                      <button
                        type="button"
                        tabIndex={index === stop ? 0 : -1}
                        onKeyDown={(event) => keys(event, index, row.name)}
                        onFocus={() => onHover(row.name)}
                        aria-label={row.name}
                      >
                        <span className="dim">{name.dim}</span>
                        {name.main}
                      </button>
                    </div>
                  </td>
                  <td className="n">
                    <span className="bar-of" style={{ width: `${most > 0 ? (row.self / most) * 92 : 0}%` }} />
                    <span className="text">
                      {formatValue(row.self, unit)}
                      <span className="share">{formatShare(row.self_share)}</span>
                    </span>
                  </td>
                  <td className="n">
                    <span className="text">
                      {formatValue(row.total, unit)}
                      <span className="share">{formatShare(row.total_share)}</span>
                    </span>
                  </td>
                </tr>
              );
            })}
            {last < rows.length && (
              <tr className="spacer" aria-hidden="true">
                <td colSpan={3} style={{ height: (rows.length - last) * ROW_PX }} />
              </tr>
            )}
          </tbody>
        </table>
        {rows.length === 0 && (
          <p className="table-foot" role="status">
            No function matches “{search}”.
          </p>
        )}
      </div>
      {onMore !== undefined && (
        <p className="table-foot">
          The first {formatCount(answer.functions.length)} of {formatCount(answer.count)} functions.{" "}
          <button type="button" className="link" onClick={onMore}>
            Load all
          </button>
        </p>
      )}
    </>
  );
}
