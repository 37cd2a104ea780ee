/* Two sides with a border that can be dragged; its place is kept by the browser. */

import { type ReactNode, useRef, useState } from "react";

import { change, useSettings } from "../state/settings";

const LEAST = 0.2;
const MOST = 0.8;
const STANDARD = 0.36;
const STEP = 0.02;

export function Split({ left, right }: { left: ReactNode; right: ReactNode }) {
  const { split } = useSettings();
  const box = useRef<HTMLDivElement>(null);
  const [dragged, setDragged] = useState<number | null>(null);
  const part = Math.min(Math.max(dragged ?? split, LEAST), MOST);
  const place = (x: number): number => {
    const { left: start, width } = box.current!.getBoundingClientRect();
    return Math.min(Math.max((x - start) / width, LEAST), MOST);
  };

  return (
    <div className="split" ref={box}>
      <div className="side" style={{ width: `max(380px, ${part * 100}%)` }}>
        {left}
      </div>
      <div
        className="splitter"
        role="separator"
        aria-label="Width of the table"
        aria-orientation="vertical"
        tabIndex={0}
        aria-valuenow={Math.round(part * 100)}
        aria-valuemin={LEAST * 100}
        aria-valuemax={MOST * 100}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setDragged(place(event.clientX));
        }}
        onPointerMove={(event) => {
          if (dragged !== null) setDragged(place(event.clientX));
        }}
        onPointerUp={() => {
          if (dragged !== null) change({ split: dragged });
          setDragged(null);
        }}
        onDoubleClick={() => change({ split: STANDARD })}
        onKeyDown={(event) => {
          const by = event.key === "ArrowLeft" ? -STEP : event.key === "ArrowRight" ? STEP : 0;
          if (by === 0) return;
          event.preventDefault();
          change({ split: Math.min(Math.max(part + by, LEAST), MOST) });
        }}
      />
      <div className="side grow">{right}</div>
    </div>
  );
}
