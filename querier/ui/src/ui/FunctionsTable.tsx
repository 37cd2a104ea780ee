/*
 * Functions with their exact numbers: the server's, made of all data. It is the flame graph's equal for those who cannot see
 * it. Rows are of one height, so only those in sight are in the document.
 */

import { useMemo } from "react";

import type { Functions, FunctionRow } from "../api/types";
import { colourOf, makeTheme } from "../flame/colors";
import { splitName } from "../flame/names";
import { patternOf } from "../flame/search";
import { formatCount, formatShare, formatValue, unitOf } from "../flame/units";
import { useDark } from "../state/settings";
import { Icon } from "./Icon";
import { RowsTable, SortHead, useRowsInSight } from "./rows";

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

/* For those who have no right button, or do not know of it. Keys have the menu at the name, so it is no stop of its own. */
function RowMenu({ name, onMenu }: { name: string; onMenu: Props["onMenu"] }) {
  return (
    <button
      type="button"
      className="row-menu"
      tabIndex={-1}
      aria-label={`Actions for ${name}`}
      onClick={(event) => {
        const at = event.currentTarget.getBoundingClientRect();
        event.stopPropagation();
        onMenu(name, at.left, at.bottom);
      }}
    >
      <Icon name="more" size={14} />
    </button>
  );
}

export function FunctionsTable({ answer, search, sort, ascending, onSort, hovered, onHover, onPick, onMenu, colourBy, onMore }: Props) {
  const dark = useDark();
  const theme = useMemo(() => makeTheme(dark), [dark]);
  const unit = unitOf(answer.unit);

  const rows = useMemo(() => {
    const found = search === "" ? answer.functions : answer.functions.filter((row) => patternOf(search).test(row.name));
    return ordered(found, sort, ascending);
  }, [answer, search, sort, ascending]);
  const most = useMemo(() => answer.functions.reduce((max, row) => Math.max(max, row.self), 0), [answer]);

  const order = useMemo(() => ({ search, sort, ascending }), [search, sort, ascending]);
  const sight = useRowsInSight(rows.length, order);
  const head = (by: Sort, text: string, number = true) => (
    <SortHead on={sort === by} ascending={ascending} number={number} onSort={() => onSort(by)}>
      {text}
    </SortHead>
  );

  return (
    <>
      <RowsTable
        sight={sight}
        label="Functions"
        widths={[null, 142, 128]}
        head={
          <>
            {head("name", `Function (${formatCount(rows.length)})`, false)}
            {head("self", "Self")}
            {head("total", "Total")}
          </>
        }
        none={`No function matches “${search}”.`}
        onLeave={() => onHover(null)}
        row={(index) => {
          const row = rows[index]!;
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
                    tabIndex={index === sight.stop ? 0 : -1}
                    onKeyDown={(event) => sight.onKey(event, index, (x, y) => onMenu(row.name, x, y))}
                    onFocus={() => onHover(row.name)}
                    aria-label={row.name}
                  >
                    <span className="dim">{name.dim}</span>
                    {name.main}
                  </button>
                  <RowMenu name={row.name} onMenu={onMenu} />
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
        }}
      />
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
