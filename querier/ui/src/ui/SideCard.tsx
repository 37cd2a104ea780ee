/* One side of a comparison: what it selects, and when; the part of its timeline that is compared is dragged. */

import type { UseQueryResult } from "@tanstack/react-query";
import { useMemo } from "react";

import type { Lines, Span } from "../api/queries";
import { clock, moment } from "../charts/time";
import type { ChartData } from "../charts/timeseries";
import { unitOf } from "../flame/units";
import { useRoute } from "../state/route";
import { DAY_MS } from "../state/range";
import { type Query, formatQuery } from "../state/selector";
import { useDark, useSettings } from "../state/settings";
import type { Side, SideName } from "../state/sides";
import { formatPoint, rateTitle } from "../state/types";
import { Chart, TableToggle, TimesTable, useAsTable } from "./Chart";
import { useDeploys } from "./deploys";
import { Problem } from "./Problem";
import { Filters, ServicePicker, TypePicker, useSelection } from "./QueryBar";

export const SIDE_NAMES: Record<SideName, string> = { left: "Baseline", right: "Comparison" };

/* --base and --cmp of the theme: the canvas needs them as numbers. */
const COLOURS: Record<SideName, { dark: string; light: string }> = {
  left: { dark: "#8fb8ff", light: "#2058b5" },
  right: { dark: "#ffb37a", light: "#9a4407" },
};
const CHART_PX = 84;
export const POINTS = 160; // of a timeline

interface Props {
  name: SideName;
  side: Side;
  domain: Span; // of the timeline
  lines: UseQueryResult<Lines>;
  most: number | null; // the end of the value axis, if both sides share it
  total: string;
  withType: boolean; // a type of its own, or else that of both sides
  onChange: (side: Side, done: boolean) => void;
  together?: { on: boolean; set: (on: boolean) => void }; // a button for it
}

/* The end of a value axis that both sides have room on. */
export function sharedMost(...both: (Lines | undefined)[]): number | null {
  let most = 0;
  for (const lines of both)
    for (const line of lines?.lines ?? []) for (const value of line.values) if (value !== null && value > most) most = value;
  return most > 0 ? most * 1.08 : null;
}

/* Two selections of the same time, such as two versions or two regions: what moves one side moves the other. */
function SameTime({ on, set }: { on: boolean; set: (on: boolean) => void }) {
  return (
    <button
      type="button"
      className="btn bare small"
      aria-pressed={on}
      title={on ? "Each side has a time of its own" : "The baseline gets the time of the comparison, and both move together"}
      onClick={() => set(!on)}
    >
      Same time
    </button>
  );
}

export function SideCard({ name, side, domain, lines, most, total, withType, onChange, together }: Props) {
  const { link } = useRoute();
  const { utc } = useSettings();
  const dark = useDark();
  const asTable = useAsTable();
  const { query, fault } = useSelection(side.query);
  const colour = COLOURS[name][dark ? "dark" : "light"];
  const { type } = query;
  const { from, until } = side.span;
  const { marks } = useDeploys(query, domain, POINTS);
  const data = useMemo(
    (): ChartData => ({
      times: lines.data?.times ?? [],
      series: (lines.data?.lines ?? []).map((line) => ({ name: rateTitle(type), values: line.values, colour, dash: [] })),
      from: domain.from,
      until: domain.until,
    }),
    [lines.data, type, colour, domain.from, domain.until],
  );
  const format = useMemo(() => (value: number) => formatPoint(value, type), [type]);
  const selection = useMemo(() => ({ from, until }), [from, until]);
  const when = (ms: number): string =>
    until - from > DAY_MS || domain.until - domain.from > DAY_MS ? moment(ms, utc) : clock(ms, utc, (until - from) % 60_000 !== 0);
  const dayApart = Math.abs(Date.now() - until) > DAY_MS / 2;
  const pick = (next: Query): void => {
    /* A comparison is of one type, so "all services" keeps it. */
    onChange({ ...side, query: formatQuery(next.type === "" ? { type, matchers: [] } : next) }, true);
  };

  return (
    <section className={`card side-card ${name}`} aria-label={SIDE_NAMES[name]}>
      <header>
        <h2 className="side-name">{SIDE_NAMES[name]}</h2>
        <div className="side-pick">
          <ServicePicker query={query} onChange={pick} />
          {withType && <TypePicker query={query} onChange={pick} />}
          <Filters query={query} onChange={pick} />
        </div>
        <div className="push">
          <span className="note">
            {dayApart && until - from <= DAY_MS ? `${moment(from, utc)} – ${clock(until, utc)}` : `${when(from)} – ${when(until)}`}
            {total === "" ? "" : ` · ${total}`}
          </span>
          {together !== undefined && <SameTime {...together} />}
          <TableToggle />
          <a
            className="btn bare small"
            href={link(
              {
                query: side.query,
                from: String(from),
                until: String(until),
                sel: "",
                leftQuery: "",
                leftFrom: "",
                leftUntil: "",
                rightQuery: "",
                rightFrom: "",
                rightUntil: "",
                q: "",
                focus: "",
                view: "",
              },
              "/",
            )}
          >
            Open alone
          </a>
        </div>
      </header>
      {fault !== null ? (
        <Problem fault={fault} />
      ) : lines.isError && lines.data === undefined ? (
        <Problem fault={lines.error} onRetry={() => void lines.refetch()} />
      ) : (
        <div className={lines.isPlaceholderData ? "stale" : undefined}>
          {asTable ? (
            <TimesTable data={data} format={format} />
          ) : (
            <Chart
              data={data}
              selection={selection}
              options={{
                height: CHART_PX,
                format,
                binary: unitOf(type) === "bytes",
                label: `${SIDE_NAMES[name]}: ${rateTitle(type)} over time`,
                mode: "lines",
                colour,
                most,
                marks,
              }}
              onSelect={(range, done) => {
                if (range !== null) onChange({ ...side, span: range }, done);
              }}
            />
          )}
        </div>
      )}
    </section>
  );
}
