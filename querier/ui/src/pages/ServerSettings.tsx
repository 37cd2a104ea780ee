/*
 * The settings in force of the program that serves the page and of the ingesters, for whoever may see them: what differs from the
 * defaults first. Distributors and compactors take no calls.
 */

import { useQueries, useQuery } from "@tanstack/react-query";

import { get } from "../api/client";
import { useSeesSettings } from "../api/who";
import { formatCount } from "../flame/units";
import { useRoute } from "../state/route";
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

interface Answer {
  program: string;
  settings: Setting[];
  members?: string[]; // of the ring
}

/* So many members are asked unasked, to name those that do not answer; of more than that, the chosen one is. */
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
  const own = useQuery(settingsOf(""));
  const members = own.data?.members ?? [];
  const settings = useQuery(settingsOf(params.member));
  const asked = useQueries({ queries: members.slice(0, ASKED_MAX).map(settingsOf) });
  const silent = asked.flatMap((one, at) => (one.isError ? [{ name: members[at]!, why: one.error.message, retry: one.refetch }] : []));
  const all = settings.data?.settings ?? [];
  const words = params.q.toLowerCase().split(/\s+/);
  const found = all.filter(
    (one) =>
      (params.show === "all" || one.differs) &&
      words.every((word) => `${one.name} ${one.value} ${one.meaning}`.toLowerCase().includes(word)),
  );
  return (
    <section className="card" aria-label="Settings">
      <header>
        <h2>Settings</h2>
        {settings.data !== undefined && (
          <span className="note">
            of {settings.data.program}; {formatCount(all.filter((one) => one.differs).length)} of {formatCount(all.length)} differ from the
            default
          </span>
        )}
        <div className="push settings-filter">
          {members.length > 0 && (
            <Menu
              className="btn small"
              trigger={
                <>
                  <span className="hidden-text">Settings of: </span>
                  {params.member === "" ? "This program" : params.member}
                  <Icon name="down" size={13} />
                </>
              }
              entries={["", ...members].map((name) => ({
                key: name,
                text: name === "" ? "This program" : name,
                hint: name === "" ? "" : silent.some((one) => one.name === name) ? "does not answer" : "ingester",
                on: params.member === name,
                run: () => set({ member: name }),
              }))}
            />
          )}
          <label>
            <input type="checkbox" checked={params.show === "all"} onChange={(event) => set({ show: event.target.checked ? "all" : "" })} />
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
          {members.length > 0 && (
            <p className="table-foot">
              Distributors and compactors take no calls: <code>GET /config</code> at their <code>admin_listen</code> has theirs.
            </p>
          )}
        </>
      )}
    </section>
  );
}
