/* The two sides of the address, for the pages that have two. */

import { useCallback, useMemo } from "react";

import { useNow } from "../state/now";
import { useRoute } from "../state/route";
import { useSettings } from "../state/settings";
import { type Side, type SideName, type Sides, changed, sidesOf } from "../state/sides";

export interface UsedSides {
  sides: Sides;
  together: boolean; // both are of the same time
  /* What somebody does to a side by hand: the other one comes along if they go together. */
  moveSide: (name: SideName, side: Side, done: boolean) => void;
  /* Another time for the baseline alone. */
  setBaseline: (span: Side["span"]) => void;
  setTogether: (together: boolean) => void;
}

export function useSides(): UsedSides {
  const { params, set } = useRoute();
  const { nowMs } = useNow();
  const { utc } = useSettings();
  const sides = useMemo(() => sidesOf(params, nowMs, utc), [params, nowMs, utc]);
  const together = params.sync === "1";
  const moveSide = useCallback(
    (name: SideName, side: Side, done: boolean): void => set({ ...changed(sides, name, side, together), focus: "" }, { replace: !done }),
    [set, sides, together],
  );
  const setBaseline = (span: Side["span"]): void => set({ ...changed(sides, "left", { ...sides.left, span }, false), sync: "", focus: "" });
  const setTogether = (on: boolean): void =>
    set({ ...changed(sides, "right", sides.right, on), sync: on ? "1" : "", ...(on ? { focus: "" } : {}) });
  return { sides, together, moveSide, setBaseline, setTogether };
}
