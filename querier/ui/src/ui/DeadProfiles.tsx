/* Profiles that a target of forwarding has refused for good, with its reasons, in a dialog. */

import { useInfiniteQuery } from "@tanstack/react-query";

import { get } from "../api/client";
import { formatValue } from "../flame/units";
import { dateTime } from "../state/range";
import { formatSelector } from "../state/selector";
import { useSettings } from "../state/settings";
import { Skeleton } from "./Busy";
import { Dialog } from "./Dialog";
import { Problem } from "./Problem";
import { Scroll } from "./Scroll";

/* What the server no longer knows of a profile is not there. */
export interface Dead {
  number: number;
  refusedMs: number;
  reason: string;
  profileId?: string;
  profileTimeMs?: number;
  bytes?: number;
  tenant?: string;
  labels?: Record<string, string>;
}

export function DeadRow({ dead, utc }: { dead: Dead; utc: boolean }) {
  const labels = Object.entries(dead.labels ?? {}).map(([name, value]) => ({ name, op: "=" as const, value }));
  return (
    <tr>
      <td className="when">{dateTime(dead.refusedMs, utc)}</td>
      <td>
        <span className="err">{dead.reason}</span>
        <br />
        {labels.length > 0 ? <code>{formatSelector(labels)}</code> : "of a series that this server no longer knows"}
        <br />
        <small>
          {dead.profileTimeMs === undefined ? "" : `of ${dateTime(dead.profileTimeMs, utc)}, `}
          {dead.profileId === undefined ? "not readable" : `id ${dead.profileId}`}
        </small>
      </td>
      <td>{dead.tenant ?? "–"}</td>
      <td className="n">{dead.bytes === undefined ? "–" : formatValue(dead.bytes, "bytes")}</td>
    </tr>
  );
}

export function DeadProfiles({ target, onClose }: { target: string; onClose: () => void }) {
  const { utc } = useSettings();
  const pages = useInfiniteQuery({
    queryKey: ["forward", "dead", target],
    queryFn: ({ pageParam, signal }) =>
      get<{ dead: Dead[]; next?: number }>(`api/forward/${encodeURIComponent(target)}/dead`, { from: pageParam }, signal),
    initialPageParam: 0,
    getNextPageParam: (last) => last.next,
    meta: { quiet: true },
  });
  const all = pages.data?.pages.flatMap((page) => page.dead) ?? [];
  return (
    <Dialog title={`Refused by ${target}`} open onClose={onClose}>
      <p className="note">
        The target will not take these profiles, so they are not sent again. They stay in this server. The list keeps them for 24 hours.
      </p>
      {pages.isError && <Problem fault={pages.error} onRetry={() => void pages.refetch()} />}
      {pages.isPending && <Skeleton rows={4} />}
      {pages.data !== undefined && all.length === 0 && <p>The target has refused nothing for good.</p>}
      {all.length > 0 && (
        <Scroll label="Refused profiles">
          <table className="plain dead">
            <thead>
              <tr>
                <th scope="col">Refused</th>
                <th scope="col">Reason and profile</th>
                <th scope="col">Tenant</th>
                <th scope="col" className="n">
                  Size
                </th>
              </tr>
            </thead>
            <tbody>
              {all.map((one) => (
                <DeadRow key={one.number} dead={one} utc={utc} />
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {pages.hasNextPage && (
        <button type="button" className="btn" disabled={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
          Load more
        </button>
      )}
    </Dialog>
  );
}
