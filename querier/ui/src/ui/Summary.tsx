/* What the answer is worth, in one line; a click shows what it was made from. */

import * as Popover from "@radix-ui/react-popover";
import type { ReactNode } from "react";

import type { Statistics } from "../api/types";
import { formatCount, formatValue, unitOf } from "../flame/units";
import { dateTime } from "../state/range";
import { useSettings } from "../state/settings";
import { Icon } from "./Icon";

function rows(statistics: Statistics, utc: boolean): [string, string][] {
  const unit = unitOf(statistics.unit ?? "");
  const out: [string, string][] = [
    ["Complete", statistics.complete ? "yes" : `no: ${statistics.missing ?? "something did not answer"}`],
    ["Exact", statistics.exact ? "yes" : `each bar to ${formatValue(statistics.bound ?? 0, unit)}`],
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

export function Summary({ children, statistics, loading }: { children: ReactNode; statistics: Statistics | undefined; loading: boolean }) {
  const { utc } = useSettings();
  return (
    <div className="summary" role="group" aria-label="Summary">
      {children}
      {statistics !== undefined && (
        <Popover.Root>
          <Popover.Trigger
            className={`btn bare small state ${loading ? "" : statistics.complete ? "ok" : "warn"}`}
            title="What the answer was made from"
          >
            <span className="dot" />
            {loading
              ? "loading …"
              : `${statistics.complete ? (statistics.exact ? "complete" : "complete, nearly exact") : "partial"} in ${formatCount(Math.max(1, Math.round(statistics.millis)))} ms`}
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

export function PartialStrip({ statistics }: { statistics: Statistics | undefined }) {
  if (statistics === undefined || statistics.complete) return null;
  return (
    <div className="strip" role="status">
      <Icon name="warn" />
      <span>
        <b>Partial answer.</b> {statistics.missing ?? "Some ingesters did not answer"}; totals may be low.
      </span>
    </div>
  );
}
