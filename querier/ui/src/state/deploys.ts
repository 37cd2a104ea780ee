/* Deploys, as profiles tell them: a value of a label for versions appears. */

import type { Mark } from "../charts/timeseries";
import type { Lines } from "../api/queries";

/* What agents and collectors call a version, the most exact first. */
const LABELS = ["service_git_ref", "version", "service_version", "app_version", "release", "commit", "image_tag"];
const VALUES_MAX = 20; // more are no deploys that one could look at
const AT_ONCE = 2; // steps: versions that begin together were there before, or all is new

export function isVersionLabel(name: string): boolean {
  return LABELS.includes(name);
}

/* Which label tells deploys of a selection; "": none does. */
export function deployLabel(labels: readonly { name: string; values: number }[]): string {
  return LABELS.find((name) => labels.some((label) => label.name === name && label.values > 1 && label.values <= VALUES_MAX)) ?? "";
}

/* lines: split by that label. */
export function deploys(lines: Lines, label: string): Mark[] {
  const begins = lines.lines
    .map((line) => ({ first: line.values.findIndex((value) => value !== null && value > 0), version: line.labels[label] ?? "" }))
    .filter(({ first }) => first >= 0)
    .sort((a, b) => a.first - b.first);
  return begins
    .filter(({ first }) => first >= begins[0]!.first + AT_ONCE)
    .map(({ first, version }) => ({ time: lines.times[first]!, title: `${label} ${version}`, kind: "deploy" }));
}
