/* The flame graph of src/flame as a component: properties go in, what the user wants comes out. */

import { useEffect, useRef } from "react";

import { type FlameCallbacks, type FlameOptions, FlameView } from "../flame/view";
import type { Flame } from "../flame/model";
import { useDark, useSettings } from "../state/settings";

interface Props extends FlameCallbacks {
  flame: Flame | null;
  options: Partial<Omit<FlameOptions, "dark" | "rowHeight">>;
  search: string;
  highlight?: string | null; // a function that the pointer is at elsewhere
  focus?: number;
  onView?: (view: FlameView | null) => void;
  onFound?: (text: string) => void;
}

export function FlameGraph({ flame, options, search, highlight = null, focus = 0, onView, onFound, ...callbacks }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<FlameView | null>(null);
  const latest = useRef(callbacks);
  const dark = useDark();
  const { barPx: rowHeight } = useSettings();
  latest.current = callbacks;

  useEffect(() => {
    const made = new FlameView(
      box.current!,
      { dark, rowHeight, ...options },
      {
        onZoom: (node) => latest.current.onZoom?.(node),
        onLoad: (node) => latest.current.onLoad?.(node),
        onHover: (node) => latest.current.onHover?.(node),
        /* Without a menu of ours, a right click opens the browser's. */
        ...(callbacks.onMenu === undefined ? {} : { onMenu: (node: number, x: number, y: number) => latest.current.onMenu?.(node, x, y) }),
      },
    );
    view.current = made;
    onView?.(made);
    return () => {
      view.current = null;
      onView?.(null);
      made.destroy();
    };
    // One view for the life of the component; what changes is set below.
  }, []);

  const { unit, label, upward, colourBy, palette, absolute, cover, quiet, hideRoot, extent, tooltip, notes } = options;
  useEffect(() => {
    const given = Object.entries({
      unit,
      label,
      upward,
      colourBy,
      palette,
      absolute,
      cover,
      quiet,
      rowHeight,
      hideRoot,
      extent,
      tooltip,
      notes,
    }).filter(([, value]) => value !== undefined);
    view.current!.setOptions({ dark, ...Object.fromEntries(given) });
  }, [dark, unit, label, upward, colourBy, palette, absolute, cover, quiet, rowHeight, hideRoot, extent, tooltip, notes]);
  useEffect(() => view.current!.setFlame(flame), [flame]);
  useEffect(() => {
    view.current!.setSearch(search);
    onFound?.(search === "" ? "" : view.current!.foundText());
  }, [search, flame, onFound]);
  useEffect(() => view.current!.setHighlight(highlight), [highlight, flame]);
  useEffect(() => {
    if (view.current!.focus !== focus) view.current!.zoomTo(focus);
  }, [focus, flame]);

  return <div ref={box} className="view" />;
}
