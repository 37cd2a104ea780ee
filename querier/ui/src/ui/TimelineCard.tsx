/* Values over the whole range; a part of it is selected by dragging, or by the handles. */

import type { UseQueryResult } from "@tanstack/react-query";
import { useMemo } from "react";

import type { Lines, Span } from "../api/queries";
import { OTHER_COLOUR, type Series, numbersOf, styleOf } from "../charts/series";
import { clock, moment } from "../charts/time";
import type { ChartData, Mark } from "../charts/timeseries";
import { formatDuration, unitOf } from "../flame/units";
import { useRoute } from "../state/route";
import { type Query, formatQuery } from "../state/selector";
import { useDark, useSettings } from "../state/settings";
import { formatPoint, instancesOf, rateTitle } from "../state/types";
import { Chart, TableToggle, TimesTable, useAsTable } from "./Chart";
import { Icon } from "./Icon";
import { Menu } from "./Menu";
import { Problem } from "./Problem";

interface Props {
  query: Query;
  span: Span;
  lines: UseQueryResult<Lines>;
  sel: [number, number] | null;
  by: string;
  labels: { name: string; values: number }[];
  marks: readonly Mark[]; // deploys
  onSel: (sel: [number, number] | null) => void;
  onZoom: (range: [number, number]) => void;
  onBy: (label: string) => void;
  onOnly: (value: string) => void; // of the label that it is split by
}

const DAY_MS = 86_400_000;

function total(lines: Lines): (number | null)[] {
  return lines.times.map((_, at) =>
    lines.lines.reduce<number | null>((sum, line) => (line.values[at] == null ? sum : (sum ?? 0) + line.values[at]!), null),
  );
}

export function TimelineCard({ query, span, lines, sel, by, labels, marks, onSel, onZoom, onBy, onOnly }: Props) {
  const { link } = useRoute();
  const { utc } = useSettings();
  const dark = useDark();
  const asTable = useAsTable();
  const { type } = query;
  const data = useMemo((): ChartData => {
    const series = (lines.data?.lines ?? []).map((line, place): Series => {
      const style = by === "" ? styleOf(0, dark) : styleOf(place, dark);
      return { name: by === "" ? rateTitle(type) : line.labels[by] || `no ${by}`, values: line.values, ...style };
    });
    return { times: lines.data?.times ?? [], series, from: span.from, until: span.until };
  }, [lines.data, dark, by, type, span]);
  const format = useMemo(() => (value: number) => formatPoint(value, type), [type]);
  const numbers = useMemo(() => (lines.data === undefined ? null : numbersOf(total(lines.data))), [lines.data]);
  /* Without data, an axis of a core, a byte or a piece. */
  const most = numbers !== null && numbers.max > 0 ? null : unitOf(type) === "ns" ? 1e9 : 1;
  const instances = instancesOf(labels);
  const long = span.until - span.from > DAY_MS;
  const when = (ms: number): string => (long ? moment(ms, utc) : clock(ms, utc, true));
  const [from, until] = sel ?? [span.from, span.until];

  return (
    <section className="card timeline" aria-label="Timeline">
      <header>
        <h2>{rateTitle(type)}</h2>
        {numbers !== null && numbers.count > 0 && (
          <span className="note">
            avg {format(numbers.mean)} · max {format(numbers.max)}
            {instances !== "" && ` · ${instances}`}
          </span>
        )}
        <div className="push">
          {sel !== null && (
            <span className="selection">
              {when(sel[0])} – {when(sel[1])}
              <span className="of">({formatDuration(sel[1] - sel[0])})</span>
              <button type="button" aria-label="Clear the selection" onClick={() => onSel(null)}>
                ×
              </button>
            </span>
          )}
          {sel !== null && (
            <button type="button" className="btn bare small" onClick={() => onZoom(sel)}>
              Zoom to selection
            </button>
          )}
          <a
            className="btn bare small"
            href={link(
              {
                query: "",
                sel: "",
                leftQuery: formatQuery(query),
                leftFrom: String(2 * from - until),
                leftUntil: String(from),
                rightQuery: formatQuery(query),
                rightFrom: String(from),
                rightUntil: String(until),
              },
              "/diff",
            )}
          >
            <Icon name="diff" />
            Compare with the previous {formatDuration(until - from)}
          </a>
          <TableToggle />
          <Menu
            className="btn bare small"
            trigger={
              <>
                {by === "" ? "Split by" : `Split by ${by}`}
                <Icon name="down" size={13} />
              </>
            }
            entries={[
              { key: "", text: "Not at all", on: by === "", run: () => onBy("") },
              "line",
              ...labels.map((label) => ({
                key: label.name,
                text: label.name,
                hint: String(label.values),
                on: by === label.name,
                run: () => onBy(label.name),
              })),
            ]}
          />
        </div>
      </header>
      {lines.isError && lines.data === undefined ? (
        <Problem fault={lines.error} onRetry={() => void lines.refetch()} />
      ) : (
        <div className={lines.isPlaceholderData ? "stale" : undefined}>
          {asTable ? (
            <TimesTable data={data} format={format} />
          ) : (
            <Chart
              data={data}
              selection={sel === null ? null : { from: sel[0], until: sel[1] }}
              options={{
                height: 112,
                format,
                binary: unitOf(type) === "bytes",
                label: `${rateTitle(type)} over time`,
                mode: "lines",
                marks,
                most,
              }}
              onSelect={(range, done) => {
                if (done) onSel(range === null ? null : [range.from, range.until]);
              }}
            />
          )}
        </div>
      )}
      {by !== "" && (
        <div className="legend">
          {data.series.map((series) => (
            <button
              key={series.name}
              type="button"
              className="tag"
              title={`Only ${by}="${series.name}"`}
              onClick={() => onOnly(series.name)}
            >
              <i className="key" style={{ background: series.of === "other" ? OTHER_COLOUR[dark ? "dark" : "light"] : series.colour }} />
              {series.name}
            </button>
          ))}
        </div>
      )}
    </section>
  );
}
