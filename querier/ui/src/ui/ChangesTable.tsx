/* Which functions changed: the server's findings, made of all data. The equal of the flame graph for those who cannot see it. */

import { useMemo } from "react";

import type { Change } from "../api/comparison";
import { splitName } from "../flame/names";
import { formatChange, formatCount, formatPoints, formatShare } from "../flame/units";
import { type ChangeSort, STATES, type Shown, figure, intervalText, isSignificant, percent, rowsOf } from "../state/changes";
import { RowsTable, SortHead, useRowsInSight } from "./rows";

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
  const rows = useMemo(() => rowsOf({ changes, shown, by, search, sort, ascending }), [changes, shown, by, search, sort, ascending]);
  const sight = useRowsInSight(rows.length, rows);
  const format = (value: number): string => (by === "share" ? formatShare(value) : amount(value));
  const head = (key: ChangeSort, text: string, number = true) => (
    <SortHead on={sort === key} ascending={ascending} number={number} onSort={() => onSort(key)}>
      {text}
    </SortHead>
  );

  return (
    <RowsTable
      sight={sight}
      label="Changes"
      className={wide ? "changes wide" : "changes"}
      widths={wide ? [null, 64, 128, 100, 108, 112, 92, 150, 96] : by === "share" ? [null, 76, 92, 108] : [null, 100, 100, 108]}
      head={
        <>
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
        </>
      }
      none={search !== "" ? `No function of these states matches “${search}”.` : "No function has one of the states that are picked above."}
      onLeave={() => onHover(null)}
      row={(index) => {
        const row = rows[index]!;
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
                  onKeyDown={(event) => sight.onKey(event, index, (x, y) => onMenu(row.name, x, y))}
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
      }}
    />
  );
}
