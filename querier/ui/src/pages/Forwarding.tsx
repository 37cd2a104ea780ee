/* What the server forwards to others, for whoever may see its settings: what is pending for each target, and why. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { ACTION, get, send } from "../api/client";
import { useSeesSettings } from "../api/who";
import { formatCount, formatValue } from "../flame/units";
import { useNow } from "../state/now";
import { useRoute } from "../state/route";
import { Ask } from "../ui/Ask";
import { DeadProfiles } from "../ui/DeadProfiles";
import { Row, type Target } from "../ui/ForwardTarget";
import { Problem } from "../ui/Problem";
import { ResendDialog } from "../ui/ResendDialog";
import { Scroll } from "../ui/Scroll";
import { toast } from "../ui/toast";
import { settingsOf } from "./ServerSettings";

const KEY = ["forward"];
const REFRESH_MS = 5000;

type Verb = "pause" | "resume" | "end-resend";

const DONE: Record<Verb, (name: string) => string> = {
  pause: (name) => `Nothing is sent to ${name} until it is resumed`,
  resume: (name) => `${name} is resumed`,
  "end-resend": (name) => `The resend to ${name} is stopped`,
};

export function Forwarding() {
  const sees = useSeesSettings();
  const settings = useQuery({ ...settingsOf(""), enabled: sees });
  const forwards = settings.data?.settings.some((one) => one.name === "forward.targets" && one.differs);
  return sees && forwards === true ? <Targets /> : null;
}

function Targets() {
  const { params, set } = useRoute();
  const { nowMs } = useNow();
  const client = useQueryClient();
  const targets = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => get<{ targets: Target[] }>("api/forward", {}, signal),
    refetchInterval: REFRESH_MS,
    meta: { quiet: true },
  });
  const change = useMutation({
    mutationFn: ({ name, verb }: { name: string; verb: Verb }) =>
      send(`api/forward/${encodeURIComponent(name)}/${verb}`, { method: "POST", headers: ACTION }),
    onSuccess: (_, { name, verb }) => toast(DONE[verb](name)),
    onSettled: () => client.invalidateQueries({ queryKey: KEY }),
  });
  const named = targets.data?.targets.find((one) => one.name === params.id);
  const close = (): void => set({ form: "", id: "" });
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
                <th scope="col" className="n">
                  Refused
                </th>
                <th scope="col">
                  <span className="hidden-text">Action</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {targets.data.targets.map((one) => (
                <Row
                  key={one.name}
                  target={one}
                  busy={change.isPending}
                  onChange={(verb) => change.mutate({ name: one.name, verb })}
                  onDead={() => set({ form: "refused", id: one.name })}
                  onDrop={() => set({ form: "drop", id: one.name })}
                  onResend={() => set({ form: "resend", id: one.name })}
                  onEndResend={() => change.mutate({ name: one.name, verb: "end-resend" })}
                />
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {named !== undefined && params.form === "refused" && <DeadProfiles target={named.name} onClose={close} />}
      {named !== undefined && params.form === "resend" && (
        <ResendDialog key={named.name} target={named.name} nowMs={nowMs} queryKey={KEY} onClose={close} />
      )}
      {named !== undefined && params.form === "drop" && <Drop target={named} onClose={close} />}
    </section>
  );
}

function Drop({ target, onClose }: { target: Target; onClose: () => void }) {
  const client = useQueryClient();
  const drop = useMutation({
    mutationFn: async () => {
      const answer = await send(`api/forward/${encodeURIComponent(target.name)}/drop`, { method: "POST", headers: ACTION });
      return (await answer.json()) as { droppedProfiles: number };
    },
    onSuccess: ({ droppedProfiles }) => {
      toast(`${formatCount(droppedProfiles)} ${droppedProfiles === 1 ? "profile" : "profiles"} will not be sent to ${target.name}`);
      onClose();
    },
    onSettled: () => client.invalidateQueries({ queryKey: KEY }),
  });
  return (
    <Ask
      title={`Drop what is pending for ${target.name}?`}
      action="Drop"
      danger
      change={drop}
      onSubmit={() => drop.mutate()}
      onClose={onClose}
    >
      <p>
        {formatCount(target.pendingProfiles)} {target.pendingProfiles === 1 ? "profile" : "profiles"} of{" "}
        {formatValue(target.pendingBytes, "bytes")} will never be sent to {target.url}. They stay in this server. What comes from now on is
        sent.
      </p>
    </Ask>
  );
}
