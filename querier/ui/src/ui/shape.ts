/* How the address says that a flame graph is put together: the same in its page and where it is embedded. */

import { useMemo } from "react";

import { nodeOf } from "../flame/focus";
import type { Flame } from "../flame/model";
import { collapseSiblings, reshape } from "../flame/tree";
import { useRoute } from "../state/route";
import { BAR_SEPARATOR, SEPARATOR } from "../state/url";

export interface Shaped {
  flame: Flame | null;
  focus: number; // the bar that is zoomed
  hide: string[]; // packages
  alone: { bar: string; node: number }[]; // bars whose siblings are one bar; node 0: this profile has no such bar
  changed: boolean; // in any way
}

export function useShape(flame: Flame | null): Shaped {
  const { params } = useRoute();
  const hide = useMemo(() => (params.hide === "" ? [] : params.hide.split(SEPARATOR)), [params.hide]);
  const bars = useMemo(() => (params.alone === "" ? [] : params.alone.split(BAR_SEPARATOR)), [params.alone]);
  const whole = useMemo(
    () =>
      flame === null
        ? null
        : reshape(flame, {
            group: params.group === "package" ? "package" : "none",
            collapse: params.group === "recursion",
            hide,
            only: params.only || undefined,
            having: params.having || undefined,
            min: Number(params.min) || 0,
          }),
    [flame, params.group, params.min, params.only, params.having, hide],
  );
  const shaped = useMemo(
    () =>
      whole === null
        ? null
        : collapseSiblings(
            whole,
            bars.map((bar) => nodeOf(whole, bar.split(SEPARATOR))),
          ),
    [whole, bars],
  );
  const at = (bar: string): number => (shaped === null || bar === "" ? 0 : nodeOf(shaped, bar.split(SEPARATOR)));
  const focus = useMemo(() => at(params.focus), [shaped, params.focus]);
  const alone = useMemo(() => bars.map((bar) => ({ bar, node: at(bar) })), [shaped, bars]);
  const changed = [params.group, params.hide, params.only, params.min, params.having, params.alone].some((one) => one !== "");
  return { flame: shaped, focus, hide, alone, changed };
}
