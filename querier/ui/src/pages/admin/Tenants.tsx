/* Tenants: a list, and one of them with its limits and where each value comes from. */

import { type ReactNode, useState } from "react";
import { Link } from "wouter";

import {
  type Deletion,
  type Limit,
  type Limits,
  type Tenant,
  tenantPath,
  usedShare,
  useChange,
  useLimits,
  useTenants,
} from "../../api/admin";
import { useRights } from "../../api/who";
import { formatCount, formatShare, formatValue } from "../../flame/units";
import { useElsewhere } from "../../state/elsewhere";
import { useRoute } from "../../state/route";
import { Skeleton } from "../../ui/Busy";
import { Icon } from "../../ui/Icon";
import { Problem } from "../../ui/Problem";
import { Scroll } from "../../ui/Scroll";
import { SearchField } from "../../ui/SearchField";
import { Ask, NOT_VALID } from "../../ui/Ask";
import { Field, Foot, Head, ROWS_MAX, State, When, matches } from "./parts";

function Create({ onClose }: { onClose: () => void }) {
  const { set } = useRoute();
  const [id, setId] = useState("");
  const change = useChange<Tenant>(
    (made) => `Tenant ${made.id} is there`,
    (made) => set({ form: "", of: made.id }),
  );
  return (
    <Ask
      title="A new tenant"
      action="Create"
      change={change}
      onClose={onClose}
      onSubmit={() => change.mutate({ method: "POST", path: "api/tenants", body: { id: id.trim() } })}
    >
      <Field
        label="Name"
        value={id}
        onChange={setId}
        required
        placeholder="shop"
        hint="Letters, digits and ! - _ . * ' ( ). It cannot be changed. Then make tokens for it."
      />
    </Ask>
  );
}

function SetState({ tenant, suspend, onClose }: { tenant: Tenant; suspend: boolean; onClose: () => void }) {
  const change = useChange<{ id: string; state: string }>((now) => `Tenant ${now.id} is ${now.state}`, onClose);
  return (
    <Ask
      title={suspend ? `Suspend ${tenant.id}?` : `Resume ${tenant.id}?`}
      action={suspend ? "Suspend" : "Resume"}
      danger={suspend}
      change={change}
      onClose={onClose}
      onSubmit={() => change.mutate({ method: "POST", path: `${tenantPath(tenant.id)}:${suspend ? "suspend" : "resume"}` })}
    >
      <p>
        {suspend
          ? "Pushes and queries of the tenant are refused with 403 on all servers within seconds. Its data stays, and you can resume it."
          : "Pushes and queries of the tenant are served again."}
      </p>
    </Ask>
  );
}

/* The name has to be typed: nobody deletes a tenant by a slip of the hand. */
function Delete({ tenant, onClose }: { tenant: Tenant; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const change = useChange<{ id: string; state: string }>((now) => `Tenant ${now.id} is being deleted`, onClose);
  return (
    <Ask
      title={`Delete ${tenant.id}?`}
      action="Delete for good"
      danger
      unready={typed.trim() !== tenant.id}
      change={change}
      onClose={onClose}
      onSubmit={() => change.mutate({ method: "DELETE", path: tenantPath(tenant.id) })}
    >
      <p>
        Its profiles, settings, files, rules, bills and keys are deleted, and nobody can bring them back. Pushes and queries are refused
        within seconds. Get its last bill before.
      </p>
      <Field label="Its name" value={typed} onChange={setTyped} required hint={`Type ${tenant.id} to say that you mean it.`} />
    </Ask>
  );
}

function DeletionCard({ deletion }: { deletion: Deletion }) {
  const counted = (n: number | undefined, what: string): string => `${formatCount(n ?? 0)} ${what}`;
  const rows: [string, ReactNode][] = [
    [
      "Asked",
      <>
        <When ms={deletion.askedMs} /> by {deletion.askedBy}
      </>,
    ],
    [
      "At once",
      [
        counted(deletion.keysShredded, "keys shredded"),
        counted(deletion.tokensRevoked, "tokens revoked"),
        counted(deletion.bindingsRemoved, "bindings removed"),
      ].join(", "),
    ],
    [
      "Listed when it began",
      deletion.begunMs === undefined
        ? "it has not begun"
        : `${counted(deletion.profiles, "profiles")} in ${counted(deletion.blocks, "blocks")} of ${formatValue(deletion.blockBytes ?? 0, "bytes")} and ${counted(deletion.segments, "segments")}`,
    ],
    ["Ended", <When key="ended" ms={deletion.endedMs} none="not yet: objects that queries may still read go after an hour" />],
    ...(deletion.endedMs === undefined ? [] : ([["Removed", counted(deletion.profilesRemoved, "profiles")]] as [string, ReactNode][])),
  ];
  return (
    <section className="card" aria-label="Deletion">
      <header>
        <h2>Deletion</h2>
      </header>
      <Scroll label="Deletion">
        <table className="plain admin">
          <tbody>
            {rows.map(([what, said]) => (
              <tr key={what}>
                <th scope="row">{what}</th>
                <td>{said}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

/* From four fifths on senders are told as well. */
const NEAR = 0.8;

function Used({ limit }: { limit: Limit }) {
  const share = usedShare(limit);
  if (limit.used === undefined) return "–";
  return (
    <span className={share !== undefined && share >= NEAR ? (share >= 1 ? "err" : "warn") : undefined}>
      {formatCount(limit.used)}
      {share !== undefined && `, ${formatShare(share)}`}
      {limit.resetMs !== undefined && (
        <>
          {" "}
          until <When ms={limit.resetMs} />
        </>
      )}
    </span>
  );
}

const SOURCES = { registry: "set here", tenants_file: "tenants file", settings: "settings" } as const;

function LimitsTable({ limits, value }: { limits: Limits; value: (name: string) => ReactNode }) {
  const { params } = useRoute();
  const rows = Object.keys(limits).filter((name) => matches(params.q, name, limits[name]!.meaning));
  return (
    <Scroll label="Limits">
      <table className="plain admin">
        <thead>
          <tr>
            <th scope="col">Limit</th>
            <th scope="col">Value</th>
            <th scope="col">Used</th>
            <th scope="col">Source</th>
            <th scope="col">Meaning</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((name) => (
            <tr key={name}>
              <th scope="row">
                <code>{name}</code>
              </th>
              <td>{value(name)}</td>
              <td>
                <Used limit={limits[name]!} />
              </td>
              <td className={limits[name]!.source === "registry" ? "own" : undefined}>{SOURCES[limits[name]!.source]}</td>
              <td className="meaning">{limits[name]!.meaning.replaceAll("`", "")}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <p className="table-foot">No limit is like that.</p>}
    </Scroll>
  );
}

/* Values that are set for the tenant; an empty field is none, so the tenants file or the settings decide. */
function EditLimits({ tenant, limits, onClose }: { tenant: string; limits: Limits; onClose: () => void }) {
  const before = (name: string): string => (limits[name]!.source === "registry" ? limits[name]!.value : "");
  const [typed, setTyped] = useState<Record<string, string>>({});
  const change = useChange<unknown>(() => `Limits of ${tenant} are set`, onClose);
  const changed = Object.entries(typed).filter(([name, value]) => value.trim() !== before(name));
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const body = Object.fromEntries(changed.map(([name, value]) => [name, value.trim() === "" ? null : value.trim()]));
        change.mutate({ method: "PUT", path: `${tenantPath(tenant)}/limits`, body });
      }}
    >
      <div className="toolbar">
        <span className="note">An empty field leaves it to the tenants file or the settings, whose value is shown in it.</span>
        <div className="push">
          <span role="status">{changed.length === 0 ? "Nothing is changed" : `${formatCount(changed.length)} changed`}</span>
          <button type="submit" className="btn main small" disabled={changed.length === 0 || change.isPending}>
            Save
          </button>
          <button type="button" className="btn small" onClick={onClose}>
            Cancel
          </button>
        </div>
      </div>
      {change.error !== null && <Problem fault={change.error} wrong={NOT_VALID} />}
      <LimitsTable
        limits={limits}
        value={(name) => (
          <input
            className="input"
            aria-label={name}
            value={typed[name] ?? before(name)}
            placeholder={limits[name]!.source === "registry" ? "" : limits[name]!.value}
            spellCheck={false}
            onChange={(event) => setTyped({ ...typed, [name]: event.target.value })}
          />
        )}
      />
    </form>
  );
}

function LimitsCard({ tenant }: { tenant: string }) {
  const { params, set } = useRoute();
  const { admin } = useRights();
  const limits = useLimits(tenant);
  const editing = params.form === "limits" && admin;
  return (
    <section className="card" aria-label="Limits">
      <header>
        <h2>Limits</h2>
        <span className="note">{admin ? "" : "Whoever runs the server changes them."}</span>
        <div className="push">
          <SearchField label="Search limits" value={params.q} onChange={(q) => set({ q }, { replace: true })} />
          {admin && !editing && (
            <button type="button" className="btn small" onClick={() => set({ form: "limits" })}>
              Change limits
            </button>
          )}
        </div>
      </header>
      {limits.isError && <Problem fault={limits.error} onRetry={() => void limits.refetch()} />}
      {limits.data === undefined && !limits.isError && <Skeleton rows={8} />}
      {limits.data !== undefined &&
        (editing ? (
          <EditLimits tenant={tenant} limits={limits.data} onClose={() => set({ form: "" })} />
        ) : (
          <LimitsTable limits={limits.data} value={(name) => <code>{limits.data[name]!.value || "–"}</code>} />
        ))}
    </section>
  );
}

function One({ tenant }: { tenant: Tenant }) {
  const { params, set } = useRoute();
  const { admin } = useRights();
  const elsewhere = useElsewhere();
  const close = (): void => set({ form: "" });
  const mayDelete = admin && (tenant.state === "active" || tenant.state === "suspended");
  return (
    <>
      <section className="card" aria-label={`Tenant ${tenant.id}`}>
        <header>
          <Link className="btn small" href={elsewhere("/tenants", {})}>
            All tenants
          </Link>
          <h2>{tenant.id}</h2>
          <State of={tenant.state} />
          <span className="note">
            made <When ms={tenant.createdMs} /> by {tenant.createdBy || "nobody known"}
          </span>
          <div className="push">
            <Link className="btn small" href={elsewhere("/tokens", { of: tenant.id })}>
              Its tokens
            </Link>
            <Link className="btn small" href={elsewhere("/audit", { of: tenant.id })}>
              Its audit
            </Link>
            <Link className="btn small" href={elsewhere("/usage", { tenant: tenant.id })}>
              Its usage
            </Link>
            {admin && tenant.state === "active" && (
              <button type="button" className="btn small danger" onClick={() => set({ form: "suspend" })}>
                Suspend
              </button>
            )}
            {admin && tenant.state === "suspended" && (
              <button type="button" className="btn small" onClick={() => set({ form: "resume" })}>
                Resume
              </button>
            )}
            {mayDelete && (
              <button type="button" className="btn small danger" onClick={() => set({ form: "delete" })}>
                Delete
              </button>
            )}
          </div>
        </header>
        {tenant.state === "deleting" && <p className="table-foot">Its data is being deleted. Nothing of it can be changed any more.</p>}
        {tenant.state === "deleted" && <p className="table-foot">Nothing of it is left. A new tenant may have its name.</p>}
      </section>
      {tenant.deletion !== undefined && <DeletionCard deletion={tenant.deletion} />}
      {(tenant.state === "active" || tenant.state === "suspended") && <LimitsCard key={tenant.id} tenant={tenant.id} />}
      {mayDelete && params.form === "delete" && <Delete tenant={tenant} onClose={close} />}
      {admin && tenant.state === "active" && params.form === "suspend" && <SetState tenant={tenant} suspend onClose={close} />}
      {admin && tenant.state === "suspended" && params.form === "resume" && <SetState tenant={tenant} suspend={false} onClose={close} />}
    </>
  );
}

function List({ tenants }: { tenants: Tenant[] }) {
  const { params } = useRoute();
  const elsewhere = useElsewhere();
  const found = tenants.filter((one) => matches(params.q, one.id, one.state, one.createdBy));
  return (
    <section className="card" aria-label="Tenants">
      <Scroll label="Tenants">
        <table className="plain admin">
          <thead>
            <tr>
              <th scope="col">Tenant</th>
              <th scope="col">State</th>
              <th scope="col">Made</th>
              <th scope="col">By</th>
              <th scope="col">Changed</th>
            </tr>
          </thead>
          <tbody>
            {found.slice(0, ROWS_MAX).map((one) => (
              <tr key={one.id}>
                <th scope="row">
                  <Link href={elsewhere("/tenants", { of: one.id })}>{one.id}</Link>
                </th>
                <td>
                  <State of={one.state} />
                </td>
                <td>
                  <When ms={one.createdMs} />
                </td>
                <td>{one.createdBy || "–"}</td>
                <td>
                  <When ms={one.changedMs} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <Foot count={found.length} none={tenants.length === 0 ? "There is no tenant that you govern." : "No tenant is like that."} />
    </section>
  );
}

export function Tenants() {
  const { params, set } = useRoute();
  const { admin } = useRights();
  const tenants = useTenants();
  const one = tenants.data?.tenants.find((tenant) => tenant.id === params.of);
  return (
    <>
      <Head title="Tenants">
        {params.of === "" && <SearchField label="Search tenants" value={params.q} onChange={(q) => set({ q }, { replace: true })} />}
        {admin && params.of === "" && (
          <button type="button" className="btn main small" onClick={() => set({ form: "create" })}>
            <Icon name="plus" />
            New tenant
          </button>
        )}
      </Head>
      {tenants.isError && tenants.data === undefined && (
        <section className="card">
          <Problem fault={tenants.error} onRetry={() => void tenants.refetch()} />
        </section>
      )}
      {tenants.data === undefined && !tenants.isError && (
        <section className="card">
          <Skeleton rows={6} />
        </section>
      )}
      {tenants.data !== undefined && params.of === "" && <List tenants={tenants.data.tenants} />}
      {tenants.data !== undefined && params.of !== "" && one === undefined && (
        <section className="card center">
          <h2>There is no tenant {params.of} that you govern</h2>
          <button type="button" className="btn" onClick={() => set({ of: "" })}>
            All tenants
          </button>
        </section>
      )}
      {one !== undefined && <One tenant={one} />}
      {admin && params.of === "" && params.form === "create" && <Create onClose={() => set({ form: "" })} />}
    </>
  );
}
