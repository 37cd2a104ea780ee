/* What a tenant uses, for the page Status. */

import { useQuery } from "@tanstack/react-query";

import { getLong, send } from "./client";
import type { GrownValues } from "./comparison";
import { ask } from "./queries";

const DAY_MS = 86_400_000;
const SERVICES_MAX = 50;

/* Series by service since midnight, UTC, with those of as much time before. */
export function useServicesToday(enabled: boolean) {
  const midnight = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  const parameters = { from: midnight, until: "now", sort: "series", limit: SERVICES_MAX, growth: true };
  return useQuery({
    ...ask(["today", parameters], (signal) => getLong<GrownValues>("api/labels/service_name", parameters, signal), enabled),
    meta: { quiet: true },
  });
}

/* How many recording rules there are. */
export function useRules(enabled: boolean) {
  return useQuery({
    ...ask(
      ["rules"],
      async (signal) => {
        const answer = await send("settings.v1.RecordingRulesService/ListRecordingRules", {
          method: "POST",
          body: "{}",
          headers: { "Content-Type": "application/json" },
          signal,
        });
        return ((await answer.json()) as { rules?: unknown[] }).rules?.length ?? 0;
      },
      enabled,
    ),
    meta: { quiet: true },
  });
}
