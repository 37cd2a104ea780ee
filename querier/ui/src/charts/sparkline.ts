/* A small line without axes, as the path of an SVG: its owner brings the element. */

/* The path of a line through values, from the left to the right of a box, 0 at the bottom. Gaps stay gaps. */
export function sparkline(values: readonly (number | null)[], width: number, height: number): { line: string; area: string } {
  let most = 0;
  for (const value of values) if (value !== null && value > most) most = value;
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  /* Half a pixel of room, so that a line at the edge is not cut. */
  const y = (value: number): number => height - 1 - (most > 0 ? (value / most) * (height - 2) : 0);
  let [line, area] = ["", ""];
  let start = -1;
  const at = (n: number): string => n.toFixed(1);
  for (let i = 0; i <= values.length; i++) {
    const value = i < values.length ? values[i]! : null;
    if (value !== null && start < 0) {
      start = i;
      line += `M${at(i * step)} ${at(y(value))}`;
      area += `M${at(i * step)} ${height}L${at(i * step)} ${at(y(value))}`;
    } else if (value !== null) {
      const point = `L${at(i * step)} ${at(y(value))}`;
      line += point;
      area += point;
    } else if (start >= 0) {
      /* One value alone is a point, which only a line of some length shows. */
      if (i - start === 1) line += "h1";
      area += `L${at((i - 1) * step)} ${height}Z`;
      start = -1;
    }
  }
  return { line, area };
}
