/* Which rows of a long table are in the document: those in sight, and some around them. Rows are of one height. */

import { type KeyboardEvent, type RefObject, useEffect, useState } from "react";

export const ROW_PX = 26;
const AROUND = 12;

export interface RowsInSight {
  first: number;
  last: number;
  stop: number; // the one row that is a tab stop
  onScroll: () => void;
  /* Moves the focus to a row, also to one that is not in the document yet. */
  focus: (row: number) => void;
  /* Moves the focus between rows by keys. Returns whether the key was one. */
  onKey: (event: KeyboardEvent, row: number) => boolean;
}

/* order: what the rows are sorted and filtered by; if it changes, the table begins at its top. target: what has the focus in a
 * row, as a selector; "" is the row itself. */
export function useRowsInSight(box: RefObject<HTMLDivElement | null>, count: number, order: unknown, target = "button"): RowsInSight {
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
  const onKey = (event: KeyboardEvent, row: number): boolean => {
    const page = Math.max(1, Math.floor(height / ROW_PX) - 2);
    const by: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
    if (!(event.key in by)) return false;
    event.preventDefault();
    focus(Math.min(Math.max(row + by[event.key]!, 0), count - 1));
    return true;
  };
  return { first, last, stop: Math.max(first, Math.ceil(top / ROW_PX)), onScroll: () => setTop(box.current!.scrollTop), focus, onKey };
}
