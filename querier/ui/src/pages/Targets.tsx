/* Pull mode: which targets are fetched, when, and what went wrong. */

import { useQuery } from "@tanstack/react-query";

import { ApiError, get } from "../api/client";
import { formatCount, formatDuration, formatValue } from "../flame/units";
import { useRoute } from "../state/route";
import { formatQuery, withService } from "../state/selector";
import { BASE } from "../state/route";
import { Skeleton } from "../ui/Busy";
import { Problem } from "../ui/Problem";
import { Scroll } from "../ui/Scroll";
import { SearchField } from "../ui/SearchField";
import { Unfold } from "../ui/Unfold";
import { Link } from "wouter";

interface Target {
  labels: Record<string, string>;
  discoveredLabels: Record<string, string>;
  scrapePool: string;
  profile: string;
  scrapeUrl: string;
  lastError: string;
  lastScrape: string;
  lastScrapeDuration: number;
  lastScrapeBytes: number;
  health: "up" | "down" | "unknown";
  scrapeInterval: string;
}

interface Answer {
  data: {
    activeTargets: Target[];
    droppedTargets: { discoveredLabels: Record<string, string>; scrapePool: string; reason: string }[];
    elsewhere: number; // fetched by other distributors
    discovery: { source: "file" | "kubernetes"; path?: string; state: string; error: string }[];
  };
}

const REFRESH_MS = 5000;
const WORDS = { up: "up", down: "down", unknown: "not fetched yet" } as const;
const CLASS = { up: "ok", down: "err", unknown: "" } as const;

function formatLabels(labels: Record<string, string>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(", ");
}

function ago(when: string): string {
  const ms = Date.now() - Date.parse(when);
  return when.startsWith("0001") || Number.isNaN(ms) ? "never" : ms < 1000 ? "just now" : `${formatDuration(ms)} ago`;
}

export function Targets() {
  const { params, set, link } = useRoute();
  const targets = useQuery({
    queryKey: ["targets"],
    queryFn: ({ signal }) => get<Answer>("api/v1/targets", {}, signal),
    refetchInterval: REFRESH_MS,
    meta: { quiet: true },
  });
  if (targets.error instanceof ApiError && targets.error.status === 404)
    return (
      <section className="card center">
        <h2>Targets are with the distributors</h2>
        <p>This querier fetches nothing; ask a distributor’s address for this page.</p>
      </section>
    );
  if (targets.isError && targets.data === undefined)
    return (
      <section className="card">
        <Problem fault={targets.error} onRetry={() => void targets.refetch()} />
      </section>
    );
  if (targets.data === undefined)
    return (
      <section className="card profile">
        <Skeleton />
      </section>
    );

  const { activeTargets: all, droppedTargets: dropped, elsewhere, discovery } = targets.data.data;
  const words = params.q.toLowerCase().split(/\s+/);
  const shown = all
    .filter((one) =>
      words.every((word) => `${one.scrapeUrl} ${Object.values(one.labels).join(" ")} ${one.health}`.toLowerCase().includes(word)),
    )
    .sort((a, b) => (a.health === "down" ? 0 : 1) - (b.health === "down" ? 0 : 1) || (a.scrapeUrl < b.scrapeUrl ? -1 : 1));
  const down = all.filter((one) => one.health === "down").length;
  return (
    <>
      <div className="toolbar" style={{ padding: 0, border: 0 }}>
        <h1>
          {formatCount(all.length)} {all.length === 1 ? "target" : "targets"}
        </h1>
        {down > 0 && <span className="err">{formatCount(down)} down</span>}
        {elsewhere > 0 && <span className="note">{formatCount(elsewhere)} fetched by other distributors</span>}
        <div className="push">
          <SearchField label="Search targets" value={params.q} onChange={(q) => set({ q }, { replace: true })} />
        </div>
      </div>
      {discovery.map((one) => (
        <p key={`${one.source} ${one.path ?? ""}`} className={one.error === "" ? "note" : "err"} role="status">
          {one.source === "kubernetes" ? `Kubernetes: ${one.state}${one.error === "" ? "" : `; ${one.error}`}` : one.error}
        </p>
      ))}
      {all.length === 0 && dropped.length === 0 && elsewhere === 0 ? (
        <section className="card start">
          <h1>Nothing is fetched</h1>
          <p>flamegrid can fetch profiles from programs that serve /debug/pprof. Name them in the settings:</p>
          <div className="snippet">
            <pre tabIndex={0}>
              <code>{'scrape:\n  targets: [{targets: ["localhost:6060"], labels: {service_name: my.app}}]'}</code>
            </pre>
          </div>
        </section>
      ) : (
        <section className="card" aria-label="Targets">
          <Scroll label="Targets">
            <table className="plain">
              <thead>
                <tr>
                  <th scope="col">State</th>
                  <th scope="col">Address</th>
                  <th scope="col">Service</th>
                  <th scope="col">Last</th>
                  <th scope="col" className="n">
                    Took
                  </th>
                  <th scope="col" className="n">
                    Size
                  </th>
                  <th scope="col">Every</th>
                </tr>
              </thead>
              <tbody>
                {shown.map((one) => (
                  <tr key={`${one.scrapePool} ${one.scrapeUrl} ${one.profile}`}>
                    <td className={CLASS[one.health]}>{WORDS[one.health]}</td>
                    <td>
                      {one.scrapeUrl}
                      {one.lastError !== "" && <div className="err">{one.lastError}</div>}
                    </td>
                    <td>
                      {one.labels.service_name !== undefined && (
                        <Link
                          href={link(
                            { q: "", query: formatQuery(withService({ type: "", matchers: [] }, one.labels.service_name)) },
                            "/",
                          ).slice(BASE.length)}
                        >
                          {one.labels.service_name}
                        </Link>
                      )}
                    </td>
                    <td>{ago(one.lastScrape)}</td>
                    <td className="n">{formatDuration(one.lastScrapeDuration * 1000)}</td>
                    <td className="n">{formatValue(one.lastScrapeBytes, "bytes")}</td>
                    <td>{one.scrapeInterval}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </section>
      )}
      {dropped.length > 0 && (
        <Unfold name="dropped" className="card limits" summary={`${formatCount(dropped.length)} dropped`}>
          <Scroll label="Dropped targets">
            <table className="plain">
              <thead>
                <tr>
                  <th scope="col">Source</th>
                  <th scope="col">Reason</th>
                  <th scope="col">Labels</th>
                </tr>
              </thead>
              <tbody>
                {dropped.map((one, index) => (
                  <tr key={index}>
                    <td>{one.scrapePool}</td>
                    <td>{one.reason}</td>
                    <td>
                      <code>{formatLabels(one.discoveredLabels)}</code>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </Unfold>
      )}
    </>
  );
}
