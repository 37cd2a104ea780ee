/* What answers are worth that a page shows together: as much as the worst of them. */

import type { Statistics } from "../api/types";

export interface Worth {
  missing: string[]; // why something is; empty: all answers are complete
  saturated: boolean; // some sum did not fit into 64 bits, so what it was cut to says nothing about the rest either
}

const UNNAMED = "Some ingesters did not answer";

export function worthOf(answers: readonly (Statistics | null | undefined)[]): Worth {
  const there = answers.filter((one) => one != null);
  return {
    missing: [...new Set(there.filter((one) => !one.complete).map((one) => one.missing ?? UNNAMED))],
    saturated: there.some((one) => one.saturated === true),
  };
}

/* By how much a bar of a flame graph may be too small; null: not at all, or nobody knows. */
export function boundOf(statistics: Statistics | undefined): number | null {
  return statistics === undefined || statistics.exact || statistics.saturated === true ? null : (statistics.bound ?? 0);
}
