/* Long tables: of their rows, which are of one height, only those in sight and some around them are in the document. */

import { type KeyboardEvent, type ReactNode, type RefObject, useEffect, useRef, useState } from "react";

const ROW_PX = 26;
const AROUND = 12;

export interface RowsInSight {
  box: RefObject<HTMLDivElement | null>; // what scrolls
  count: number;
  first: number;
  last: number;
  stop: number; // the one row that is a tab stop
  onScroll: () => void;
  /* Moves the focus to a row, also to one that is not in the document yet. */
  focus: (row: number) => void;
  /* Moves the focus between rows by keys, and opens the menu of a row. */
  onKey: (event: KeyboardEvent, row: number, onMenu: (x: number, y: number) => void) => void;
}

/* order: what the rows are sorted and filtered by; if it changes, the table begins at its top. target: what has the focus in a
 * row, as a selector; "" is the row itself. */
export function useRowsInSight(count: number, order: unknown, target = "button"): RowsInSight {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);

  useEffect(() => {
    const watch = new ResizeObserver(() => setHeight(box.current?.clientHeight ?? 600));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, [box]);
  useEffect(() => {
    box.current!.scrollTop = 0;
  }, [box, order]);

  const first = Math.min(Math.max(0, Math.floor(top / ROW_PX) - AROUND), Math.max(0, count - 1));
  const last = Math.min(count, Math.ceil((top + height) / ROW_PX) + AROUND);
  const focus = (row: number): void => {
    const scroller = box.current!;
    const find = (): HTMLElement | null => scroller.querySelector<HTMLElement>(`[data-row="${row}"] ${target}`.trim());
    const y = row * ROW_PX;
    if (y < scroller.scrollTop) scroller.scrollTop = y;
    if (y + 3 * ROW_PX > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = y + 3 * ROW_PX - scroller.clientHeight;
    const there = find();
    /* At once if it is there, so that the next key is the new row's; else after the scroll event has made React draw it. */
    if (there !== null) there.focus({ preventScroll: true });
    else requestAnimationFrame(() => requestAnimationFrame(() => find()?.focus({ preventScroll: true })));
  };
  const onKey: RowsInSight["onKey"] = (event, row, onMenu) => {
    const page = Math.max(1, Math.floor(height / ROW_PX) - 2);
    const by: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
    if (event.key in by) {
      event.preventDefault();
      focus(Math.min(Math.max(row + by[event.key]!, 0), count - 1));
    } else if (event.key === "m" || event.key === "ContextMenu") {
      event.preventDefault();
      event.stopPropagation();
      const at = event.currentTarget.getBoundingClientRect();
      onMenu(at.left + 20, at.bottom);
    }
  };
  return {
    box,
    count,
    first,
    last,
    stop: Math.max(first, Math.ceil(top / ROW_PX)),
    onScroll: () => setTop(box.current!.scrollTop),
    focus,
    onKey,
  };
}

interface Props {
  sight: RowsInSight;
  label: string;
  className?: string;
  role?: "treegrid";
  widths: readonly (number | null)[]; // of the columns in pixels; null: what is left
  head: ReactNode; // its cells
  row: (index: number) => ReactNode; // with key, data-row and aria-rowindex
  none?: string | undefined; // said if there are no rows
  onLeave?: () => void; // the pointer does
  children?: ReactNode; // below the table
}

export function RowsTable({ sight, label, className = "", role, widths, head, row, none, onLeave, children }: Props) {
  const { box, count, first, last } = sight;
  const spacer = (rows: number) =>
    rows > 0 && (
      <tr className="spacer" aria-hidden="true">
        <td colSpan={widths.length} style={{ height: rows * ROW_PX }} />
      </tr>
    );
  return (
    <div className="rows" ref={box} onScroll={sight.onScroll} onMouseLeave={onLeave}>
      <table
        className={`functions fixed ${className}`.trimEnd()}
        role={role}
        aria-label={label}
        aria-rowcount={count + 1}
        style={{ minWidth: `calc(${widths.reduce<number>((sum, width) => sum + (width ?? 0), 0)}px + var(--name, 0px))` }}
      >
        <colgroup>
          {widths.map((width, index) => (
            <col key={index} style={width === null ? undefined : { width }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>{head}</tr>
        </thead>
        <tbody>
          {spacer(first)}
          {Array.from({ length: Math.max(0, last - first) }, (_, offset) => row(first + offset))}
          {spacer(count - last)}
        </tbody>
      </table>
      {count === 0 && none !== undefined && (
        <p className="table-foot" role="status">
          {none}
        </p>
      )}
      {children}
    </div>
  );
}

/* The head of a column that rows can be sorted by. */
export function SortHead({
  on,
  ascending,
  number = true,
  onSort,
  children,
}: {
  on: boolean;
  ascending: boolean;
  number?: boolean;
  onSort: () => void;
  children: string;
}) {
  return (
    <th scope="col" className={number ? "n" : undefined} aria-sort={on ? (ascending ? "ascending" : "descending") : "none"}>
      <button type="button" onClick={onSort}>
        {children}
        {on ? (ascending ? " ↑" : " ↓") : ""}
      </button>
    </th>
  );
}
