/* Keys that work everywhere except while typing; "?" lists them. */

import { useEffect, useRef } from "react";

import { change, settings, useSettings } from "../state/settings";
import { Dialog } from "./Dialog";

export type Keys = Record<string, () => void>;

export const HELP: readonly [string, string][] = [
  ["/", "search functions"],
  ["Esc", "clear the search, then the zoom"],
  ["1 2 3 4 5", "table, both, flame graph, call tree, sandwich"],
  ["i", "flip: flames upwards or downwards"],
  ["s", "sandwich of the bar or row with the focus"],
  ["c", "collapse the siblings of the bar with the focus, or show them"],
  ["o", "source and lines of the bar or row with the focus"],
  ["m", "menu of the bar with the focus"],
  ["arrows, Enter, Home", "walk through the flame graph, zoom, all"],
  ["n N", "next and previous match"],
  ["t", "time range"],
  ["[ ]", "earlier, later"],
  ["- =", "wider, narrower"],
  ["r", "refresh"],
  ["y", "copy a link to what is shown"],
  ["x", "swap the sides of a comparison"],
  ["d", "dark or light"],
  ["g e, g l, g s", "go to Explore, Labels, Spans"],
  ["g c, g d", "go to Compare, Diff"],
  ["g a, g t, g u", "go to Ad hoc, Targets, Status"],
  ["g b, g m", "go to Usage, administration"],
  ["?", "this list"],
];

const GO_MS = 1500; // between g and the letter of a page

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/* Keys are of the innermost component that names them; `g` and a letter is one key, "g e". */
const stack: { keys: Keys }[] = [];
let goUntil = 0;

function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || !settings().shortcuts) return;
  if (document.querySelector("dialog[open], [data-radix-popper-content-wrapper]") !== null) return;
  const key = Date.now() < goUntil ? `g ${event.key}` : event.key;
  goUntil = key === "g" ? Date.now() + GO_MS : 0;
  for (let at = stack.length - 1; at >= 0; at--) {
    const run = stack[at]!.keys[key];
    if (run === undefined) continue;
    event.preventDefault();
    run();
    return;
  }
}

/* Adds keys as long as the component is there. */
export function useKeys(keys: Keys): void {
  const entry = useRef({ keys });
  entry.current.keys = keys;
  useEffect(() => {
    const mine = entry.current;
    if (stack.length === 0) document.addEventListener("keydown", onKey);
    stack.push(mine);
    return () => {
      stack.splice(stack.indexOf(mine), 1);
      if (stack.length === 0) document.removeEventListener("keydown", onKey);
    };
  }, []);
}

const BARS = [
  [18, "Compact"],
  [20, "Normal"],
  [24, "Large"],
] as const;
const THEMES = [
  ["system", "As the system"],
  ["dark", "Dark"],
  ["light", "Light"],
] as const;

/* What this browser keeps, and the keys. */
export function HelpDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  const { shortcuts, theme, utc, sourceLinks, barPx } = useSettings();
  return (
    <Dialog title="Keyboard and settings" open={open} onClose={onClose}>
      <div className="keys">
        {HELP.map(([key, what]) => (
          <div key={key}>
            <span>{what}</span>
            <kbd>{key}</kbd>
          </div>
        ))}
      </div>
      <div className="fields settings">
        <label className="line">
          <input type="checkbox" checked={shortcuts} onChange={(event) => change({ shortcuts: event.target.checked })} /> Shortcuts of one
          key are on
        </label>
        <label className="line">
          <input type="checkbox" checked={utc} onChange={(event) => change({ utc: event.target.checked })} /> Times in UTC instead of{" "}
          {Intl.DateTimeFormat().resolvedOptions().timeZone}
        </label>
        <div className="line">
          <span>Theme</span>
          <span className="seg" role="group" aria-label="Theme">
            {THEMES.map(([one, text]) => (
              <button key={one} type="button" aria-pressed={theme === one} onClick={() => change({ theme: one })}>
                {text}
              </button>
            ))}
          </span>
        </div>
        <div className="line">
          <span>Flame graphs</span>
          <span className="seg" role="group" aria-label="Flame graphs">
            {BARS.map(([one, text]) => (
              <button key={one} type="button" aria-pressed={barPx === one} onClick={() => change({ barPx: one })}>
                {text}
              </button>
            ))}
          </span>
        </div>
        <label>
          Address of a function’s source, instead of that by the label service_repository: {"{name}"} is the function, {"{path}"} and{" "}
          {"{line}"} are where it is, {"{repo}"} and {"{ref}"} are the labels
          <input
            className="input"
            type="url"
            value={sourceLinks}
            spellCheck={false}
            placeholder="https://sourcegraph.example/search?q={name}"
            onChange={(event) => change({ sourceLinks: event.target.value })}
          />
        </label>
      </div>
    </Dialog>
  );
}
