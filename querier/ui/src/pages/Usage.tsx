/* What a tenant used, day by day, for bills; by service as well, and as CSV. */

import { useState } from "react";

import { type UsageDay, type UsageNumbers, type UsageQuery, usageAsCsv, useUsage } from "../api/admin";
import { formatCount, formatDuration, formatValue } from "../flame/units";
import { useRoute } from "../state/route";
import { Skeleton } from "../ui/Busy";
import { Icon } from "../ui/Icon";
import { Problem } from "../ui/Problem";
import { Scroll } from "../ui/Scroll";
import { SearchField } from "../ui/SearchField";
import { save } from "../ui/exports";
import { toast } from "../ui/toast";
import "./admin/admin.css";

const MONTHS = 13; // with the one that has begun
const DAYS = 31;
const DAY_MS = 86_400_000;

const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/* The first day of a month, and of the one that is `by` months later. */
function monthOf(month: string, by: number): string {
  const [year, number] = month.split("-").map(Number);
  return dayOf(Date.UTC(year!, number! - 1 + by, 1));
}

function queryOf(month: string, by: string): UsageQuery {
  if (/^\d{4}-(0[1-9]|1[0-2])$/.test(month)) return { from: monthOf(month, 0), until: monthOf(month, 1), by };
  const tomorrow = Date.now() + DAY_MS;
  return { from: dayOf(tomorrow - DAYS * DAY_MS), until: dayOf(tomorrow), by };
}

function monthsBack(): string[] {
  const now = dayOf(Date.now()).slice(0, 7);
  return Array.from({ length: MONTHS }, (_, back) => monthOf(now, -back).slice(0, 7));
}

/* Bytes that were stored, times days. */
const storedOf = (day: UsageDay): number => day.stored_byte_days + day.stored_byte_seconds / 86_400;
const stored = (amount: number): string => formatValue(Math.round(amount), "bytes");

function sum(days: readonly UsageDay[], of: (day: UsageDay) => number): number {
  return days.reduce((total, day) => total + of(day), 0);
}

interface Service extends UsageNumbers {
  name: string;
}

/* Over all days; of series the most of a day. */
function servicesOf(days: readonly UsageDay[]): Service[] {
  const found = new Map<string, Service>();
  for (const one of days.flatMap((day) => day.services ?? [])) {
    const service = found.get(one.service);
    if (service === undefined) {
      found.set(one.service, { ...one, name: one.service });
      continue;
    }
    service.profiles += one.profiles;
    service.unmeasured_profiles += one.unmeasured_profiles;
    service.samples += one.samples;
    service.wire_bytes += one.wire_bytes;
    service.raw_bytes += one.raw_bytes;
    service.series = Math.max(service.series, one.series);
  }
  return [...found.values()].sort((a, b) => b.raw_bytes - a.raw_bytes || (a.name < b.name ? -1 : 1));
}

function Numbers({ of }: { of: UsageNumbers }) {
  return (
    <>
      <td className="n">{formatCount(of.profiles)}</td>
      <td className="n">{formatCount(of.samples)}</td>
      <td className="n">{formatValue(of.wire_bytes, "bytes")}</td>
      <td className="n">{formatValue(of.raw_bytes, "bytes")}</td>
      <td className="n">{of.series === 0 ? "–" : formatCount(of.series)}</td>
    </>
  );
}

const NUMBER_HEADS = ["Profiles", "Samples", "Sent", "Uncompressed", "Series"];

function Heads({ names }: { names: readonly string[] }) {
  return names.map((name) => (
    <th key={name} scope="col" className="n">
      {name}
    </th>
  ));
}

function Days({ days }: { days: UsageDay[] }) {
  return (
    <Scroll label="Usage by day">
      <table className="plain admin" aria-label="Usage by day">
        <thead>
          <tr>
            <th scope="col">Day (UTC)</th>
            <Heads names={[...NUMBER_HEADS, "Stored", "Writes", "Queries", "Read", "CPU of queries"]} />
            <th scope="col">State</th>
          </tr>
        </thead>
        <tbody>
          {days.map((day) => (
            <tr key={`${day.tenant} ${day.day}`}>
              <th scope="row" className="nowrap">
                {day.day}
                <small>{day.tenant}</small>
              </th>
              <Numbers of={day} />
              <td className="n">{stored(storedOf(day))}</td>
              <td className="n">{formatCount(day.writes)}</td>
              <td className="n">{formatCount(day.queries)}</td>
              <td className="n">{formatValue(day.read_bytes, "bytes")}</td>
              <td className="n">{formatDuration(day.cpu_ms)}</td>
              <td className={day.preliminary ? "warn" : "ok"}>
                {day.preliminary ? "preliminary" : "final"}
                {day.revision > 1 && <small>corrected, version {day.revision}</small>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Services({ services }: { services: Service[] }) {
  const { params } = useRoute();
  const found = services.filter((one) => one.name.toLowerCase().includes(params.q.toLowerCase()));
  return (
    <>
      <Scroll label="Usage by service">
        <table className="plain admin" aria-label="Usage by service">
          <thead>
            <tr>
              <th scope="col">Service</th>
              <Heads names={[...NUMBER_HEADS.slice(0, 4), "Series, most of a day"]} />
            </tr>
          </thead>
          <tbody>
            {found.map((one) => (
              <tr key={one.name}>
                <th scope="row">{one.name || "(of no single service)"}</th>
                <Numbers of={one} />
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {found.length === 0 && <p className="table-foot">No service is like that.</p>}
    </>
  );
}

function Fact({ name, children }: { name: string; children: string }) {
  return (
    <div className="card fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Csv({ query }: { query: UsageQuery }) {
  const [busy, setBusy] = useState(false);
  const load = async (): Promise<void> => {
    setBusy(true);
    try {
      save(await usageAsCsv(query), `usage_${query.from}_${query.until}_by_${query.by}.csv`);
    } catch (fault) {
      toast(`No CSV: ${fault instanceof Error ? fault.message : String(fault)}`);
    }
    setBusy(false);
  };
  return (
    <button type="button" className="btn" disabled={busy} onClick={() => void load()}>
      <Icon name="export" />
      CSV
    </button>
  );
}

export function UsagePage() {
  const { params, set } = useRoute();
  const by = params.rows === "service" ? "service" : "day";
  const query = queryOf(params.month, by);
  const usage = useUsage(query);
  const days = usage.data?.days ?? [];
  const waiting = (usage.data?.waiting ?? []).reduce((total, one) => total + one.profiles, 0);
  const isRight = usage.data !== undefined && !(by === "service" && usage.isPlaceholderData); // those by day have no services
  return (
    <>
      <div className="toolbar admin-head">
        <h1>Usage</h1>
        <span className="note">
          {query.from} to {dayOf(Date.parse(query.until) - DAY_MS)}, days of UTC
        </span>
        <div className="push">
          {by === "service" && <SearchField label="Search services" value={params.q} onChange={(q) => set({ q }, { replace: true })} />}
          <span className="seg" role="group" aria-label="Rows">
            {(["day", "service"] as const).map((one) => (
              <button key={one} type="button" aria-pressed={by === one} onClick={() => set({ rows: one === "day" ? "" : one, q: "" })}>
                By {one}
              </button>
            ))}
          </span>
          <select className="input" aria-label="Month" value={params.month} onChange={(event) => set({ month: event.target.value })}>
            <option value="">The last {DAYS} days</option>
            {[...new Set([...monthsBack(), params.month])]
              .filter((month) => month !== "")
              .map((month) => (
                <option key={month}>{month}</option>
              ))}
          </select>
          <Csv query={query} />
        </div>
      </div>
      {usage.isError && usage.data === undefined && (
        <section className="card">
          <Problem fault={usage.error} onRetry={() => void usage.refetch()} />
        </section>
      )}
      {!isRight && !usage.isError && (
        <section className="card">
          <Skeleton rows={10} />
        </section>
      )}
      {isRight && (
        <div className={usage.isPlaceholderData ? "admin-stack stale" : "admin-stack"}>
          <dl className="facts">
            <Fact name="Profiles">{formatCount(sum(days, (day) => day.profiles))}</Fact>
            <Fact name="Sent">
              {formatValue(
                sum(days, (day) => day.wire_bytes),
                "bytes",
              )}
            </Fact>
            <Fact name="Stored, bytes times days">{stored(sum(days, storedOf))}</Fact>
            <Fact name="Queries">{formatCount(sum(days, (day) => day.queries))}</Fact>
            <Fact name="Read by queries">
              {formatValue(
                sum(days, (day) => day.read_bytes),
                "bytes",
              )}
            </Fact>
            <Fact name="In no day yet">{`${formatCount(waiting)} profiles`}</Fact>
          </dl>
          <section className="card" aria-label="Usage">
            {days.length === 0 ? (
              <p className="table-foot">Nothing was used in these days.</p>
            ) : by === "day" ? (
              <Days days={days} />
            ) : (
              <Services services={servicesOf(days)} />
            )}
          </section>
        </div>
      )}
    </>
  );
}
