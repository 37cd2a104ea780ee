/* What the answer is worth, in one line; a click shows what it was made from. */

import * as Popover from "@radix-ui/react-popover";
import type { ReactNode } from "react";
import { Link } from "wouter";

import type { Statistics } from "../api/types";
import { formatCount, formatValue, unitOf } from "../flame/units";
import { dateTime } from "../state/range";
import { useRoute } from "../state/route";
import { useSettings } from "../state/settings";
import { boundOf, worthOf } from "../state/worth";
import { Icon } from "./Icon";

function rows(statistics: Statistics, utc: boolean): [string, string][] {
  const unit = unitOf(statistics.unit ?? "");
  const bound = boundOf(statistics);
  const out: [string, string][] = [
    ["Complete", statistics.complete ? "yes" : `no: ${statistics.missing ?? "something did not answer"}`],
    ["Exact", statistics.exact ? "yes" : bound === null ? "no: a sum is too large" : `each bar to ${formatValue(bound, unit)}`],
    ["Profiles", formatCount(statistics.profiles)],
    ["Series", formatCount(statistics.series)],
    ["Read", formatValue(statistics.bytes, "bytes")],
  ];
  if (statistics.rollups) out.push(["Rollups", formatCount(statistics.rollups)]);
  if (statistics.objects !== undefined) out.push(["Objects of the bucket", formatCount(statistics.objects)]);
  if (statistics.requests !== undefined) out.push(["Requests to the bucket", formatCount(statistics.requests)]);
  if (statistics.cache_hits !== undefined) out.push(["From memory", formatCount(statistics.cache_hits)]);
  if (statistics.disk_hits !== undefined) out.push(["From disk", formatCount(statistics.disk_hits)]);
  for (const range of statistics.ranges ?? []) out.push(["Answers for", `${dateTime(range.from, utc)} – ${dateTime(range.until, utc)}`]);
  out.push(["Time", `${formatCount(statistics.millis)} ms`]);
  return out;
}

/* Said wherever there are bars that are not exact; the table always is. */
export function Bound({ statistics }: { statistics: Statistics | undefined }) {
  const bound = boundOf(statistics);
  if (bound === null) return null;
  return (
    <span title="The flame graph was cut to its node limit where the data are: a bar may be too small by this, its parent's “other” too large">
      bars exact to <b>{formatValue(bound, unitOf(statistics!.unit ?? ""))}</b>
    </span>
  );
}

function verdict(statistics: Statistics): string {
  if (statistics.saturated === true) return "too large";
  if (!statistics.complete) return "partial";
  return statistics.exact ? "complete" : "complete, nearly exact";
}

export function Summary({ children, statistics, loading }: { children: ReactNode; statistics: Statistics | undefined; loading: boolean }) {
  const { utc } = useSettings();
  return (
    <div className="summary" role="group" aria-label="Summary">
      {children}
      <Bound statistics={statistics} />
      {statistics !== undefined && (
        <Popover.Root>
          <Popover.Trigger
            className={`btn bare small state ${loading ? "" : statistics.complete && statistics.saturated !== true ? "ok" : "warn"}`}
            title="What the answer was made from"
          >
            <span className="dot" />
            {loading ? "loading …" : `${verdict(statistics)} in ${formatCount(Math.max(1, Math.round(statistics.millis)))} ms`}
          </Popover.Trigger>
          <Popover.Portal>
            <Popover.Content
              className="floating"
              align="end"
              sideOffset={6}
              collisionPadding={8}
              aria-label="What the answer was made from"
            >
              <table>
                <tbody>
                  {rows(statistics, utc).map(([name, text]) => (
                    <tr key={name}>
                      <td>{name}</td>
                      <td className="n">{text}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Popover.Content>
          </Popover.Portal>
        </Popover.Root>
      )}
    </div>
  );
}

/* What is wrong with the answers of a page, if anything is. */
export function WorthStrip({ answers }: { answers: readonly (Statistics | null | undefined)[] }) {
  const { path } = useRoute();
  const { missing, saturated } = worthOf(answers);
  return (
    <>
      {missing.length > 0 && (
        <div className="strip" role="status">
          <Icon name="warn" />
          <span>
            <b>Partial answer.</b> {missing.join("; ")}; totals may be low. {path !== "/embed" && <Link href="/status">Status</Link>}
          </span>
        </div>
      )}
      {saturated && (
        <div className="strip" role="status">
          <Icon name="warn" />
          <span>
            <b>Too large a sum.</b> It does not fit into 64 bits and is shown as 2⁶³ − 1, so values and shares are too low. A shorter range
            or more filters have sums that fit.
          </span>
        </div>
      )}
    </>
  );
}
