import type { Functions } from "../api/types";
import type { Flame } from "../flame/model";
import { topOf } from "../flame/top";
import type { Unit } from "../flame/units";

const UNITS = { ns: "nanoseconds", bytes: "bytes", count: "count" } as const;

/* Numbers by function of a flame graph, in the form of those that the server has of a selection: exact if nothing of it is folded. */
export function functionsOf(flame: Flame, unit: Unit, statistics?: Functions["statistics"]): Functions {
  const top = topOf(flame);
  const share = (value: number): number => (flame.total > 0 ? value / flame.total : 0);
  const functions = [...top.names].map((name) => ({
    name: flame.names[name]!,
    self: top.self[name]!,
    total: top.total[name]!,
    self_share: share(top.self[name]!),
    total_share: share(top.total[name]!),
  }));
  return {
    type: "",
    unit: UNITS[unit],
    total: flame.total,
    count: functions.length,
    functions,
    statistics: statistics ?? { complete: true, exact: top.folded === 0, profiles: 1, series: 0, bytes: 0, millis: 0 },
  };
}
