/* The way from the root to the bar that is zoomed; each step leads back to it. */

import type { ReactNode } from "react";

import type { Flame } from "../flame/model";

const SHOWN = 5;

export function FramePath({
  flame,
  focus,
  label = "Zoom",
  start,
  onZoom,
  children,
}: {
  flame: Flame | null;
  label?: string;
  focus: number;
  start?: ReactNode; // items of the list in place of "All"
  onZoom: (node: number) => void;
  children?: ReactNode;
}) {
  const steps: { node: number; name: string }[] = [];
  if (flame !== null)
    for (let node = focus; node > 0; node = flame.parent[node]!) steps.unshift({ node, name: flame.names[flame.name[node]!]! });
  const shown = steps.slice(-SHOWN);
  return (
    <nav className="path" aria-label={label}>
      <ol>
        {start ?? (
          <li>
            <button type="button" onClick={() => onZoom(0)}>
              All
            </button>
          </li>
        )}
        {steps.length > shown.length && <li>…</li>}
        {shown.map((step) => (
          <li key={step.node}>
            <button type="button" title={step.name} onClick={() => onZoom(step.node)}>
              {step.name}
            </button>
          </li>
        ))}
      </ol>
      <span className="push">{children}</span>
    </nav>
  );
}
