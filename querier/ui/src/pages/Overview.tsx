/* Explore without a selection: the services there are, what they do, and what can be looked at of them. */

import { useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link } from "wouter";

import { type Lines, type ServiceTypes, askLines, useServices } from "../api/queries";
import { numbersOf } from "../charts/series";
import { sparkline } from "../charts/sparkline";
import { formatCount } from "../flame/units";
import { useNow, useSpan } from "../state/now";
import { rangeLabel } from "../state/range";
import { BASE, useRoute } from "../state/route";
import { formatQuery, withService } from "../state/selector";
import { useSettings } from "../state/settings";
import { byImportance, formatPoint, meaning } from "../state/types";
import { Skeleton, SlowNote } from "../ui/Busy";
import { Problem } from "../ui/Problem";
import { SearchField } from "../ui/SearchField";
import { WorthStrip } from "../ui/Summary";
import { Onboarding, OnboardingBelow, isOwnService } from "./Onboarding";

const POINTS = 60;
const SPARK_W = 240;
const SPARK_H = 44;

interface Activity {
  values: (number | null)[];
  mean: number;
}

function Spark({ activity }: { activity: Activity | undefined }) {
  if (activity === undefined) return <svg className="spark" aria-hidden="true" />;
  const { line, area } = sparkline(activity.values, SPARK_W, SPARK_H);
  return (
    <svg className="spark" viewBox={`0 0 ${SPARK_W} ${SPARK_H}`} preserveAspectRatio="none" aria-hidden="true">
      <path className="area" d={area} />
      <path className="line" d={line} />
    </svg>
  );
}

/* By service: the lines of all services whose main type is one are asked for together. */
function activities(lines: Lines | undefined): Map<string, Activity> {
  return new Map(
    (lines?.lines ?? []).map((line) => [line.labels.service_name ?? "", { values: line.values, mean: numbersOf(line.values).mean }]),
  );
}

function Card({ service, types, activity }: { service: string; types: string[]; activity: Activity | undefined }) {
  const { link } = useRoute();
  const main = types[0]!;
  const to = (type: string): string =>
    link({ query: formatQuery(withService({ type, matchers: [] }, service)), sel: "", focus: "", site: "", fn: "", q: "" }, "/").slice(
      BASE.length,
    );

  return (
    <li className="card service">
      <h2>
        <Link href={to(main)}>{service}</Link>
      </h2>
      <Spark activity={activity} />
      <p className="facts">
        <span>{meaning(main).label}</span>
        <span>{activity === undefined ? "" : `${formatPoint(activity.mean, main)} on average`}</span>
      </p>
      <div className="types">
        {types.map((type) => (
          <Link key={type} className="tag" href={to(type)} title={meaning(type).what}>
            {meaning(type).label}
          </Link>
        ))}
      </div>
    </li>
  );
}

export function Overview() {
  const { params, set } = useRoute();
  const span = useSpan();
  const { nowMs } = useNow();
  const { utc } = useSettings();
  const services = useServices(span);
  const all = useMemo(
    () =>
      (services.data ?? [])
        .filter((one) => one.service !== "")
        .map((one): ServiceTypes => ({ service: one.service, types: [...one.types].sort(byImportance) })),
    [services.data],
  );
  const mains = useMemo(() => [...new Set(all.map((one) => one.types[0]!))].sort(), [all]);
  const lines = useQueries({
    queries: mains.map((type) => ({
      queryKey: ["overview", type, span.from, span.until],
      queryFn: ({ signal }: { signal: AbortSignal }) => askLines({ type, matchers: [] }, span, POINTS, ["service_name"], 0, signal),
      staleTime: 30_000,
    })),
  });
  const found = new Map(mains.map((type, index) => [type, activities(lines[index]?.data)]));
  const words = params.q.toLowerCase().split(/\s+/);
  const shown = all
    .filter((one) => words.every((word) => one.service.toLowerCase().includes(word)))
    .map((one) => ({ ...one, activity: found.get(one.types[0]!)?.get(one.service) }))
    .sort(
      (a, b) =>
        byImportance(a.types[0]!, b.types[0]!) || (b.activity?.mean ?? 0) - (a.activity?.mean ?? 0) || (a.service < b.service ? -1 : 1),
    );

  if (services.isError && services.data === undefined)
    return (
      <section className="card">
        <Problem fault={services.error} onRetry={() => void services.refetch()} />
      </section>
    );
  if (services.isPending)
    return (
      <>
        <SlowNote results={[services]} />
        <section className="card profile">
          <Skeleton />
        </section>
      </>
    );
  if (all.length === 0) return <Onboarding />;
  return (
    <>
      <div className="toolbar" style={{ padding: 0, border: 0 }}>
        <h1>
          {formatCount(all.length)} {all.length === 1 ? "service" : "services"}
        </h1>
        <span className="note">{rangeLabel(params, nowMs, utc)}</span>
        <div className="push">
          <SearchField label="Search services" value={params.q} onChange={(q) => set({ q }, { replace: true })} />
        </div>
      </div>
      <WorthStrip answers={lines.map((one) => one.data?.statistics)} />
      {shown.length === 0 ? (
        <section className="card center">
          <h2>No service is called like “{params.q}”</h2>
          <p>
            <button type="button" className="link" onClick={() => set({ q: "" })}>
              Show all
            </button>
          </p>
        </section>
      ) : (
        <ul className="services">
          {shown.map((one) => (
            <Card key={one.service} {...one} />
          ))}
        </ul>
      )}
      {all.every((one) => isOwnService(one.service)) && <OnboardingBelow />}
    </>
  );
}
