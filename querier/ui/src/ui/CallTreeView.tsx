/* The flame graph as a list that opens: for those who read it, with a screen reader or without. */

import { useMemo, useReducer, useRef, useState } from "react";

import { CallTree } from "../flame/calltree";
import { colourOf, makeTheme } from "../flame/colors";
import type { Flame } from "../flame/model";
import { splitName } from "../flame/names";
import { patternOf } from "../flame/search";
import { type Unit, formatShare, formatValue } from "../flame/units";
import { useRoute } from "../state/route";
import { useDark } from "../state/settings";
import { RowsTable, useRowsInSight } from "./rows";

const INDENT_PX = 14;

interface Props {
  flame: Flame;
  unit: Unit;
  search: string;
  colourBy: "package" | "function";
  onMenu: (node: number, x: number, y: number) => void;
}

/* The tree as the address has it. While this view changes it the tree stays, since the address may not have room for all of it. */
function useCallTree(flame: Flame, pattern: RegExp | null) {
  const { params, set } = useRoute();
  const [version, redraw] = useReducer((count: number) => count + 1, 0);
  const made = useRef<{ tree: CallTree; pattern: RegExp | null; text: string } | null>(null);
  if (made.current?.tree.flame !== flame || made.current.pattern !== pattern || made.current.text !== params.tree)
    made.current = { tree: new CallTree(flame, pattern, params.tree), pattern, text: params.tree };
  const { tree } = made.current;
  const change = (run: () => void): void => {
    run();
    redraw();
    made.current = { tree, pattern, text: tree.text() };
    set({ tree: made.current.text }, { replace: true });
  };
  return { tree, version, change };
}

export function CallTreeView({ flame, unit, search, colourBy, onMenu }: Props) {
  const pattern = useMemo(() => (search === "" ? null : patternOf(search)), [search]);
  const { tree, version, change } = useCallTree(flame, pattern);
  const rows = useMemo(() => tree.rows(), [tree, version]);
  const [at, setAt] = useState(0); // node with the focus
  const dark = useDark();
  const theme = useMemo(() => makeTheme(dark), [dark]);

  const sight = useRowsInSight(rows.length, flame, "");
  const { first, focus } = sight;
  const focusOn = (node: number): void => {
    setAt(node);
    focus(rows.indexOf(node));
  };
  const onKey = (event: React.KeyboardEvent, node: number): void => {
    const index = rows.indexOf(node);
    const open = tree.isOpen(node);
    const step: Record<string, () => void> = {
      ArrowDown: () => {
        if (index + 1 < rows.length) focusOn(rows[index + 1]!);
      },
      ArrowUp: () => {
        if (index > 0) focusOn(rows[index - 1]!);
      },
      Home: () => focusOn(rows[0]!),
      End: () => focusOn(rows.at(-1)!),
      ArrowRight: () => {
        if (!open) change(() => tree.toggle(node));
        else if (index + 1 < rows.length) focusOn(rows[index + 1]!);
      },
      ArrowLeft: () => {
        if (open) change(() => tree.toggle(node));
        else if (flame.parent[node]! >= 0) focusOn(flame.parent[node]!);
      },
      Enter: () => change(() => tree.toggle(node)),
      "*": () => change(() => tree.openHot(node)),
      m: () => {
        const place = event.currentTarget.getBoundingClientRect();
        onMenu(node, place.left + 40, place.bottom);
      },
    };
    const run = step[event.key];
    if (run === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    run();
  };

  return (
    <RowsTable
      sight={sight}
      label="Call tree"
      role="treegrid"
      widths={[null, 142, 128]}
      head={
        <>
          <th scope="col">Function, with what it calls</th>
          <th scope="col" className="n">
            Total
          </th>
          <th scope="col" className="n">
            Self
          </th>
        </>
      }
      row={(index) => {
        const node = rows[index]!;
        const full = flame.names[flame.name[node]!]!;
        const name = splitName(full);
        const share = flame.total > 0 ? flame.w[node]! / flame.total : 0;
        const parent = tree.hasChildren(node);
        return (
          <tr
            key={node}
            data-row={index}
            tabIndex={node === at || (at === 0 && index === 0 && first === 0) ? 0 : -1}
            aria-rowindex={index + 2}
            aria-level={flame.level[node]! + 1}
            aria-expanded={parent ? tree.isOpen(node) : undefined}
            className={pattern !== null && !pattern.test(full) ? "dim" : undefined}
            onKeyDown={(event) => onKey(event, node)}
            onFocus={() => setAt(node)}
            onClick={() => change(() => tree.toggle(node))}
            onContextMenu={(event) => {
              event.preventDefault();
              onMenu(node, event.clientX, event.clientY);
            }}
          >
            <td className="name" title={full} style={{ paddingLeft: 10 + Math.min(flame.level[node]!, 40) * INDENT_PX }}>
              <div className="cell">
                <span aria-hidden="true" style={{ flex: "none", width: 14, color: "var(--fg-3)" }}>
                  {parent ? (tree.isOpen(node) ? "▾" : "▸") : ""}
                </span>
                <i className="key" style={{ background: node === 0 ? "transparent" : theme.fills[colourOf(full, colourBy)] }} />
                <span className="text">
                  <span className="dim">{name.dim}</span>
                  {name.main}
                </span>
              </div>
            </td>
            <td className="n">
              <span className="bar-of" style={{ width: `${share * 92}%` }} />
              <span className="text">
                {formatValue(flame.w[node]!, unit)}
                <span className="share">{formatShare(share)}</span>
              </span>
            </td>
            <td className="n">
              <span className="text">
                {formatValue(flame.self[node]!, unit)}
                <span className="share">{formatShare(flame.total > 0 ? flame.self[node]! / flame.total : 0)}</span>
              </span>
            </td>
          </tr>
        );
      }}
    />
  );
}
