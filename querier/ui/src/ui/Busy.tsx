/* What is shown while answers are on their way: how far the server is, and a way to stop it. */

import { type Query, type UseQueryResult, useIsFetching, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { formatDuration } from "../flame/units";
import { useNow } from "../state/now";
import { progressText, useProgress } from "../state/progress";
import { resolve } from "../state/range";
import { useRoute } from "../state/route";

const SLOW_MS = 2000;
const VERY_SLOW_MS = 15_000;

/* How long something has been going on: 0 until it is slow. */
function useSlow(busy: boolean): 0 | 1 | 2 {
  const [slow, setSlow] = useState<0 | 1 | 2>(0);
  useEffect(() => {
    setSlow(0);
    if (!busy) return;
    const timers = [setTimeout(() => setSlow(1), SLOW_MS), setTimeout(() => setSlow(2), VERY_SLOW_MS)];
    return () => timers.forEach(clearTimeout);
  }, [busy]);
  return slow;
}

/* The thin line below the query bar: how far all queries are, once the server says it. */
export function BusyLine() {
  const busy = useIsFetching({ predicate: (one) => one.meta?.quiet !== true }) > 0;
  const progress = useProgress();
  if (!busy) return null;
  if (progress === null || progress.total === 0) return <div className="busy" role="progressbar" aria-label="Loading" />;
  return (
    <div
      className="busy known"
      role="progressbar"
      aria-label="Loading"
      aria-valuemin={0}
      aria-valuemax={progress.total}
      aria-valuenow={progress.done}
      aria-valuetext={progressText(progress)}
    >
      <i style={{ width: `${(progress.done / progress.total) * 100}%` }} />
    </div>
  );
}

/* Asked for, not answered, and nobody works on it any more. */
function isStopped(query: Query): boolean {
  return query.state.status === "pending" && query.state.fetchStatus === "idle";
}

/* About the queries that a page waits for. */
export function SlowNote({ results }: { results: readonly UseQueryResult<unknown>[] }) {
  const slow = useSlow(results.some((one) => one.isFetching));
  const progress = useProgress();
  const client = useQueryClient();
  const { params, set } = useRoute();
  const { nowMs } = useNow();

  if (results.some((one) => one.isEnabled && one.fetchStatus === "idle" && (one.isPending || one.isPlaceholderData)))
    return (
      <div className="strip" role="status">
        <span>Cancelled. The server has stopped; what is shown is older, if there is anything.</span>
        <button type="button" className="btn small" onClick={() => void client.refetchQueries({ type: "active", predicate: isStopped })}>
          Ask again
        </button>
      </div>
    );
  if (slow === 0) return null;
  const [from, until] = resolve(params, nowMs);
  const half = Math.round((until - from) / 2);
  return (
    <div className="strip" role="status">
      <span>{progress === null ? "Still reading …" : progressText(progress)}</span>
      {progress !== null && progress.total > 0 && <progress aria-hidden="true" max={progress.total} value={progress.done} />}
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
