/* Which functions changed: the server's findings, made of all data. The equal of the flame graph for those who cannot see it. */

import { type KeyboardEvent, useMemo, useRef } from "react";

import type { Change } from "../api/comparison";
import { splitName } from "../flame/names";
import { formatChange, formatCount, formatPoints, formatShare } from "../flame/units";
import { type ChangeSort, STATES, type Shown, figure, intervalText, isSignificant, percent, rowsOf } from "../state/changes";
import { ROW_PX, useRowsInSight } from "./rows";

interface Props {
  changes: readonly Change[];
  shown: ReadonlySet<Shown>;
  by: "share" | "rate";
  amount: (value: number) => string; // as text, of figures that are no shares
  search: string;
  sort: ChangeSort;
  ascending: boolean;
  wide: boolean; // room for all columns
  hovered: string | null;
  onSort: (sort: ChangeSort) => void;
  onHover: (name: string | null) => void;
  onPick: (name: string) => void;
  onMenu: (name: string, x: number, y: number) => void;
}

const MARKS = new Map(STATES.map((state) => [state.key, state]));

function amountText(change: Change, by: "share" | "rate"): string {
  if (by === "share") return formatPoints(change.b.share - change.a.share);
  if (change.change === null) return change.b.value > change.a.value ? "▲ new" : "▼ gone";
  return formatChange(change.change);
}

function tone(change: Change, by: "share" | "rate"): string {
  if (!isSignificant(change)) return "noise";
  return figure(change, "b", by) > figure(change, "a", by) ? "inc" : "dec";
}

export function ChangesTable(props: Props) {
  const { changes, shown, by, amount, search, sort, ascending, wide, hovered, onSort, onHover, onPick, onMenu } = props;
  const box = useRef<HTMLDivElement>(null);
  const rows = useMemo(() => rowsOf({ changes, shown, by, search, sort, ascending }), [changes, shown, by, search, sort, ascending]);
  const sight = useRowsInSight(box, rows.length, rows);
  const format = (value: number): string => (by === "share" ? formatShare(value) : amount(value));
  const columns = wide ? 9 : 4;
  const head = (key: ChangeSort, text: string, number = true) => (
    <th scope="col" className={number ? "n" : undefined} aria-sort={sort === key ? (ascending ? "ascending" : "descending") : "none"}>
      <button type="button" onClick={() => onSort(key)}>
        {text}
        {sort === key ? (ascending ? " ↑" : " ↓") : ""}
      </button>
    </th>
  );
  const keys = (event: KeyboardEvent, row: number, name: string): void => {
    if (sight.onKey(event, row) || (event.key !== "m" && event.key !== "ContextMenu")) return;
    event.preventDefault();
    event.stopPropagation();
    const at = event.currentTarget.getBoundingClientRect();
    onMenu(name, at.left + 20, at.bottom);
  };

  return (
    <div className="rows" ref={box} onScroll={sight.onScroll} onMouseLeave={() => onHover(null)}>
      <table className={`functions changes fixed${wide ? " wide" : ""}`} aria-label="Changes" aria-rowcount={rows.length + 1}>
        {wide ? (
          <colgroup>
            <col />
            <col style={{ width: 64 }} />
            <col style={{ width: 128 }} />
            <col style={{ width: 100 }} />
            <col style={{ width: 108 }} />
            <col style={{ width: 112 }} />
            <col style={{ width: 92 }} />
            <col style={{ width: 150 }} />
            <col style={{ width: 96 }} />
          </colgroup>
        ) : (
          <colgroup>
            <col />
            <col style={{ width: by === "share" ? 76 : 100 }} />
            <col style={{ width: by === "share" ? 92 : 100 }} />
            <col style={{ width: 108 }} />
          </colgroup>
        )}
        <thead>
          <tr aria-rowindex={1}>
            {head("name", `Function (${formatCount(rows.length)})`, false)}
            {wide && <th scope="col">Figure</th>}
            {wide && <th scope="col">State</th>}
            {head("left", "Baseline")}
            {head("right", "Comparison")}
            {head("change", "Change")}
            {wide && head("relative", "Relative")}
            {wide && (
              <th scope="col" className="n">
                95 % interval
              </th>
            )}
            {wide && (
              <th scope="col" className="n" title="The least change that would have been seen">
                Seen from
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {sight.first > 0 && (
            <tr className="spacer" aria-hidden="true">
              <td colSpan={columns} style={{ height: sight.first * ROW_PX }} />
            </tr>
          )}
          {rows.slice(sight.first, sight.last).map((row, offset) => {
            const index = sight.first + offset;
            const name = splitName(row.name);
            const state = MARKS.get(row.state)!;
            const moved = row.moved === undefined ? "" : `: from ${row.moved.from.join(", ")} to ${row.moved.to.join(", ")}`;
            const folded = row.folded_into === undefined ? "" : `, explained by ${row.folded_into} changes below it`;
            const said = `${state.text}${moved}${folded}`;
            return (
              <tr
                key={`${row.of} ${row.name}`}
                data-row={index}
                aria-rowindex={index + 2}
                className={row.name === hovered ? "hover" : undefined}
                title={`${row.name} (${row.of})\n${said}${row.interval === undefined ? "" : `\n95 %: ${intervalText(row)}`}`}
                onMouseEnter={() => onHover(row.name)}
                onContextMenu={(event) => {
                  event.preventDefault();
                  onMenu(row.name, event.clientX, event.clientY);
                }}
                onClick={() => onPick(row.name)}
              >
                <td className="name">
                  <div className="cell">
                    <span className={`mark ${tone(row, by)}`} aria-hidden="true">
                      {state.mark}
                    </span>
                    <button
                      type="button"
                      tabIndex={index === sight.stop ? 0 : -1}
                      onKeyDown={(event) => keys(event, index, row.name)}
                      onFocus={() => onHover(row.name)}
                      aria-label={`${row.name}, ${row.of}, ${said}`}
                    >
                      <span className="dim">{name.dim}</span>
                      {name.main}
                    </button>
                    {!wide && row.of === "self" && (
                      <span className="of-self" title="The function alone, without what it calls">
                        self
                      </span>
                    )}
                  </div>
                </td>
                {wide && <td>{row.of}</td>}
                {wide && (
                  <td className={isSignificant(row) ? undefined : "weak"}>
                    {state.text}
                    {folded !== "" && " (folded)"}
                  </td>
                )}
                <td className="n">{format(figure(row, "a", by))}</td>
                <td className="n">{format(figure(row, "b", by))}</td>
                <td className={`n ${tone(row, by)}`}>{amountText(row, by)}</td>
                {wide && <td className={`n ${tone(row, by)}`}>{row.change === null ? "–" : percent(row.change)}</td>}
                {wide && <td className="n weak">{row.change === null ? "–" : intervalText(row)}</td>}
                {wide && (
                  <td className="n weak">{row.detectable === undefined || row.change === null ? "–" : percent(row.detectable, false)}</td>
                )}
              </tr>
            );
          })}
          {sight.last < rows.length && (
            <tr className="spacer" aria-hidden="true">
              <td colSpan={columns} style={{ height: (rows.length - sight.last) * ROW_PX }} />
            </tr>
          )}
        </tbody>
      </table>
      {rows.length === 0 && (
        <p className="table-foot" role="status">
          {search !== "" ? `No function of these states matches “${search}”.` : "No function has one of the states that are picked above."}
        </p>
      )}
    </div>
  );
}
