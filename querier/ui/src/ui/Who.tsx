/* Who one is, and as which tenant: shown where a server has access control, or where the address names a tenant. */

import * as Popover from "@radix-ui/react-popover";
import { useEffect, useState } from "react";

import { hasToken, logOut, signIn } from "../api/client";
import { LOGOUT, type Who, useWho } from "../api/who";
import { BASE, useRoute } from "../state/route";
import { Icon } from "./Icon";
import { type Entry, Menu } from "./Menu";
import { loginAddress } from "./SignIn";
import { toast } from "./toast";

type Known = Extract<Who, { state: "in" }>;

/* The tenants that one may switch to by name, and the one that is shown. */
export function tenantsOf(who: Known, tenant: string): { names: string[]; current: string } {
  const names = who.tenants;
  return { names, current: tenant !== "" ? tenant : names.length === 1 ? names[0]! : "" };
}

/* Any tenant, by its name. */
function TenantField() {
  const { params, set } = useRoute();
  const [text, setText] = useState(params.tenant);
  useEffect(() => setText(params.tenant), [params.tenant]);
  return (
    <Popover.Root>
      <Popover.Trigger className="btn bare" aria-label={`Tenant ${params.tenant || "by default"}`}>
        {params.tenant || "Tenant"}
        <Icon name="down" size={13} />
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content className="floating" align="end" sideOffset={6} collisionPadding={8} aria-label="Tenant">
          <form
            className="own"
            style={{ padding: 12 }}
            onSubmit={(event) => {
              event.preventDefault();
              set({ tenant: text.trim() });
            }}
          >
            <div className="fields">
              <label>
                Tenant
                <input
                  className="input"
                  value={text}
                  spellCheck={false}
                  placeholder="the default one"
                  onChange={(event) => setText(event.target.value)}
                />
              </label>
              <div className="line">
                <button type="submit" className="btn main small">
                  Switch
                </button>
              </div>
            </div>
          </form>
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function TenantSwitch({ who }: { who: Known }) {
  const { params, set } = useRoute();
  const { names, current } = tenantsOf(who, params.tenant);
  /* With several tenants the server wants to be told which one. */
  const first = params.tenant === "" && names.length > 1 ? names[0]! : "";
  useEffect(() => {
    if (first !== "") set({ tenant: first }, { replace: true });
  }, [first, set]);
  if (names.length < 2) return current === "" ? null : <span className="note">{current}</span>;
  return (
    <Menu
      className="btn bare"
      trigger={
        <>
          <span className="hidden-text">Tenant: </span>
          {current}
          <Icon name="down" size={13} />
        </>
      }
      entries={names.map((name) => ({
        key: name,
        text: name,
        on: name === current,
        run: () => set({ tenant: name }),
      }))}
    />
  );
}

function Person({ who }: { who: Known }) {
  const leave = (): void => {
    if (hasToken()) signIn("", false);
    else logOut(BASE + LOGOUT).catch((fault: unknown) => toast(`Log out: ${fault instanceof Error ? fault.message : String(fault)}`));
  };
  const entries: Entry[] = [
    { note: who.name === "" || who.name === who.subject ? who.subject : `${who.name} (${who.subject})` },
    ...(who.scopes.length === 0 ? [] : [{ note: `may: ${who.scopes.join(", ")}` }]),
  ];
  if (hasToken() || who.csrf !== "") entries.push("line", { key: "out", text: hasToken() ? "Forget the token" : "Log out", run: leave });
  return (
    <Menu
      className="btn bare"
      trigger={
        <>
          <Icon name="user" />
          <span className="hidden-text">Logged in as </span>
          <span className="what">{who.name || who.subject}</span>
        </>
      }
      entries={entries}
    />
  );
}

export function WhoBar() {
  const { params } = useRoute();
  const who = useWho();
  if (who.state === "in")
    return (
      <>
        <TenantSwitch who={who} />
        <Person who={who} />
      </>
    );
  if (who.state === "out") {
    const address = loginAddress(who.login);
    return address === null ? null : (
      <a className="btn" href={address}>
        Log in
      </a>
    );
  }
  return params.tenant === "" ? null : <TenantField />;
}
