/* What tests/ui/speed.mjs measures, inside a page: it is built into one script. */

import { parse } from "../load";
import { topOf } from "../top";
import { FlameView } from "../view";
import { largeLevels } from "./random";

export interface Figures {
  nodes: number;
  bytes: number;
  decodeMs: number;
  firstDrawMs: number;
  tableMs: number;
  searchMs: number;
  draws: number[];
  gaps: number[];
}

function frames(count: number, step: (i: number) => void): Promise<number[]> {
  return new Promise((done) => {
    const gaps: number[] = [];
    let last = 0;
    let i = 0;
    const frame = (now: number): void => {
      if (last > 0) gaps.push(now - last);
      last = now;
      if (i === count) {
        done(gaps);
        return;
      }
      step(i++);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
}

/* One flame graph, as a page shows it for the first time; then it is zoomed into and moved along, a step a frame. */
export async function measure(nodes: number, place: HTMLElement): Promise<Figures> {
  const bytes = new TextEncoder().encode(JSON.stringify({ flamebearer: largeLevels(nodes) })).buffer as ArrayBuffer;
  const view = new FlameView(place, { unit: "ns", dark: true });
  const clock = (run: () => void): number => {
    const start = performance.now();
    run();
    return performance.now() - start;
  };
  const start = performance.now();
  const { flame } = parse(bytes, "share");
  const decodeMs = performance.now() - start;
  const firstDrawMs = clock(() => {
    view.setFlame(flame);
    view.draw();
  });
  const tableMs = clock(() => topOf(flame));
  const searchMs = clock(() => {
    view.setSearch("method7");
    view.draw();
  });
  view.setSearch("");
  const draws: number[] = [];
  const steps = 150;
  const gaps = await frames(2 * steps, (i) => {
    const zoom = i < steps ? i : 2 * steps - i;
    const span = flame.total * 0.96 ** zoom;
    const at = flame.total * (0.2 + (0.6 * i) / (2 * steps));
    view.moveTo(at - span * 0.3, at + span * 0.7, false);
    draws.push(view.lastDrawMs);
  });
  view.destroy();
  return { nodes: flame.count, bytes: bytes.byteLength, decodeMs, firstDrawMs, tableMs, searchMs, draws, gaps };
}
