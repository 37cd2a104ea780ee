/* The settings in force of the program that serves the page, for whoever may see them: what differs from the defaults first. */

import { useQuery } from "@tanstack/react-query";

import { get } from "../api/client";
import { useSeesSettings } from "../api/who";
import { formatCount } from "../flame/units";
import { useRoute } from "../state/route";
import { Skeleton } from "../ui/Busy";
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

export function ServerSettings() {
  return useSeesSettings() ? <Settings /> : null;
}

function Settings() {
  const { params, set } = useRoute();
  const settings = useQuery({
    queryKey: ["server settings"],
    queryFn: ({ signal }) => get<{ program: string; settings: Setting[] }>("api/settings", {}, signal),
    staleTime: Infinity, // they change with a restart
    meta: { quiet: true },
  });
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
          <label>
            <input type="checkbox" checked={params.show === "all"} onChange={(event) => set({ show: event.target.checked ? "all" : "" })} />
            also those at their default
          </label>
          <SearchField label="Search settings" value={params.q} onChange={(q) => set({ q }, { replace: true })} />
        </div>
      </header>
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
  );
}
