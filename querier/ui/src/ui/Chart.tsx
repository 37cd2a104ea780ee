/* The chart of src/charts as a component. */

import { useEffect, useRef } from "react";

import { type ChartCallbacks, type ChartData, type ChartOptions, type Range, TimeSeriesChart } from "../charts/timeseries";
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
