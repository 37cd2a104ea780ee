/* There is nothing in the range: of a server without any profile the lines to send the first one, else where the data is. */

import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { call } from "../api/client";
import { useNow } from "../state/now";
import { dateTime } from "../state/range";
import { BASE, useRoute } from "../state/route";
import { useSettings } from "../state/settings";
import { Icon } from "../ui/Icon";
import { copy } from "../ui/toast";
import { snippets } from "./snippets";

const ASK_EVERY_MS = 2000;

interface Stats {
  dataIngested?: boolean;
  oldestProfileTime?: string;
  newestProfileTime?: string;
}

export function Onboarding() {
  const { params, set } = useRoute();
  const { refresh } = useNow();
  const { utc } = useSettings();
  const [picked, setPicked] = useState(0);
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
  const all = snippets(location.origin + BASE, params.tenant);
  const chosen = all[picked]!;

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
      <div className="tabs" role="tablist" aria-label="Kind of program">
        {all.map((one, index) => (
          <button
            key={one.name}
            type="button"
            role="tab"
            id={`tab-${index}`}
            aria-selected={index === picked}
            aria-controls="snippet"
            tabIndex={index === picked ? 0 : -1}
            onClick={() => setPicked(index)}
            onKeyDown={(event) => {
              const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
              if (by === 0) return;
              const next = (index + by + all.length) % all.length;
              setPicked(next);
              document.getElementById(`tab-${next}`)?.focus();
            }}
          >
            {one.name}
          </button>
        ))}
      </div>
      <div id="snippet" role="tabpanel" aria-labelledby={`tab-${picked}`}>
        {chosen.install !== undefined && (
          <p>
            <code>{chosen.install}</code>
          </p>
        )}
        <div className="snippet">
          <pre tabIndex={0}>
            <code>{chosen.code}</code>
          </pre>
          <button type="button" className="btn small icon" aria-label="Copy the lines" onClick={() => void copy("Lines", chosen.code)}>
            <Icon name="copy" />
          </button>
        </div>
      </div>
      <p className="waiting" role="status">
        <span className="dot" />
        Waiting for the first profile … this page shows it as soon as it is there.
      </p>
    </section>
  );
}
