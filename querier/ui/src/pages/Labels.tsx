/* What a selection is made of: values over time and in sum by the values of a label, and how many series labels make. */

import { useMemo } from "react";

import { type GrownLabels, type GrownValues, useGrowth, useValueRows } from "../api/comparison";
import { type Lines, type Span, useLines } from "../api/queries";
import { OTHER_COLOUR, type Series, numbersOf, styleOf } from "../charts/series";
import type { ChartData } from "../charts/timeseries";
import { type Unit, formatCount, formatShare, formatValue, unitOf } from "../flame/units";
import { useSpan } from "../state/now";
import { useRoute } from "../state/route";
import { type Matcher, type Query, formatQuery, withMatcher } from "../state/selector";
import { useDark } from "../state/settings";
import { sidePatch } from "../state/sides";
import { formatPoint, isLevel, rateTitle } from "../state/types";
import { formatSel, parseSel } from "../state/url";
import { Skeleton, SlowNote } from "../ui/Busy";
import { Chart, TableToggle, TimesTable, useAsTable } from "../ui/Chart";
import { Icon } from "../ui/Icon";
import { type Entry, Menu } from "../ui/Menu";
import { Problem } from "../ui/Problem";
import { useSelection } from "../ui/QueryBar";
import { Scroll } from "../ui/Scroll";
import { WorthStrip } from "../ui/Summary";
import { useOpen } from "../ui/Unfold";
import { Onboarding } from "./Onboarding";
import "./labels.css";

const POINTS = 240;
const DRAWN = 10; // series with a colour of their own
const LINES = 100; // series with numbers of their own
const VALUES_PAGE = 100;
const VALUES_MAX = 10_000; // the server's limit of a page
const TABS = 7; // labels side by side; the others are in a menu
const CHARTS = [
  ["lines", "Lines"],
  ["stacked", "Stacked"],
  ["grid", "Grid"],
] as const;

export function LabelsPage() {
  const { params } = useRoute();
  const { query, fault } = useSelection(params.query);
  const span = useSpan();
  const growth = useGrowth(query, span);

  if (fault !== null)
    return (
      <section className="card">
        <Problem fault={fault} />
      </section>
    );
  if (growth.isError)
    return (
      <section className="card">
        <Problem fault={growth.error} onRetry={() => void growth.refetch()} />
      </section>
    );
  if (growth.data === undefined)
    return (
      <>
        <SlowNote results={[growth]} />
        <section className="card profile">
          <Skeleton />
        </section>
      </>
    );
  if (growth.data.series === 0 && params.query === "") return <Onboarding />;
  const names = growth.data.labels.filter((row) => !row.name.startsWith("__") && row.series > 0);
  const by = names.some((row) => row.name === params.by) ? params.by : best(names);
  return (
    <>
      <h1 className="hidden-text">Labels</h1>
      <SlowNote results={[growth]} />
      <ByLabel query={query} span={span} growth={growth.data} labels={names} by={by} />
      <Cardinality answer={growth.data} query={query} by={by} stale={growth.isPlaceholderData} />
    </>
  );
}

/* The label that tells most at a glance: with a few values, rather than one or hundreds. */
function best(labels: readonly { name: string; values: number }[]): string {
  const score = (values: number): number => (values < 2 ? 1000 : values <= 12 ? 12 - values : values);
  return [...labels].sort((a, b) => score(a.values) - score(b.values) || (a.name < b.name ? -1 : 1))[0]?.name ?? "";
}

function ByLabel({
  query,
  span,
  growth,
  labels,
  by,
}: {
  query: Query;
  span: Span;
  growth: GrownLabels;
  labels: GrownLabels["labels"];
  by: string;
}) {
  const { params, set } = useRoute();
  const dark = useDark();
  const limit = Math.min(Math.max(Number(params.rowsMax) || 0, VALUES_PAGE), VALUES_MAX);
  const typed = query.type !== "";
  const lines = useLines(query, span, POINTS, [by], LINES);
  const all = useLines(query, span, POINTS, []);
  const values = useValueRows(query, span, by, limit);
  const asTable = useAsTable();
  const mode = CHARTS.find(([one]) => one === params.chart)?.[0] ?? "lines";
  const sel = parseSel(params.sel);
  const type = query.type;
  const format = useMemo(() => (value: number) => formatPoint(value, type), [type]);
  const series = useMemo(
    () => (lines.data === undefined ? [] : seriesOf(lines.data, all.data, by, dark, isLevel(type))),
    [lines.data, all.data, by, dark, type],
  );
  const data = useMemo(
    (): ChartData => ({ times: lines.data?.times ?? [], series, from: span.from, until: span.until }),
    [lines.data, series, span],
  );
  const ofValue = useMemo(
    () => new Map((lines.data?.lines ?? []).map((line) => [line.labels[by] ?? "", numbersOf(line.values)])),
    [lines.data, by],
  );
  const colours = useMemo(
    () =>
      new Map(series.filter((one) => one.of === undefined).map((one, place) => [lines.data!.lines[place]!.labels[by] ?? "", one.colour])),
    [series, lines.data, by],
  );
  const tabs = labels.slice(0, TABS);
  if (!tabs.some((row) => row.name === by)) {
    const picked = labels.find((row) => row.name === by);
    if (picked !== undefined) tabs.splice(TABS - 1, 1, picked);
  }

  return (
    <>
      <WorthStrip answers={[growth.statistics, lines.data?.statistics, all.data?.statistics, values.data?.statistics]} />
      <section className="card by-label" aria-label="By label">
        <header>
          <h2>{typed ? `${rateTitle(type)} by label` : "Series by label"}</h2>
          <div className="seg" role="group" aria-label="Label">
            {tabs.map((row) => (
              <button key={row.name} type="button" aria-pressed={row.name === by} onClick={() => set({ by: row.name })}>
                {row.name} <span className="of">{formatCount(row.values)}</span>
              </button>
            ))}
          </div>
          {labels.length > tabs.length && (
            <Menu
              className="btn small"
              align="start"
              trigger={
                <>
                  {labels.length - tabs.length} more
                  <Icon name="down" size={13} />
                </>
              }
              entries={labels
                .filter((row) => !tabs.includes(row))
                .map((row): Entry => ({ key: row.name, text: row.name, hint: formatCount(row.values), run: () => set({ by: row.name }) }))}
            />
          )}
          {typed && (
            <div className="push">
              {sel !== null && (
                <button
                  type="button"
                  className="btn bare small"
                  onClick={() => set({ from: String(Math.round(sel[0])), until: String(Math.round(sel[1])), sel: "" })}
                >
                  Zoom to selection
                </button>
              )}
              <TableToggle />
              <div className="seg" role="group" aria-label="Kind of chart">
                {CHARTS.map(([one, text]) => (
                  <button key={one} type="button" aria-pressed={mode === one} onClick={() => set({ chart: one })}>
                    {text}
                  </button>
                ))}
              </div>
            </div>
          )}
        </header>
        {!typed && <p className="hint">With a profile type (the list “Profile” above), values over time are shown here.</p>}
        {typed && lines.isError && <Problem fault={lines.error} onRetry={() => void lines.refetch()} />}
        {typed && !lines.isError && (
          <div className={lines.isPlaceholderData ? "stale" : undefined}>
            {asTable ? (
              <TimesTable data={data} format={format} />
            ) : mode === "grid" ? (
              <Grid data={data} format={format} binary={unitOf(type) === "bytes"} label={rateTitle(type)} />
            ) : (
              <Chart
                data={data}
                selection={sel === null ? null : { from: sel[0], until: sel[1] }}
                options={{ height: 190, mode, format, binary: unitOf(type) === "bytes", label: `${rateTitle(type)} by ${by}` }}
                onSelect={(range, done) => {
                  if (done) set({ sel: formatSel(range === null ? null : [range.from, range.until]) });
                }}
              />
            )}
          </div>
        )}
        {values.isError ? (
          <Problem fault={values.error} onRetry={() => void values.refetch()} />
        ) : values.data === undefined ? (
          <Skeleton rows={6} />
        ) : (
          <ValuesTable
            answer={values.data}
            by={by}
            query={query}
            span={span}
            numbers={ofValue}
            colours={colours}
            stale={values.isPlaceholderData}
            onMore={
              values.data.next !== undefined && limit < VALUES_MAX
                ? () => set({ rowsMax: String(VALUES_MAX) }, { replace: true })
                : undefined
            }
          />
        )}
      </section>
    </>
  );
}

/* The greatest ones with colours, and the rest as one grey line, so that the sum is that of all. */
function seriesOf(lines: Lines, all: Lines | undefined, by: string, dark: boolean, level: boolean): Series[] {
  const series = lines.lines
    .slice(0, DRAWN)
    .map((line, place): Series => ({ name: line.labels[by] || `no ${by}`, values: line.values, ...styleOf(place, dark) }));
  const rest = lines.lines.length - series.length;
  const whole = all?.lines[0];
  /* Means do not add up, so those of levels have no rest. */
  if (rest <= 0 || level || whole === undefined) return series;
  if (whole.values.length !== lines.times.length) return series; /* of the range before */
  const values = whole.values.map((value, at) =>
    value === null ? null : Math.max(0, value - series.reduce((sum, one) => sum + (one.values[at] ?? 0), 0)),
  );
  return [...series, { name: "other", values, colour: OTHER_COLOUR[dark ? "dark" : "light"], dash: [1, 3], of: "other" }];
}

/* A small chart for each series, all with one scale. */
function Grid({ data, format, binary, label }: { data: ChartData; format: (value: number) => string; binary: boolean; label: string }) {
  const most = Math.max(...data.series.flatMap((one) => one.values.map((value) => value ?? 0)), 0) * 1.08 || null;
  return (
    <ul className="small-charts">
      {data.series.map((one) => (
        <li key={`${one.of ?? ""}${one.name}`}>
          <h3>
            <i className="key" style={{ background: one.colour }} />
            {one.name}
          </h3>
          <SmallChart
            data={data}
            series={one}
            options={{ height: 96, format, binary, most, selectable: false, label: `${label}: ${one.name}`, mode: "lines" }}
          />
        </li>
      ))}
    </ul>
  );
}

function SmallChart({ data, series, options }: { data: ChartData; series: Series; options: Parameters<typeof Chart>[0]["options"] }) {
  const own = useMemo(() => ({ ...data, series: [{ ...series, dash: [] }] }), [data, series]);
  return <Chart data={own} selection={null} options={options} />;
}

function ValuesTable({
  answer,
  by,
  query,
  span,
  numbers,
  colours,
  stale,
  onMore,
}: {
  answer: GrownValues;
  by: string;
  query: Query;
  span: Span;
  numbers: ReadonlyMap<string, ReturnType<typeof numbersOf>>;
  colours: ReadonlyMap<string, string>;
  stale: boolean;
  onMore: (() => void) | undefined;
}) {
  const { link, params } = useRoute();
  const { type } = query;
  const typed = type !== "";
  const unit: Unit = unitOf(type);
  /* Of what there is at a moment, sums over time say nothing. */
  const sums = typed && !isLevel(type);
  const rows = answer.values.filter((row) => row.series > 0);
  const only = (value: string, op: Matcher["op"] = "="): string => formatQuery(withMatcher(query, { name: by, op, value }));
  /* The side that is not set stays what it is, or is the whole selection. */
  const side = (name: "left" | "right", value: string): string => {
    const other = name === "left" ? "right" : "left";
    const whole = { query: params.query, span };
    const kept = params[`${other}Query`] === "" ? sidePatch(other, whole) : {};
    return link({ ...kept, ...sidePatch(name, { query: only(value), span }), sel: "" }, "/diff");
  };

  return (
    <Scroll label="Values" className={stale ? "stale" : ""}>
      <table className="values" aria-label={`Values of ${by}`}>
        <thead>
          <tr>
            <th scope="col">{by}</th>
            {typed && (
              <th scope="col" className="n">
                avg
              </th>
            )}
            {typed && (
              <th scope="col" className="n">
                max
              </th>
            )}
            {typed && (
              <th scope="col" className="n">
                std dev
              </th>
            )}
            {sums && (
              <th scope="col" className="n">
                total
              </th>
            )}
            {typed && (
              <th scope="col" className="n">
                share
              </th>
            )}
            <th scope="col" className="n">
              series
            </th>
            <th scope="col" className="n">
              new
            </th>
            <th scope="col" className="n">
              Actions
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const stats = numbers.get(row.value);
            const number = (of: "mean" | "max" | "deviation"): string =>
              stats === undefined || stats.count === 0 ? "–" : formatPoint(stats[of], type);
            const shown = row.value === "" ? `no ${by}` : row.value;
            return (
              <tr key={row.value}>
                <td className="value">
                  <i className="key" style={{ background: colours.get(row.value) ?? "transparent" }} />
                  {shown}
                </td>
                {typed && <td className="n">{number("mean")}</td>}
                {typed && <td className="n">{number("max")}</td>}
                {typed && <td className="n">{number("deviation")}</td>}
                {sums && <td className="n">{row.total === undefined ? "–" : formatValue(row.total, unit)}</td>}
                {typed && (
                  <td className="n share">
                    <span className="bar-of" style={{ width: `${(row.share ?? 0) * 100}%` }} />
                    <span className="text">{row.share === undefined ? "–" : formatShare(row.share)}</span>
                  </td>
                )}
                <td className="n">{formatCount(row.series)}</td>
                <td className="n">{row.series_new === undefined ? "–" : row.series_new === 0 ? "" : `+${formatCount(row.series_new)}`}</td>
                <td className="n actions">
                  <a href={link({ query: only(row.value), by: "" })} aria-label={`Filter by ${shown}`}>
                    Filter
                  </a>
                  <a href={link({ query: only(row.value, "!=") })} aria-label={`Exclude ${shown}`}>
                    Exclude
                  </a>
                  {typed && (
                    <a
                      href={link({ query: only(row.value), by: "", view: "", q: "", focus: "" }, "/")}
                      aria-label={`Flame graph of ${shown}`}
                    >
                      Flame graph
                    </a>
                  )}
                  {typed && (
                    <a href={side("left", row.value)} aria-label={`${shown} as baseline`}>
                      As baseline
                    </a>
                  )}
                  {typed && (
                    <a href={side("right", row.value)} aria-label={`${shown} as comparison`}>
                      As comparison
                    </a>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {rows.length === 0 && (
        <p className="table-foot" role="status">
          No series in this range has the label.
        </p>
      )}
      {onMore !== undefined && (
        <p className="table-foot">
          The first {formatCount(rows.length)} of {formatCount(answer.count)} values.{" "}
          <button type="button" className="link" onClick={onMore}>
            Load more
          </button>
        </p>
      )}
      {answer.truncated !== undefined && (
        <p className="table-foot">There is more than the server counts at once ({answer.truncated.setting}); more filters help.</p>
      )}
    </Scroll>
  );
}

/* How many series labels make: what a cluster's memory goes to. */
function Cardinality({ answer, query, by, stale }: { answer: GrownLabels; query: Query; by: string; stale: boolean }) {
  const { set, link } = useRoute();
  const [all, setAll] = useOpen("private");
  const rows = answer.labels.filter((row) => all || !row.name.startsWith("__"));
  const most = rows.reduce((max, row) => Math.max(max, row.values), 0);
  const grown = answer.before != null;
  const fresh = rows.reduce((sum, row) => Math.max(sum, row.series_new ?? 0), 0);

  return (
    <section className="card by-label" aria-label="Cardinality">
      <header>
        <h2>Cardinality</h2>
        <span className="note">
          {formatCount(answer.series)} series{query.type === "" && query.matchers.length === 0 ? "" : " of this selection"}
          {grown && fresh > 0 ? ` · +${formatCount(fresh)} against the time before` : ""}
        </span>
        <div className="push">
          <button type="button" className="btn bare small" aria-pressed={all} onClick={() => setAll(!all)}>
            {all ? "Without the server's own" : "The server's own labels, too"}
          </button>
          {(query.type !== "" || query.matchers.length > 0) && (
            <a className="btn small" href={link({ query: "", by: "" })}>
              All series
            </a>
          )}
        </div>
      </header>
      <Scroll label="Labels" className={stale ? "stale" : ""}>
        <table className="values" aria-label="Labels by number of values">
          <thead>
            <tr>
              <th scope="col">Label</th>
              <th scope="col" className="n">
                values
              </th>
              <th scope="col" className="n">
                {grown ? "new values" : ""}
              </th>
              <th scope="col" className="n">
                series with it
              </th>
              <th scope="col" className="n">
                {grown ? "new series" : ""}
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.name} className={row.name === by ? "hover" : undefined}>
                <td className="value">
                  <button type="button" className="link" onClick={() => set({ by: row.name })}>
                    {row.name}
                  </button>
                </td>
                <td className="n share">
                  <span className="bar-of" style={{ width: `${most > 0 ? (row.values / most) * 100 : 0}%` }} />
                  <span className="text">{formatCount(row.values)}</span>
                </td>
                <td className="n">{row.values_new ? `+${formatCount(row.values_new)}` : ""}</td>
                <td className="n">{formatCount(row.series)}</td>
                <td className="n">{row.series_new ? `+${formatCount(row.series_new)}` : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {answer.truncated !== undefined && (
          <p className="table-foot">There is more than the server counts at once ({answer.truncated.setting}); more filters help.</p>
        )}
      </Scroll>
    </section>
  );
}
