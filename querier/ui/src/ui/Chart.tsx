/* The chart of src/charts as a component, and its equal for those who cannot see it: a table of its values. */

import { useEffect, useMemo, useRef } from "react";

import { type ChartCallbacks, type ChartData, type ChartOptions, type Range, TimeSeriesChart, chartRows } from "../charts/timeseries";
import { useRoute } from "../state/route";
import { useDark, useSettings } from "../state/settings";

interface Props extends ChartCallbacks {
  data: ChartData;
  options: Partial<Omit<ChartOptions, "dark" | "utc">>;
  selection: Range | null;
}

export function Chart({ data, options, selection, ...callbacks }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<TimeSeriesChart | null>(null);
  const latest = useRef(callbacks);
  const dark = useDark();
  const { utc } = useSettings();
  const { mode, height, format, binary, label, colour, selectable, marks, most } = options;
  latest.current = callbacks;

  useEffect(() => {
    const made = new TimeSeriesChart(
      box.current!,
      { dark, utc, ...options },
      {
        onSelect: (range, done) => latest.current.onSelect?.(range, done),
        onHover: (time) => latest.current.onHover?.(time),
      },
    );
    chart.current = made;
    return () => made.destroy();
    // One chart for the life of the component; what changes is set below.
  }, []);
  useEffect(() => {
    const given = Object.entries({ mode, height, format, binary, label, colour, selectable, marks, most }).filter(
      ([, value]) => value !== undefined,
    );
    chart.current!.setOptions({ dark, utc, ...Object.fromEntries(given) });
  }, [dark, utc, mode, height, format, binary, label, colour, selectable, marks, most]);
  useEffect(() => chart.current!.setData(data), [data]);
  const { from, until } = selection ?? { from: null, until: null };
  useEffect(() => chart.current!.setSelection(from === null ? null : { from, until }), [from, until]);

  return <div ref={box} className="plot" style={height === undefined ? undefined : { height }} />;
}

/* Whether charts over time are tables, by the button below. */
export function useAsTable(): boolean {
  return useRoute().params.times === "table";
}

export function TableToggle() {
  const { set } = useRoute();
  const on = useAsTable();
  return (
    <button type="button" className="btn bare small" onClick={() => set({ times: on ? "" : "table" }, { replace: true })}>
      {on ? "View as chart" : "View as table"}
    </button>
  );
}

export function TimesTable({ data, format }: { data: ChartData; format: (value: number) => string }) {
  const { utc } = useSettings();
  const { head, rows } = useMemo(() => chartRows(data, { utc, format }), [data, utc, format]);
  return (
    <div className="times" tabIndex={0} role="region" aria-label="Values over time">
      <table>
        <thead>
          <tr>
            {head.map((text, at) => (
              <th key={at} scope="col" className={at > 0 ? "n" : undefined}>
                {text}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row[0]}>
              {row.map((text, at) => (
                <td key={at} className={at > 0 ? "n" : undefined}>
                  {text}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
