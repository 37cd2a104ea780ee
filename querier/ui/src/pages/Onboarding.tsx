/* There is nothing in the range: of a server without any profile the lines to send the first one, else where the data is. A
   server that profiles itself soon has profiles, but none of anybody's: then the lines follow its own services. */

import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";

import { call } from "../api/client";
import { useNow } from "../state/now";
import { dateTime } from "../state/range";
import { BASE, useRoute } from "../state/route";
import { useSettings } from "../state/settings";
import { Snippets } from "../ui/Snippets";
import { snippets } from "./snippets";

const ASK_EVERY_MS = 2000;
const REFRESH_EVERY_MS = 10_000; /* with something to look at meanwhile */

/* Services of the server itself (self_profiling). */
export const isOwnService = (service: string): boolean => /^flamegrid(-(distributor|ingester|querier|compactor))?$/.test(service);

interface Stats {
  dataIngested?: boolean;
  oldestProfileTime?: string;
  newestProfileTime?: string;
}

/* Below services of the server itself: until there is one of somebody else. */
export function OnboardingBelow() {
  const { params } = useRoute();
  const { refresh } = useNow();

  useEffect(() => {
    const timer = setInterval(refresh, REFRESH_EVERY_MS);
    return () => clearInterval(timer);
  }, [refresh]);
  return (
    <section className="card start">
      <h1>Send profiles of yours</h1>
      <p>
        So far the server profiles itself. Agents of Pyroscope and OpenTelemetry work unchanged; they need only the address of this server.
      </p>
      <Snippets all={snippets(location.origin + BASE, params.tenant)} />
      <p className="waiting" role="status">
        <span className="dot" />
        Waiting for the first profile of yours … this page shows it as soon as it is there.
      </p>
    </section>
  );
}

export function Onboarding() {
  const { params, set } = useRoute();
  const { refresh } = useNow();
  const { utc } = useSettings();
  const stats = useQuery({
    queryKey: ["stats"],
    queryFn: ({ signal }) => call<Stats>("GetProfileStats", {}, signal),
    refetchInterval: ASK_EVERY_MS,
    meta: { quiet: true },
  });
  const ingested = stats.data?.dataIngested === true;
  /* The first profile is newer than what this page calls now. */
  useEffect(() => {
    if (ingested) refresh();
  }, [ingested, refresh]);

  if (ingested) {
    const oldest = Number(stats.data?.oldestProfileTime ?? 0);
    const newest = Number(stats.data?.newestProfileTime ?? 0);
    const minute = 60_000;
    return (
      <section className="card start">
        <h1>No profiles in this range</h1>
        <p>
          There are profiles from {dateTime(oldest, utc)} to {dateTime(newest, utc)}.
        </p>
        <div className="problem" style={{ padding: 0 }}>
          <div className="row">
            <button
              type="button"
              className="btn main"
              onClick={() => {
                refresh();
                set({ from: String(Math.max(oldest, newest - 60 * minute) - minute), until: String(newest + minute), sel: "" });
              }}
            >
              Show the newest hour with profiles
            </button>
            <button
              type="button"
              className="btn"
              onClick={() => {
                refresh();
                set({ from: String(oldest - minute), until: String(newest + minute), sel: "" });
              }}
            >
              Show all time with profiles
            </button>
          </div>
        </div>
      </section>
    );
  }
  return (
    <section className="card start">
      <h1>Send the first profile</h1>
      <p>Agents of Pyroscope and OpenTelemetry work unchanged; they need only the address of this server.</p>
      <Snippets all={snippets(location.origin + BASE, params.tenant)} />
      <p className="waiting" role="status">
        <span className="dot" />
        Waiting for the first profile … this page shows it as soon as it is there.
      </p>
    </section>
  );
}
