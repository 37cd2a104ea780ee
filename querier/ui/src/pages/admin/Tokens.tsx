/* Tokens: a list, and what makes, rotates and revokes them. The text of a token is shown once, and only here. */

import { useState } from "react";

import { type Token, tokenPath, useChange, useTenants, useTokens } from "../../api/admin";
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
import { Ask, Field, Foot, Head, ROWS_MAX, Select, State, When, matches } from "./parts";

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
  const tenant = token.tenants.length === 1 && token.tenants[0] !== ANY ? "" : token.tenants[0] === ANY ? "TENANT" : token.tenants[0]!;
  const text = token.token!;
  if (token.scopes.includes("push")) return snippets(url, tenant, text).filter((one) => one.name !== "Go, pulled");
  if (token.scopes.includes("read")) return readers(url, tenant, text);
  return [{ name: "flamegrid", code: `export FLAMEGRID_URL=${url} FLAMEGRID_TOKEN=${text}\nflamegrid whoami` }];
}

function Secret({ token, onClose }: { token: Token; onClose: () => void }) {
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
        </div>
      </div>
    </Dialog>
  );
}

function Create({ tenant, onMade, onClose }: { tenant: string; onMade: (made: Token) => void; onClose: () => void }) {
  const { admin } = useRights();
  const tenants = useTenants();
  const names = (tenants.data?.tenants ?? []).filter((one) => one.state === "active").map((one) => one.id);
  const [name, setName] = useState("");
  const [picked, setPicked] = useState<string[]>(tenant === "" ? [] : [tenant]);
  const [scopes, setScopes] = useState<string[]>(["push"]);
  const [matchers, setMatchers] = useState("");
  const [expiresIn, setExpiresIn] = useState("1y");
  const change = useChange<Token>((made) => `Token ${made.name} is made`, onMade);
  const toggled = (list: string[], one: string): string[] => (list.includes(one) ? list.filter((other) => other !== one) : [...list, one]);
  const everywhere = scopes.some((one) => OF_ADMINS.includes(one));
  const of = everywhere ? [ANY] : picked;
  const lacks = scopes.length === 0 ? "Pick a scope." : of.length === 0 ? "Pick a tenant." : "";
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
          body: { name: name.trim(), tenants: of, scopes, matchers: matchers.trim(), expiresIn },
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
      {lacks !== "" && (
        <p className="note" role="status">
          {lacks}
        </p>
      )}
    </Ask>
  );
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

function Row({ token }: { token: Token }) {
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
        {token.tenantLabel !== undefined && <small>by the label {token.tenantLabel}</small>}
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
  const found = all
    .filter(
      (one) => (params.show === "all" || !hasEnded(one)) && matches(params.q, one.name, one.id, one.scopes, one.tenants, one.createdBy),
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
                    <th scope="col">Ends</th>
                    <th scope="col">Made</th>
                    <td />
                  </tr>
                </thead>
                <tbody>
                  {found.slice(0, ROWS_MAX).map((token) => (
                    <Row key={token.id} token={token} />
                  ))}
                </tbody>
              </table>
            </Scroll>
            <Foot count={found.length} none={all.length === 0 ? "There is no token that you govern." : "No token is like that."} />
          </>
        )}
      </section>
      {governs && params.form === "create" && <Create tenant={params.of} onMade={onMade} onClose={close} />}
      {one !== undefined && params.form === "rotate" && <Rotate token={one} onMade={onMade} onClose={close} />}
      {one !== undefined && params.form === "revoke" && <Revoke token={one} onClose={close} />}
      {made !== null && <Secret token={made} onClose={() => setMade(null)} />}
    </>
  );
}
