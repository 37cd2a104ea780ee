/* What "now" of a relative range means: one moment for the whole page, until it is refreshed. */

import { useIsFetching } from "@tanstack/react-query";
import { type ReactNode, createContext, useCallback, useContext, useEffect, useMemo, useRef, useState } from "react";

import type { Span } from "../api/queries";
import { resolve } from "./range";
import { useRoute } from "./route";
import { useSettings } from "./settings";

interface Now {
  nowMs: number;
  refresh: () => void;
  everyS: number; // 0: only by hand
  setEvery: (seconds: number) => void;
}

const Context = createContext<Now | null>(null);

/* Whole seconds, so that answers of one second are asked for once. */
function current(): number {
  return Math.floor(Date.now() / 1000) * 1000;
}

export function NowProvider({ children }: { children: ReactNode }) {
  const [nowMs, setNow] = useState(current);
  const [everyS, setEvery] = useState(0);
  const refresh = useCallback(() => setNow(current()), []);
  const { from, until } = useRoute().params;
  const busy = useIsFetching() > 0;

  /* Another range is asked for as of now; the first one already is. */
  const asked = useRef(`${from} ${until}`);
  useEffect(() => {
    if (asked.current === `${from} ${until}`) return;
    asked.current = `${from} ${until}`;
    setNow(current());
  }, [from, until]);
  useEffect(() => {
    if (everyS === 0 || busy) return;
    const timer = setInterval(() => {
      if (!document.hidden) setNow(current());
    }, everyS * 1000);
    return () => clearInterval(timer);
  }, [everyS, busy]);

  const value = useMemo(() => ({ nowMs, refresh, everyS, setEvery }), [nowMs, refresh, everyS]);
  return <Context.Provider value={value}>{children}</Context.Provider>;
}

export function useNow(): Now {
  return useContext(Context)!;
}

/* The range of the page in milliseconds. */
export function useSpan(): Span {
  const { from, until } = useRoute().params;
  const { nowMs } = useNow();
  const { utc } = useSettings();
  return useMemo(() => {
    const [start, end] = resolve({ from, until }, nowMs, utc);
    return { from: start, until: end };
  }, [from, until, nowMs, utc]);
}
