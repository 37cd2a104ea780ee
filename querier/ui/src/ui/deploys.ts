/* Deploys of a selection, as its profiles tell them (state/deploys.ts). */

import { useMemo } from "react";

import { type Span, useLabels, useLines } from "../api/queries";
import type { Mark } from "../charts/timeseries";
import { deployLabel, deploys } from "../state/deploys";
import type { Query } from "../state/selector";

const NONE: readonly Mark[] = [];

/* step: how exactly times are known, since a mark is at the end of the step in which a version appears. */
export function useDeploys(query: Query, span: Span, points: number): { marks: readonly Mark[]; step: number } {
  const labels = useLabels(query, span);
  const label = deployLabel(labels.data?.labels ?? []);
  const versions = useLines(query, span, points, [label], 0, label !== "");
  const { data } = versions;
  return useMemo(
    () => (data === undefined || label === "" ? { marks: NONE, step: 0 } : { marks: deploys(data, label), step: data.step }),
    [data, label],
  );
}
