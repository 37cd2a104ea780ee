/* What there is of the tenant and of the cluster: versions, members of the ring, blocks, limits. */

import { useQuery } from "@tanstack/react-query";

import { get } from "../api/client";
import type { GrownValues } from "../api/comparison";
import { useAdhocList } from "../api/queries";
import type { Statistics } from "../api/types";
import { useRules, useServicesToday } from "../api/usage";
import { useRights } from "../api/who";
import { formatCount, formatDuration, formatValue } from "../flame/units";
import { type Use, amountOf } from "../state/limits";
import { dateTime } from "../state/range";
import { useRoute } from "../state/route";
import { formatQuery, withService } from "../state/selector";
import { useSettings } from "../state/settings";
import { Skeleton } from "../ui/Busy";
import { Problem } from "../ui/Problem";
import { Scroll } from "../ui/Scroll";
import { WorthStrip } from "../ui/Summary";
import { Unfold } from "../ui/Unfold";
import { withCode } from "../ui/withCode";
import { Forwarding } from "./Forwarding";
import { NoRead } from "./NoRead";
import { ServerSettings } from "./ServerSettings";

interface Level {
  name: string;
  objects: number;
  bytes?: number;
  profiles: number;
  oldest_ms: number;
  newest_ms: number;
}

interface TenantAnswer {
  tenant: string;
  limits: Record<string, string>;
  bucket: { levels: Level[]; deletions_pending: number; objects_given_up: number } | null;
}

interface Answer {
  version: string;
  revision: string;
  multitenancy: boolean;
  profiles: { count: number; oldest_ms: number | null; newest_ms: number | null };
  tenants: TenantAnswer[];
  limits: Record<string, { default: string; meaning: string }>;
  ring: {
    revision: number;
    replicas: number;
    members: { name: string; zone: string; state: "active" | "leaving"; since_ms: number; shards: number }[];
  } | null;
  statistics: Statistics;
}

const REFRESH_MS = 5000;

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div className="card fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function ago(ms: number): string {
  const since = Date.now() - ms;
  return since < 1000 ? "now" : `${formatDuration(since)} ago`;
}

function Levels({ levels, utc }: { levels: Level[]; utc: boolean }) {
  return (
    <Scroll label="Blocks">
      <table className="plain">
        <thead>
          <tr>
            <th scope="col">Blocks of</th>
            <th scope="col" className="n">
              Objects
            </th>
            <th scope="col" className="n">
              Size
            </th>
            <th scope="col" className="n">
              Profiles
            </th>
            <th scope="col">From</th>
            <th scope="col">Until</th>
          </tr>
        </thead>
        <tbody>
          {levels.map((level) => (
            <tr key={level.name}>
              <td>{level.name === "segments" ? "not compacted yet" : level.name}</td>
              <td className="n">{formatCount(level.objects)}</td>
              <td className="n">{level.bytes === undefined ? "shared" : formatValue(level.bytes, "bytes")}</td>
              <td className="n">{formatCount(level.profiles)}</td>
              <td>{dateTime(level.oldest_ms, utc)}</td>
              <td>{dateTime(level.newest_ms, utc)}</td>
            </tr>
          ))}
          {levels.length === 0 && (
            <tr>
              <td colSpan={6}>Nothing has been committed yet.</td>
            </tr>
          )}
        </tbody>
      </table>
    </Scroll>
  );
}

const NEAR = 0.8; // of a limit, from where on it is worth a warning

/* What a tenant has of what is limited, if the server says it. */
function useUse(oldestMs: number | null, today: GrownValues | undefined, enabled: boolean): Map<string, Use> {
  const files = useAdhocList(enabled);
  const rules = useRules(enabled);
  const use = new Map<string, Use>();
  if (!enabled) return use;
  if (today !== undefined)
    use.set("max_series_per_tenant", { amount: today.series, text: `${formatCount(today.series)} today, on all ingesters` });
  if (files.data !== undefined) {
    const bytes = files.data.profiles.reduce((sum, one) => sum + one.bytes, 0);
    use.set("adhoc_profiles_max", { amount: files.data.profiles.length, text: formatCount(files.data.profiles.length) });
    use.set("adhoc_bytes_max", { amount: bytes, text: formatValue(bytes, "bytes") });
  }
  if (rules.data !== undefined) use.set("max_recording_rules", { amount: rules.data, text: formatCount(rules.data) });
  if (oldestMs !== null) use.set("retention_period", { amount: null, text: `the oldest is of ${ago(oldestMs)}` });
  return use;
}

function Tenant({
  tenant,
  about,
  oldestMs,
  alone,
}: {
  tenant: TenantAnswer;
  about: Answer["limits"];
  oldestMs: number | null;
  alone: boolean; // of several tenants at once, nobody says what each uses
}) {
  const today = useServicesToday(alone);
  const use = useUse(oldestMs, today.data, alone);
  return (
    <>
      {today.data !== undefined && <Today answer={today.data} />}
      <Unfold name={`limits ${tenant.tenant}`} className="limits" summary="Limits">
        <Scroll label="Limits">
          <table className="plain">
            <thead>
              <tr>
                <th scope="col">Setting</th>
                <th scope="col">Value</th>
                <th scope="col">In use</th>
                <th scope="col">Default</th>
                <th scope="col">Meaning</th>
              </tr>
            </thead>
            <tbody>
              {Object.entries(tenant.limits).map(([name, value]) => {
                const used = use.get(name);
                const near = used !== undefined && isNear(used.amount, amountOf(value));
                return (
                  <tr key={name}>
                    <td>
                      <code>limits.{name}</code>
                    </td>
                    <td>
                      <code>{value === "" ? "–" : value}</code>
                    </td>
                    <td className={near ? "warn" : undefined}>
                      {used?.text ?? ""}
                      {near ? ", near the limit" : ""}
                    </td>
                    <td>
                      <code>{about[name]?.default || "–"}</code>
                    </td>
                    <td className="meaning">{withCode(about[name]?.meaning ?? "")}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </Scroll>
      </Unfold>
    </>
  );
}

function isNear(used: number | null, limit: number): boolean {
  return used !== null && limit > 0 && used >= NEAR * limit;
}

/* The services that have profiles since midnight, the ones with the most series first. */
function Today({ answer }: { answer: GrownValues }) {
  const { link } = useRoute();
  if (answer.values.length === 0) return null;
  return (
    <Unfold
      name="today"
      className="limits"
      summary={`Today (UTC): ${formatCount(answer.series)} series of ${formatCount(answer.count)} ${answer.count === 1 ? "service" : "services"}`}
    >
      <Scroll label="Services">
        <table className="plain">
          <thead>
            <tr>
              <th scope="col">Service</th>
              <th scope="col" className="n">
                Series
              </th>
              <th scope="col" className="n">
                New since yesterday
              </th>
            </tr>
          </thead>
          <tbody>
            {answer.values.map((row) => (
              <tr key={row.value}>
                <td>
                  <a href={link({ query: formatQuery(withService({ type: "", matchers: [] }, row.value)) }, "/labels")}>
                    {row.value || "(none)"}
                  </a>
                </td>
                <td className="n">{formatCount(row.series)}</td>
                <td className="n">{row.series_new === undefined ? "–" : formatCount(row.series_new)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {answer.next !== undefined && <p className="table-foot">The first {formatCount(answer.values.length)} of them.</p>}
    </Unfold>
  );
}

/* The settings do not need the right to read profiles. */
export function Status() {
  const { reads } = useRights();
  return (
    <>
      {reads ? <TenantStatus /> : <NoRead />}
      <Forwarding />
      <ServerSettings />
    </>
  );
}

function TenantStatus() {
  const { utc } = useSettings();
  const status = useQuery({
    queryKey: ["status"],
    queryFn: ({ signal }) => get<Answer>("api/status", {}, signal),
    refetchInterval: REFRESH_MS,
    meta: { quiet: true },
  });
  if (status.isError && status.data === undefined)
    return (
      <section className="card">
        <Problem fault={status.error} onRetry={() => void status.refetch()} />
      </section>
    );
  if (status.data === undefined)
    return (
      <section className="card profile">
        <Skeleton />
      </section>
    );

  const { version, revision, profiles, tenants, limits, ring, statistics } = status.data;
  const waiting = tenants.flatMap((one) => one.bucket?.levels ?? []).find((level) => level.name === "segments");
  return (
    <>
      <h1 className="hidden-text">Status</h1>
      <WorthStrip answers={[statistics]} />
      <dl className="facts">
        <Fact name="Version">
          {version} <small>{revision}</small>
        </Fact>
        <Fact name="Profiles">{formatCount(profiles.count)}</Fact>
        <Fact name="Newest profile">{profiles.newest_ms === null ? "none" : ago(profiles.newest_ms)}</Fact>
        <Fact name="Since">{profiles.oldest_ms === null ? "–" : dateTime(profiles.oldest_ms, utc)}</Fact>
        <Fact name="Ingesters">
          {ring === null ? "this server" : `${formatCount(ring.members.filter((one) => one.state === "active").length)} active`}
        </Fact>
        <Fact name="Oldest not compacted">{waiting === undefined ? "all is compacted" : ago(waiting.oldest_ms)}</Fact>
      </dl>
      {ring !== null && (
        <section className="card">
          <header>
            <h2>Ring</h2>
            <span className="note">
              revision {formatCount(ring.revision)}, {ring.replicas} {ring.replicas === 1 ? "replica" : "replicas"} of each profile
            </span>
          </header>
          <Scroll label="Ingesters">
            <table className="plain">
              <thead>
                <tr>
                  <th scope="col">Ingester</th>
                  <th scope="col">Zone</th>
                  <th scope="col">State</th>
                  <th scope="col">Member since</th>
                  <th scope="col" className="n">
                    Shards
                  </th>
                </tr>
              </thead>
              <tbody>
                {ring.members.map((one) => (
                  <tr key={one.name}>
                    <td>{one.name}</td>
                    <td>{one.zone || "–"}</td>
                    <td className={one.state === "active" ? "ok" : "warn"}>{one.state}</td>
                    <td>{dateTime(one.since_ms, utc)}</td>
                    <td className="n">{formatCount(one.shards)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </section>
      )}
      {tenants.map((one) => (
        <section key={one.tenant} className="card" aria-label={`Tenant ${one.tenant}`}>
          <header>
            <h2>Tenant {one.tenant}</h2>
            {one.bucket !== null && one.bucket.deletions_pending > 0 && (
              <span className="note">{formatCount(one.bucket.deletions_pending)} deletions are pending</span>
            )}
            {one.bucket !== null && one.bucket.objects_given_up > 0 && (
              <span className="warn">{formatCount(one.bucket.objects_given_up)} damaged objects were given up</span>
            )}
          </header>
          {one.bucket === null ? (
            <p className="table-foot">Without a bucket: ingesters hold everything.</p>
          ) : (
            <Levels levels={one.bucket.levels} utc={utc} />
          )}
          <Tenant tenant={one} about={limits} oldestMs={profiles.oldest_ms} alone={tenants.length === 1} />
        </section>
      ))}
    </>
  );
}
