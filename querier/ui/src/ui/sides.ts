/* The two sides of the address, for the pages that have two. */

import { useCallback, useMemo } from "react";

import { useNow } from "../state/now";
import { useRoute } from "../state/route";
import { useSettings } from "../state/settings";
import { type Side, type SideName, type Sides, sidePatch, sidesOf } from "../state/sides";

export function useSides(): { sides: Sides; setSide: (name: SideName, side: Side, done: boolean) => void } {
  const { params, set } = useRoute();
  const { nowMs } = useNow();
  const { utc } = useSettings();
  const sides = useMemo(() => sidesOf(params, nowMs, utc), [params, nowMs, utc]);
  const setSide = useCallback(
    (name: SideName, side: Side, done: boolean): void => {
      const other: SideName = name === "left" ? "right" : "left";
      /* The other side stays where it is, also if the address did not say so before. */
      set({ ...sidePatch(other, sides[other]), ...sidePatch(name, side), focus: "" }, { replace: !done });
    },
    [set, sides],
  );
  return { sides, setSide };
}
