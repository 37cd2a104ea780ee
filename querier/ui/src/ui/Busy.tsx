/* What is shown while the first answer is on its way; later answers leave the old picture, paler. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { useRoute } from "../state/route";
import { useNow } from "../state/now";
import { formatDuration } from "../flame/units";
import { resolve } from "../state/range";

const SLOW_MS = 2000;
const VERY_SLOW_MS = 15_000;

/* How long something has been going on: 0 until it is slow. */
export function useSlow(busy: boolean): 0 | 1 | 2 {
  const [slow, setSlow] = useState<0 | 1 | 2>(0);
  useEffect(() => {
    setSlow(0);
    if (!busy) return;
    const timers = [setTimeout(() => setSlow(1), SLOW_MS), setTimeout(() => setSlow(2), VERY_SLOW_MS)];
    return () => timers.forEach(clearTimeout);
  }, [busy]);
  return slow;
}

export function SlowNote({ busy }: { busy: boolean }) {
  const slow = useSlow(busy);
  const client = useQueryClient();
  const { params, set } = useRoute();
  const { nowMs } = useNow();
  if (slow === 0) return null;
  const [from, until] = resolve(params, nowMs);
  const half = Math.round((until - from) / 2);
  return (
    <div className="strip" role="status">
      <span>Still reading …</span>
      <button type="button" className="btn small" onClick={() => void client.cancelQueries()}>
        Cancel
      </button>
      {slow === 2 && (
        <button type="button" className="btn small" onClick={() => set({ from: String(until - half), until: params.until, sel: "" })}>
          Only the last {formatDuration(half)}
        </button>
      )}
    </div>
  );
}

export function Skeleton({ rows = 14 }: { rows?: number }) {
  return (
    <div className="skeleton" aria-hidden="true">
      {Array.from({ length: rows }, (_, index) => (
        <i key={index} />
      ))}
    </div>
  );
}
