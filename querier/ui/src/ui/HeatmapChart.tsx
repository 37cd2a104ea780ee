/* The heat map of src/charts as a component. */

import { useEffect, useRef } from "react";

import { type Box, Heatmap, type HeatmapCallbacks, type HeatmapData, type HeatmapOptions } from "../charts/heatmap";
import { useDark, useSettings } from "../state/settings";

interface Props extends HeatmapCallbacks {
  data: HeatmapData;
  options: Omit<HeatmapOptions, "dark" | "utc">;
  box: Box | null;
}

export function HeatmapChart({ data, options, box, ...callbacks }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<Heatmap | null>(null);
  const latest = useRef(callbacks);
  const dark = useDark();
  const { utc } = useSettings();
  const { height, format, label, noun, binary } = options;
  latest.current = callbacks;

  useEffect(() => {
    const made = new Heatmap(
      place.current!,
      { dark, utc, ...options },
      {
        onBox: (picked) => latest.current.onBox?.(picked),
        onExemplar: (exemplar) => latest.current.onExemplar?.(exemplar),
      },
    );
    chart.current = made;
    return () => made.destroy();
    // One chart for the life of the component; what changes is set below.
  }, []);
  useEffect(
    () => chart.current!.setOptions({ dark, utc, height, format, label, noun, binary }),
    [dark, utc, height, format, label, noun, binary],
  );
  useEffect(() => chart.current!.setData(data), [data, label, noun]);
  useEffect(() => chart.current!.setBox(box), [box, data]);

  return <div ref={place} style={{ height }} />;
}
