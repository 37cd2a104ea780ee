/* The flame graph of a difference, with what is known of the functions in it: for the page Diff, and for pages of others. */

import { useCallback, useMemo } from "react";

import { type Comparison, useComparison, useDiffFlame } from "../api/comparison";
import { type Cover, withDiffWidth } from "../flame/decode";
import type { Flame } from "../flame/model";
import { type ByFunction, byFunction, noteOf, quietNames } from "../state/changes";
import type { Sides } from "../state/sides";

export interface Difference {
  comparison: ReturnType<typeof useComparison>;
  flame: ReturnType<typeof useDiffFlame>;
  drawn: Flame | null;
  cover: Cover;
  quiet: ReadonlySet<string> | null;
  notes: (node: number) => string[];
}

const NO_CHANGES: ReadonlyMap<string, ByFunction> = new Map();

function coverOf(comparison: Comparison | undefined, { left, right }: Sides): Cover {
  const covered = [comparison?.a.covered_seconds ?? 0, comparison?.b.covered_seconds ?? 0] as const;
  return covered[0] > 0 && covered[1] > 0 ? covered : [left.span.until - left.span.from, right.span.until - right.span.from];
}

/* noise: changes that are not significant have colours, too. */
export function useDifference(sides: Sides, by: "share" | "rate", maxNodes: number, noise: boolean, enabled: boolean): Difference {
  const comparison = useComparison(sides, by, enabled);
  const flame = useDiffFlame(sides, maxNodes, enabled);
  const found = comparison.data;
  const picture = flame.data?.flame ?? null;
  const functions = useMemo(() => (found === undefined ? NO_CHANGES : byFunction(found.changes)), [found]);
  /* Absolute values are rates: by the seconds that instances are covered or, if that is not known, by those of the ranges. */
  const cover = useMemo(() => coverOf(found, sides), [found, sides]);
  const drawn = useMemo(
    () => (picture === null || by === "share" ? picture : withDiffWidth(picture, "absolute", cover)),
    [picture, by, cover],
  );
  /* Until it is known what is noise, nothing is coloured: a colour is a claim. */
  const quiet = useMemo(
    () => (picture === null || comparison.isError || noise ? null : quietNames(picture.names, functions)),
    [picture, comparison.isError, noise, functions],
  );
  const notes = useCallback(
    (node: number): string[] => {
      const row = drawn === null ? undefined : functions.get(drawn.names[drawn.name[node]!]!);
      return [row?.total, row?.self].filter((change) => change !== undefined).map(noteOf);
    },
    [drawn, functions],
  );
  return { comparison, flame, drawn, cover, quiet, notes };
}
