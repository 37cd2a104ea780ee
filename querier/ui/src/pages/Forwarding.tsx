/* What the server forwards to others, for whoever may see its settings: what is pending for each target, and why. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { ACTION, get, send } from "../api/client";
import { useSeesSettings } from "../api/who";
import { Row, type Target } from "../ui/ForwardTarget";
import { Problem } from "../ui/Problem";
import { Scroll } from "../ui/Scroll";
import { toast } from "../ui/toast";
import { settingsOf } from "./ServerSettings";

const KEY = ["forward"];
const REFRESH_MS = 5000;

export function Forwarding() {
  const sees = useSeesSettings();
  const settings = useQuery({ ...settingsOf(""), enabled: sees });
  const forwards = settings.data?.settings.some((one) => one.name === "forward.targets" && one.differs);
  return sees && forwards === true ? <Targets /> : null;
}

function Targets() {
  const client = useQueryClient();
  const targets = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => get<{ targets: Target[] }>("api/forward", {}, signal),
    refetchInterval: REFRESH_MS,
    meta: { quiet: true },
  });
  const change = useMutation({
    mutationFn: ({ name, verb }: { name: string; verb: "pause" | "resume" }) =>
      send(`api/forward/${encodeURIComponent(name)}/${verb}`, { method: "POST", headers: ACTION }),
    onSuccess: (_, { name, verb }) => toast(verb === "pause" ? `Nothing is sent to ${name} until it is resumed` : `${name} is resumed`),
    onSettled: () => client.invalidateQueries({ queryKey: KEY }),
  });
  return (
    <section className="card" aria-label="Forwarding">
      <header>
        <h2>Forwarding</h2>
      </header>
      {targets.isError && targets.data === undefined && <Problem fault={targets.error} onRetry={() => void targets.refetch()} />}
      {change.isError && <Problem fault={change.error} />}
      {targets.data !== undefined && (
        <Scroll label="Targets of forwarding">
          <table className="plain">
            <thead>
              <tr>
                <th scope="col">Target</th>
                <th scope="col">State</th>
                <th scope="col" className="n">
                  Pending
                </th>
                <th scope="col" className="n">
                  Of the queue
                </th>
                <th scope="col" className="n">
                  Oldest
                </th>
                <th scope="col" className="n">
                  Sent
                </th>
                <th scope="col" className="n">
                  Dropped
                </th>
                <th scope="col">
                  <span className="hidden-text">Action</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {targets.data.targets.map((one) => (
                <Row key={one.name} target={one} busy={change.isPending} onChange={(verb) => change.mutate({ name: one.name, verb })} />
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </section>
  );
}
