/* Which rows of a long table are in the document: those in sight, and some around them. Rows are of one height. */

import { type KeyboardEvent, type RefObject, useEffect, useState } from "react";

import { ROW_PX } from "./FunctionsTable";

const AROUND = 12;

export interface RowsInSight {
  first: number;
  last: number;
  stop: number; // the one row that is a tab stop
  onScroll: () => void;
  /* Moves the focus between rows by keys, also to one that is not in the document yet. Returns whether the key was one. */
  onKey: (event: KeyboardEvent, row: number) => boolean;
}

export function useRowsInSight(box: RefObject<HTMLDivElement | null>, count: number, order: unknown): RowsInSight {
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);

  useEffect(() => {
    const watch = new ResizeObserver(() => setHeight(box.current?.clientHeight ?? 600));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, [box]);
  useEffect(() => { box.current!.scrollTop = 0; }, [box, order]);

  const first = Math.min(Math.max(0, Math.floor(top / ROW_PX) - AROUND), Math.max(0, count - 1));
  const last = Math.min(count, Math.ceil((top + height) / ROW_PX) + AROUND);
  const move = (to: number): void => {
    const scroller = box.current!;
    const y = to * ROW_PX;
    if (y < scroller.scrollTop) scroller.scrollTop = y;
    if (y + 3 * ROW_PX > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = y + 3 * ROW_PX - scroller.clientHeight;
    /* The scroll event makes React draw the row; after that it can have the focus. */
    requestAnimationFrame(() => requestAnimationFrame(() => scroller.querySelector<HTMLElement>(`[data-row="${to}"] button`)?.focus()));
  };
  const onKey = (event: KeyboardEvent, row: number): boolean => {
    const page = Math.max(1, Math.floor(height / ROW_PX) - 2);
    const by: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
    if (!(event.key in by)) return false;
    event.preventDefault();
    move(Math.min(Math.max(row + by[event.key]!, 0), count - 1));
    return true;
  };
  return { first, last, stop: Math.max(first, Math.ceil(top / ROW_PX)), onScroll: () => setTop(box.current!.scrollTop), onKey };
}
