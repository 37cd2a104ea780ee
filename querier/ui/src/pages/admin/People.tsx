/* Who gets which role by the claims of an identity provider, and the end of sessions. */

import { useState } from "react";

import { type Binding, useBindings, useChange } from "../../api/admin";
import { useRights } from "../../api/who";
import { useRoute } from "../../state/route";
import { Skeleton } from "../../ui/Busy";
import { Icon } from "../../ui/Icon";
import { Problem } from "../../ui/Problem";
import { Scroll } from "../../ui/Scroll";
import { SearchField } from "../../ui/SearchField";
import { Ask } from "../../ui/Ask";
import { Field, Foot, Head, ROWS_MAX, Select, When, matches } from "./parts";

const ROLES = [
  ["viewer", "viewer: queries"],
  ["editor", "editor: also recording rules and shared profiles"],
  ["admin", "admin: also deletes profiles, makes tokens"],
  ["sender", "sender: pushes profiles"],
] as const;
const CLUSTER_ADMIN = ["cluster-admin", "cluster-admin: everything, in all tenants"] as const;

function Create({ bindings, onClose }: { bindings: readonly Binding[]; onClose: () => void }) {
  const { admin } = useRights();
  const [issuer, setIssuer] = useState(bindings[0]?.issuer ?? "");
  const [claim, setClaim] = useState("groups");
  const [value, setValue] = useState("");
  const [tenants, setTenants] = useState("");
  const [role, setRole] = useState("viewer");
  const change = useChange<Binding>((made) => `${made.value} is ${made.role} in ${made.tenants}`, onClose);
  const of = role === CLUSTER_ADMIN[0] ? "*" : tenants.trim();
  return (
    <Ask
      title="A new binding"
      action="Create"
      change={change}
      onClose={onClose}
      onSubmit={() =>
        change.mutate({
          method: "POST",
          path: "api/bindings",
          body: { issuer: issuer.trim(), claim: claim.trim(), value: value.trim(), tenants: of, role },
        })
      }
    >
      <Field
        label="Issuer"
        value={issuer}
        onChange={setIssuer}
        required
        placeholder="https://login.example.com/realms/main"
        choices={[...new Set(bindings.map((one) => one.issuer))]}
        hint="One of the setting access.issuers, exactly as there."
      />
      <Field
        label="Claim"
        value={claim}
        onChange={setClaim}
        required
        choices={["groups", "email", "sub"]}
        hint="A name, or a JSON pointer such as /realm_access/roles."
      />
      <Field label="Value" value={value} onChange={setValue} required placeholder="developers" hint={'"*" is any value.'} />
      <Select label="Role" value={role} onChange={setRole} options={admin ? [...ROLES, CLUSTER_ADMIN] : ROLES} />
      {role !== CLUSTER_ADMIN[0] && (
        <Field
          label="Tenants"
          value={tenants}
          onChange={setTenants}
          required
          placeholder={admin ? "team-*" : "shop"}
          hint={
            admin
              ? "A name, a pattern with * at its end, or with {value} for the value of the claim."
              : "The name of a tenant that you govern."
          }
        />
      )}
    </Ask>
  );
}

function Remove({ binding, onClose }: { binding: Binding; onClose: () => void }) {
  const change = useChange<{ id: string }>(() => "The binding is removed", onClose);
  return (
    <Ask
      title="Remove this binding?"
      action="Remove"
      danger
      change={change}
      onClose={onClose}
      onSubmit={() => change.mutate({ method: "DELETE", path: `api/bindings/${encodeURIComponent(binding.id)}` })}
    >
      <p>
        Whoever has {binding.claim} = {binding.value} is no {binding.role} in {binding.tenants} any more, from the next request on, unless
        another binding says so.
      </p>
    </Ask>
  );
}

function Sessions({ onClose }: { onClose: () => void }) {
  const [subject, setSubject] = useState("");
  const change = useChange<{ subject: string }>((done) => `All sessions of ${done.subject} have ended`, onClose);
  return (
    <Ask
      title="End sessions"
      action="End all of them"
      danger
      change={change}
      onClose={onClose}
      onSubmit={() => change.mutate({ method: "POST", path: "api/sessions:revoke", body: { subject: subject.trim() } })}
    >
      <p>
        All sessions of a person that began until now end on all servers within seconds. The person can log in again; to prevent that,
        remove the bindings or close the account at the provider.
      </p>
      <Field label="Subject" value={subject} onChange={setSubject} required hint="The claim sub of the person; the audit has it." />
    </Ask>
  );
}

export function People() {
  const { params, set } = useRoute();
  const { admin, governs } = useRights();
  const bindings = useBindings();
  const all = bindings.data?.bindings ?? [];
  const found = all.filter((one) => matches(params.q, one.issuer, one.claim, one.value, one.tenants, one.role));
  const one = all.find((binding) => binding.id === params.id);
  const close = (): void => set({ form: "", id: "" });
  return (
    <>
      <Head title="People">
        <SearchField label="Search bindings" value={params.q} onChange={(q) => set({ q }, { replace: true })} />
        {admin && (
          <button type="button" className="btn small danger" onClick={() => set({ form: "sessions" })}>
            End sessions
          </button>
        )}
        {governs && (
          <button type="button" className="btn main small" onClick={() => set({ form: "create" })}>
            <Icon name="plus" />
            New binding
          </button>
        )}
      </Head>
      <section className="card" aria-label="Bindings">
        <header>
          <h2>Bindings</h2>
          <span className="note">
            Who has a value of a claim has a role in tenants. Those of the setting access.bindings count as well.
          </span>
        </header>
        {bindings.isError && <Problem fault={bindings.error} onRetry={() => void bindings.refetch()} />}
        {bindings.data === undefined && !bindings.isError && <Skeleton rows={6} />}
        {bindings.data !== undefined && (
          <>
            <Scroll label="Bindings">
              <table className="plain admin">
                <thead>
                  <tr>
                    <th scope="col">Value</th>
                    <th scope="col">Claim</th>
                    <th scope="col">Role</th>
                    <th scope="col">Tenants</th>
                    <th scope="col">Issuer</th>
                    <th scope="col">Made</th>
                    <td />
                  </tr>
                </thead>
                <tbody>
                  {found.slice(0, ROWS_MAX).map((binding) => (
                    <tr key={binding.id}>
                      <th scope="row">{binding.value}</th>
                      <td>
                        <code>{binding.claim}</code>
                      </td>
                      <td>{binding.role}</td>
                      <td>{binding.tenants}</td>
                      <td>{binding.issuer}</td>
                      <td>
                        <When ms={binding.createdMs} />
                        <small>by {binding.createdBy || "nobody known"}</small>
                      </td>
                      <td>
                        <div className="actions">
                          <button type="button" className="btn small danger" onClick={() => set({ form: "remove", id: binding.id })}>
                            Remove
                            <span className="hidden-text">
                              {" "}
                              {binding.value} as {binding.role} in {binding.tenants}
                            </span>
                          </button>
                        </div>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
            <Foot count={found.length} none={all.length === 0 ? "There is no binding that you govern." : "No binding is like that."} />
          </>
        )}
      </section>
      {governs && bindings.data !== undefined && params.form === "create" && <Create bindings={all} onClose={close} />}
      {admin && params.form === "sessions" && <Sessions onClose={close} />}
      {one !== undefined && params.form === "remove" && <Remove binding={one} onClose={close} />}
    </>
  );
}
