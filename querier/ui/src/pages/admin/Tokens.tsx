/* Tokens: a list, and what makes, rotates and revokes them. The text of a token is shown once, and only here. */

import { useState } from "react";

import { type TenantLabel, type Token, isIdle, parseValues, tokenPath, useChange, useTenants, useTokens } from "../../api/admin";
import { hasToken, signIn } from "../../api/client";
import { useRights } from "../../api/who";
import { BASE, useRoute } from "../../state/route";
import { Skeleton } from "../../ui/Busy";
import { Dialog } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { Problem } from "../../ui/Problem";
import { Scroll } from "../../ui/Scroll";
import { SearchField } from "../../ui/SearchField";
import { Snippets } from "../../ui/Snippets";
import { copy } from "../../ui/toast";
import { type Snippet, snippets } from "../snippets";
import { Ask } from "../../ui/Ask";
import { Field, Foot, Head, ROWS_MAX, Select, State, When, matches } from "./parts";

const ANY = "*";

/* With what they allow; those of admins have all tenants. */
const SCOPES = [
  ["push", "send profiles"],
  ["read", "query"],
  ["rules", "change recording rules"],
  ["share", "share ad hoc profiles"],
  ["debuginfo", "send debug information"],
  ["forward", "send for others, with ids"],
  ["delete", "delete profiles"],
  ["tenant-admin", "make tokens of its tenants"],
  ["admin", "everything"],
  ["metrics", "scrape /metrics"],
] as const;
const OF_ADMINS = ["admin", "metrics"];

const EXPIRIES = [
  ["30d", "in 30 days"],
  ["90d", "in 90 days"],
  ["1y", "in a year"],
  ["2y", "in two years"],
  ["0", "never"],
] as const;
const OVERLAPS = [
  ["0s", "at once"],
  ["1h", "in an hour"],
  ["24h", "in a day"],
  ["7d", "in a week"],
] as const;

const IDLE = [
  ["", "at any time"],
  ["7", "not for 7 days"],
  ["30", "not for 30 days"],
  ["90", "not for 90 days"],
] as const;

/* How programs that read use a token. */
function readers(url: string, tenant: string, token: string): Snippet[] {
  const user = tenant === "" ? "token" : tenant;
  return [
    {
      name: "Grafana",
      code: `# data source: Grafana Pyroscope\nURL:            ${url}\nBasic auth:     on\nUser:           ${user}\nPassword:       ${token}`,
    },
    { name: "flamegrid", code: `export FLAMEGRID_URL=${url} FLAMEGRID_TOKEN=${token}\nflamegrid query --help` },
    { name: "profilecli", code: `profilecli query series --url ${url} --username ${user} --password ${token}` },
    { name: "curl", code: `curl -H 'Authorization: Bearer ${token}' '${url}/api/labels'` },
  ];
}

function linesFor(token: Token): Snippet[] {
  const url = location.origin + BASE;
  /* Of several tenants a program has to say which one it means. */
  const several = token.tenants[0] === ANY ? "TENANT" : (token.tenantLabel?.otherwise ?? token.tenants[0]!);
  const tenant = token.tenants.length === 1 && token.tenants[0] !== ANY ? "" : several;
  const text = token.token!;
  if (token.scopes.includes("push")) return snippets(url, tenant, text).filter((one) => one.name !== "Go, pulled");
  if (token.scopes.includes("read")) return readers(url, tenant, text);
  return [{ name: "flamegrid", code: `export FLAMEGRID_URL=${url} FLAMEGRID_TOKEN=${text}\nflamegrid whoami` }];
}

function Secret({ token, onClose }: { token: Token; onClose: () => void }) {
  const { set } = useRoute();
  const logIn = (): void => {
    signIn(token.token!, false);
    set({ of: "", tenant: "" }, { path: "/" });
    onClose();
  };
  return (
    <Dialog title={`Token ${token.name}`} open onClose={onClose}>
      <div className="fields admin-form">
        <p>Copy it now: nobody can show it again. If it is lost, rotate the token.</p>
        <div className="secret">
          <code aria-label="Token">{token.token}</code>
          <button type="button" className="btn main small" autoFocus onClick={() => void copy("Token", token.token!)}>
            <Icon name="copy" />
            Copy the token
          </button>
        </div>
        <h3>Programs that use it</h3>
        <div>
          <Snippets all={linesFor(token)} />
        </div>
        <div className="line">
          <button type="button" className="btn" onClick={onClose}>
            I have it
          </button>
          {token.scopes.includes("read") && hasToken() && (
            <button type="button" className="btn" onClick={logIn}>
              Log in here with it
            </button>
          )}
        </div>
      </div>
    </Dialog>
  );
}

/* One label of each series says which tenant it goes to: for agents that profile a whole node. */
function ByLabel({ label, tenants, onChange }: { label: ByLabelText; tenants: string[]; onChange: (label: ByLabelText) => void }) {
  return (
    <details className="more" open={label.name !== "" || undefined}>
      <summary>A tenant by label, for agents of whole nodes</summary>
      <div className="fields">
        <Field
          label="Label"
          value={label.name}
          onChange={(name) => onChange({ ...label, name })}
          placeholder="namespace"
          hint="Each series goes to the tenant that this label names, among those of the token."
        />
        <Field
          label="Prefix"
          value={label.prefix}
          onChange={(prefix) => onChange({ ...label, prefix })}
          placeholder="team-"
          hint={`Stands before the value: ${label.name || "namespace"}="shop" goes to ${label.prefix}shop.`}
        />
        <Field
          label="Tenants of values"
          value={label.values}
          onChange={(values) => onChange({ ...label, values })}
          placeholder="kube-system=infra, default=rest"
          hint="VALUE=TENANT, separated by commas, for values that are no names of tenants."
        />
        <Select
          label="Series without such a tenant"
          value={label.otherwise}
          onChange={(otherwise) => onChange({ ...label, otherwise })}
          options={[["", "are refused"], ...tenants.map((one) => [one, `go to ${one}`] as const)]}
        />
      </div>
    </details>
  );
}

/* As it is typed. */
interface ByLabelText {
  name: string;
  prefix: string;
  values: string;
  otherwise: string;
}

function tenantLabelOf(label: ByLabelText): TenantLabel | undefined {
  const tenants = parseValues(label.values) ?? [];
  const { prefix, otherwise } = label;
  return label.name.trim() === "" ? undefined : { name: label.name.trim(), tenants, prefix: prefix.trim(), otherwise };
}

function Create({
  tenant,
  scope,
  onMade,
  onClose,
}: {
  tenant: string;
  scope: string; // that is picked at first
  onMade: (made: Token) => void;
  onClose: () => void;
}) {
  const { admin } = useRights();
  const tenants = useTenants();
  const names = (tenants.data?.tenants ?? []).filter((one) => one.state === "active").map((one) => one.id);
  const [name, setName] = useState("");
  const [picked, setPicked] = useState<string[]>(tenant === "" ? [] : [tenant]);
  const [scopes, setScopes] = useState<string[]>([scope]);
  const [matchers, setMatchers] = useState("");
  const [expiresIn, setExpiresIn] = useState("1y");
  const [label, setLabel] = useState<ByLabelText>({ name: "", prefix: "", values: "", otherwise: "" });
  const change = useChange<Token>((made) => `Token ${made.name} is made`, onMade);
  const toggled = (list: string[], one: string): string[] => (list.includes(one) ? list.filter((other) => other !== one) : [...list, one]);
  const everywhere = scopes.some((one) => OF_ADMINS.includes(one));
  const of = everywhere ? [ANY] : picked;
  const byLabel = scopes.includes("push") && !of.includes(ANY); // a token of all tenants has none by label
  const lacks = lackOf(scopes, of, byLabel ? label : null);
  return (
    <Ask
      title="A new token"
      action="Create"
      change={{ isPending: change.isPending || lacks !== "", error: change.error }}
      onClose={onClose}
      onSubmit={() =>
        change.mutate({
          method: "POST",
          path: "api/tokens",
          body: {
            name: name.trim(),
            tenants: of,
            scopes,
            matchers: matchers.trim(),
            tenantLabel: byLabel ? tenantLabelOf(label) : undefined,
            expiresIn,
          },
        })
      }
    >
      <Field label="Name" value={name} onChange={setName} required placeholder="agents of shop" hint="For people: who uses it, where." />
      <fieldset>
        <legend>It may</legend>
        {SCOPES.filter(([scope]) => admin || !OF_ADMINS.includes(scope)).map(([scope, meaning]) => (
          <label key={scope} className="line">
            <input type="checkbox" checked={scopes.includes(scope)} onChange={() => setScopes(toggled(scopes, scope))} />
            {scope}
            <span className="note">{meaning}</span>
          </label>
        ))}
      </fieldset>
      {everywhere ? (
        <p className="note">For all tenants, as {scopes.filter((one) => OF_ADMINS.includes(one)).join(" and ")} needs it.</p>
      ) : (
        <fieldset className="many">
          <legend>In tenants</legend>
          {[...(admin ? [ANY] : []), ...names].map((one) => (
            <label key={one} className="line">
              <input
                type="checkbox"
                checked={picked.includes(one)}
                disabled={one !== ANY && picked.includes(ANY)}
                onChange={() => setPicked(one === ANY && !picked.includes(ANY) ? [ANY] : toggled(picked, one))}
              />
              {one === ANY ? "all, also those that are made later" : one}
            </label>
          ))}
        </fieldset>
      )}
      <Select label="It ends" value={expiresIn} onChange={setExpiresIn} options={EXPIRIES} />
      <Field
        label="Only profiles with these labels"
        value={matchers}
        onChange={setMatchers}
        placeholder={'{namespace="shop"}'}
        hint="Of push and read only: queries see, and pushes may have, nothing else."
      />
      {byLabel && <ByLabel label={label} tenants={picked} onChange={setLabel} />}
      {lacks !== "" && (
        <p className="note" role="status">
          {lacks}
        </p>
      )}
    </Ask>
  );
}

function lackOf(scopes: string[], tenants: string[], label: ByLabelText | null): string {
  if (scopes.length === 0) return "Pick a scope.";
  if (tenants.length === 0) return "Pick a tenant.";
  if (label === null) return "";
  if (parseValues(label.values) === null) return "Tenants of values are VALUE=TENANT, separated by commas.";
  const filled = [label.prefix, label.values, label.otherwise].some((one) => one.trim() !== "");
  return filled && label.name.trim() === "" ? "Name the label that says the tenant." : "";
}

function Rotate({ token, onMade, onClose }: { token: Token; onMade: (made: Token) => void; onClose: () => void }) {
  const [overlap, setOverlap] = useState("24h");
  const change = useChange<Token>((made) => `Token ${made.name} has a new secret`, onMade);
  return (
    <Ask
      title={`Rotate ${token.name}`}
      action="Make a new secret"
      change={change}
      onClose={onClose}
      onSubmit={() => change.mutate({ method: "POST", path: `${tokenPath(token.id)}:rotate`, body: { overlap } })}
    >
      <p>The token gets a new secret. Both work until the old one ends, so that programs can be changed one by one.</p>
      {token.oldSecretUntilMs !== undefined && token.oldSecretUntilMs > Date.now() && (
        <p className="warn">
          An older secret is still valid until <When ms={token.oldSecretUntilMs} />: it ends now.
        </p>
      )}
      <Select label="The old secret ends" value={overlap} onChange={setOverlap} options={OVERLAPS} />
    </Ask>
  );
}

function Revoke({ token, onClose }: { token: Token; onClose: () => void }) {
  const change = useChange<{ id: string }>(() => `Token ${token.name} is revoked`, onClose);
  return (
    <Ask
      title={`Revoke ${token.name}?`}
      action="Revoke"
      danger
      change={change}
      onClose={onClose}
      onSubmit={() => change.mutate({ method: "POST", path: `${tokenPath(token.id)}:revoke` })}
    >
      <p>All programs that use it get 401 within seconds, on all servers. A revoked token never works again.</p>
    </Ask>
  );
}

const hasEnded = (token: Token): boolean => token.state === "revoked" || token.state === "expired";

/* When it was used last, to the hour. What is not recorded is not said. */
function LastUse({ token, sinceMs }: { token: Token; sinceMs: number | undefined }) {
  if (token.lastUsedMs !== undefined) return <When ms={token.lastUsedMs} />;
  if (sinceMs === undefined) return "not known";
  if (token.createdMs >= sinceMs) return "never";
  return (
    <>
      not since <When ms={sinceMs} />
    </>
  );
}

function ByLabelNote({ label }: { label: TenantLabel }) {
  const names = [
    ...(label.tenants ?? []).map((one) => `${one.value} is ${one.tenant}`),
    ...(label.prefix === undefined ? [] : [`${label.prefix} before the value`]),
    label.otherwise === undefined ? "others are refused" : `others go to ${label.otherwise}`,
  ];
  return (
    <small>
      by the label <code>{label.name}</code>: {names.join(", ")}
    </small>
  );
}

function Row({ token, sinceMs }: { token: Token; sinceMs: number | undefined }) {
  const { set } = useRoute();
  return (
    <tr className={hasEnded(token) ? "dim" : undefined}>
      <th scope="row">
        {token.name}
        <small>
          <code>{token.id}</code>
        </small>
      </th>
      <td>
        <State of={token.state} />
        {token.revokedMs !== undefined && (
          <small>
            <When ms={token.revokedMs} /> by {token.revokedBy}
          </small>
        )}
      </td>
      <td>{token.scopes.join(", ")}</td>
      <td>
        {token.tenants.map((one) => (one === ANY ? "all" : one)).join(", ")}
        {token.matchers !== undefined && (
          <small>
            <code>{token.matchers}</code>
          </small>
        )}
        {token.tenantLabel !== undefined && <ByLabelNote label={token.tenantLabel} />}
      </td>
      <td>
        <LastUse token={token} sinceMs={sinceMs} />
      </td>
      <td>
        <When ms={token.expiresMs} none="never" />
        {token.oldSecretUntilMs !== undefined && token.oldSecretUntilMs > Date.now() && (
          <small>
            its old secret: <When ms={token.oldSecretUntilMs} />
          </small>
        )}
      </td>
      <td>
        <When ms={token.createdMs} />
        <small>by {token.createdBy || "nobody known"}</small>
      </td>
      <td>
        {!hasEnded(token) && (
          <div className="actions">
            <button type="button" className="btn small" onClick={() => set({ form: "rotate", id: token.id })}>
              Rotate<span className="hidden-text"> {token.name}</span>
            </button>
            <button type="button" className="btn small danger" onClick={() => set({ form: "revoke", id: token.id })}>
              Revoke<span className="hidden-text"> {token.name}</span>
            </button>
          </div>
        )}
      </td>
    </tr>
  );
}

export function Tokens() {
  const { params, set } = useRoute();
  const { governs } = useRights();
  const tokens = useTokens(params.of);
  const tenants = useTenants();
  const [made, setMade] = useState<Token | null>(null); // never in the address
  const close = (): void => set({ form: "", id: "" });
  const onMade = (token: Token): void => {
    setMade(token);
    close();
  };
  const all = tokens.data?.tokens ?? [];
  const sinceMs = tokens.data?.usesSinceMs;
  const idleDays = Number(params.idle) || 0;
  const found = all
    .filter(
      (one) =>
        (params.show === "all" || !hasEnded(one)) &&
        (idleDays === 0 || isIdle(one, sinceMs, idleDays, Date.now())) &&
        matches(params.q, one.name, one.id, one.scopes, one.tenants, one.createdBy),
    )
    .sort((a, b) => b.createdMs - a.createdMs);
  const one = all.find((token) => token.id === params.id && !hasEnded(token));
  const names = (tenants.data?.tenants ?? []).map((tenant) => tenant.id);
  return (
    <>
      <Head title="Tokens">
        <SearchField label="Search tokens" value={params.q} onChange={(q) => set({ q }, { replace: true })} />
        {governs && (
          <button type="button" className="btn main small" onClick={() => set({ form: "create" })}>
            <Icon name="plus" />
            New token
          </button>
        )}
      </Head>
      <section className="card" aria-label="Tokens">
        <header className="fields admin-filters">
          <Select
            label="Tenant"
            value={params.of}
            onChange={(of) => set({ of })}
            options={[
              ["", "all that you govern"],
              ...[...new Set([...names, params.of])].filter((name) => name !== "").map((name) => [name, name] as const),
            ]}
          />
          <Select label="Last used" value={params.idle} onChange={(idle) => set({ idle })} options={IDLE} />
          <label className="line">
            <input type="checkbox" checked={params.show === "all"} onChange={(event) => set({ show: event.target.checked ? "all" : "" })} />
            also expired and revoked ones
          </label>
        </header>
        {tokens.isError && <Problem fault={tokens.error} onRetry={() => void tokens.refetch()} />}
        {tokens.data === undefined && !tokens.isError && <Skeleton rows={8} />}
        {tokens.data !== undefined && (
          <>
            <Scroll label="Tokens">
              <table className="plain admin">
                <thead>
                  <tr>
                    <th scope="col">Token</th>
                    <th scope="col">State</th>
                    <th scope="col">May</th>
                    <th scope="col">Tenants</th>
                    <th scope="col">Last used</th>
                    <th scope="col">Ends</th>
                    <th scope="col">Made</th>
                    <td />
                  </tr>
                </thead>
                <tbody>
                  {found.slice(0, ROWS_MAX).map((token) => (
                    <Row key={token.id} token={token} sinceMs={sinceMs} />
                  ))}
                </tbody>
              </table>
            </Scroll>
            <Foot count={found.length} none={all.length === 0 ? "There is no token that you govern." : "No token is like that."} />
          </>
        )}
      </section>
      {governs && (params.form === "create" || params.form === "reader") && (
        <Create tenant={params.of} scope={params.form === "reader" ? "read" : "push"} onMade={onMade} onClose={close} />
      )}
      {one !== undefined && params.form === "rotate" && <Rotate token={one} onMade={onMade} onClose={close} />}
      {one !== undefined && params.form === "revoke" && <Revoke token={one} onClose={close} />}
      {made !== null && <Secret token={made} onClose={() => setMade(null)} />}
    </>
  );
}
