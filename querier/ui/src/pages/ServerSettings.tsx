/*
 * The members of the cluster with their versions, and the settings in force of each and of the program that serves the page, for
 * whoever may see them: what differs from the defaults first. Ingesters are asked; the others say in the bucket that they are there.
 */

import { useQueries, useQuery } from "@tanstack/react-query";

import { get } from "../api/client";
import { useSeesSettings } from "../api/who";
import { formatCount } from "../flame/units";
import { dateTime } from "../state/range";
import { useRoute } from "../state/route";
import { useSettings } from "../state/settings";
import { Skeleton } from "../ui/Busy";
import { Icon } from "../ui/Icon";
import { Menu } from "../ui/Menu";
import { Problem } from "../ui/Problem";
import { Scroll } from "../ui/Scroll";
import { SearchField } from "../ui/SearchField";
import { withCode } from "../ui/withCode";

interface Setting {
  name: string;
  value: string;
  default: string;
  differs: boolean;
  meaning: string;
}

interface Member {
  name: string;
  role: string;
  version?: string;
  revision?: string;
  startedMs?: number;
  seenMs?: number; // when it last said that it is there; ingesters are asked
}

interface Answer {
  program: string;
  version?: string; // an older ingester does not say it
  revision?: string;
  startedMs?: number;
  settings: Setting[];
  members?: Member[];
  membersMissing?: string; // why only ingesters are there
}

/* So many ingesters are asked unasked, to name those that do not answer; of more than that, the chosen one is. */
const ASKED_MAX = 32;

/* member "": the program that serves the page. */
export function settingsOf(member: string) {
  return {
    queryKey: ["server settings", member],
    queryFn: ({ signal }: { signal: AbortSignal }) => get<Answer>("api/settings", { member }, signal),
    staleTime: Infinity, // they change with a restart
    retry: false,
    meta: { quiet: true },
  };
}

export function ServerSettings() {
  return useSeesSettings() ? <Settings /> : null;
}

function Settings() {
  const { params, set } = useRoute();
  const { utc } = useSettings();
  const own = useQuery(settingsOf(""));
  const listed = own.data?.members ?? [];
  const settings = useQuery(settingsOf(params.member));
  const ingesters = listed.filter((one) => one.role === "ingester").slice(0, ASKED_MAX);
  const asked = useQueries({ queries: ingesters.map((one) => settingsOf(one.name)) });
  const silent = asked.flatMap((one, at) =>
    one.isError ? [{ name: ingesters[at]!.name, why: one.error.message, retry: one.refetch }] : [],
  );
  const members = listed.map((one): Member => {
    const said = asked[ingesters.indexOf(one)]?.data;
    return said === undefined ? one : { ...said, name: one.name, role: one.role };
  });
  const all = settings.data?.settings ?? [];
  const words = params.q.toLowerCase().split(/\s+/);
  const found = all.filter(
    (one) =>
      (params.show === "all" || one.differs) &&
      words.every((word) => `${one.name} ${one.value} ${one.meaning}`.toLowerCase().includes(word)),
  );
  return (
    <>
      {members.length > 0 && <Members members={members} silent={silent.map((one) => one.name)} missing={own.data?.membersMissing} />}
      <section className="card" aria-label="Settings">
        <header>
          <h2>Settings</h2>
          {settings.data !== undefined && (
            <span className="note">
              of {settings.data.program}
              {settings.data.startedMs === undefined ? "" : `, up since ${dateTime(settings.data.startedMs, utc)}`};{" "}
              {formatCount(all.filter((one) => one.differs).length)} of {formatCount(all.length)} differ from the default
            </span>
          )}
          <div className="push settings-filter">
            {members.length > 0 && (
              <Menu
                className="btn small"
                trigger={
                  <>
                    <span className="hidden-text">Settings of: </span>
                    {params.member === "" ? "This program" : shortName(params.member)}
                    <Icon name="down" size={13} />
                  </>
                }
                entries={[{ name: "", role: "" }, ...members].map(({ name, role }) => ({
                  key: name,
                  text: name === "" ? "This program" : shortName(name),
                  hint: silent.some((one) => one.name === name) ? "does not answer" : role,
                  on: params.member === name,
                  run: () => set({ member: name }),
                }))}
              />
            )}
            <label>
              <input
                type="checkbox"
                checked={params.show === "all"}
                onChange={(event) => set({ show: event.target.checked ? "all" : "" })}
              />
              also those at their default
            </label>
            <SearchField label="Search settings" value={params.q} onChange={(q) => set({ q }, { replace: true })} />
          </div>
        </header>
        {silent.length > 0 && (
          <div className="strip" role="status">
            <Icon name="warn" />
            <span>
              <b>Without answer:</b> {silent.map((one) => `${one.name} (${one.why})`).join(", ")}
            </span>
            <button type="button" className="btn small" onClick={() => silent.forEach((one) => void one.retry())}>
              Ask again
            </button>
          </div>
        )}
        {settings.isError && <Problem fault={settings.error} onRetry={() => void settings.refetch()} />}
        {settings.isPending && <Skeleton rows={6} />}
        {settings.data !== undefined && (
          <>
            <Scroll label="Settings">
              <table className="plain settings-in-force">
                <thead>
                  <tr>
                    <th scope="col">Setting</th>
                    <th scope="col">Value</th>
                    <th scope="col">Default</th>
                    <th scope="col">Meaning</th>
                  </tr>
                </thead>
                <tbody>
                  {found.map((one) => (
                    <tr key={one.name}>
                      <td>
                        <code>{one.name}</code>
                      </td>
                      <td>
                        <code>{one.value || "–"}</code>
                      </td>
                      <td>
                        <code>{one.default || "–"}</code>
                      </td>
                      <td className="meaning">{withCode(one.meaning)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
            {found.length === 0 && (
              <p className="table-foot">
                {params.show === "all"
                  ? "No setting is like that."
                  : "None that differs from its default is like that; the switch above shows the others."}
              </p>
            )}
          </>
        )}
      </section>
    </>
  );
}

/* Without its role, which stands next to it. */
function shortName(name: string): string {
  return name.slice(name.indexOf("/") + 1);
}

/* Versions that are not the newest are marked: a cluster in the middle of an update, or a member that was forgotten. */
function Members({ members, silent, missing }: { members: Member[]; silent: string[]; missing: string | undefined }) {
  const { set } = useRoute();
  const { utc } = useSettings();
  const built = (one: Member): string => [one.version, one.revision].filter(Boolean).join(" ");
  const started = Math.max(...members.map((one) => one.startedMs ?? 0));
  const newest = members.find((one) => one.startedMs === started);
  const versions = new Set(members.map(built).filter((one) => one !== ""));
  return (
    <section className="card" aria-label="Members">
      <header>
        <h2>Members</h2>
        <span className="note">
          {formatCount(members.length)} {members.length === 1 ? "process" : "processes"}
        </span>
        {versions.size > 1 && <span className="warn">{versions.size} versions run</span>}
      </header>
      {missing !== undefined && (
        <div className="strip" role="status">
          <Icon name="warn" />
          <span>
            <b>Only ingesters are listed:</b> {missing}
          </span>
        </div>
      )}
      <Scroll label="Members">
        <table className="plain">
          <thead>
            <tr>
              <th scope="col">Member</th>
              <th scope="col">Role</th>
              <th scope="col">Version</th>
              <th scope="col">Started</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>
            {members.map((one) => (
              <tr key={one.name}>
                <td>
                  <button type="button" className="link" title="Show its settings" onClick={() => set({ member: one.name })}>
                    {shortName(one.name)}
                  </button>
                </td>
                <td>{one.role}</td>
                <td className={versions.size > 1 && newest !== undefined && built(one) !== built(newest) ? "warn" : undefined}>
                  {one.version ?? "–"} <small>{one.revision}</small>
                </td>
                <td>{one.startedMs === undefined ? "–" : dateTime(one.startedMs, utc)}</td>
                <td className={silent.includes(one.name) ? "warn" : "ok"}>
                  {silent.includes(one.name)
                    ? "does not answer"
                    : one.seenMs === undefined
                      ? one.startedMs === undefined
                        ? "–"
                        : "answers"
                      : `seen ${dateTime(one.seenMs, utc)}`}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
