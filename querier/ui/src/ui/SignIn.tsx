/* Asked for when the server answers 401: to log in, or a token, or a tenant. The page stays where it is. */

import { useState } from "react";

import { signIn } from "../api/client";
import { BASE, useRoute } from "../state/route";
import { Icon } from "./Icon";

/* Where one logs in and comes back from; null: the server names no place of its own. */
export function loginAddress(login: string): string | null {
  if (!/^\/(?![/\\])/.test(login)) return null;
  return `${BASE}${login}?return=${encodeURIComponent(location.pathname + location.search)}`;
}

export function SignIn({ reason, login }: { reason: string; login: string }) {
  const { params, set } = useRoute();
  const [token, setToken] = useState("");
  const [tenant, setTenant] = useState(params.tenant);
  const [keep, setKeep] = useState(false);
  const address = loginAddress(login);

  return (
    <form
      className="problem"
      aria-label="Log in"
      onSubmit={(event) => {
        event.preventDefault();
        set({ tenant: tenant.trim() }, { replace: true });
        signIn(token.trim(), keep); // asks again for all that the page shows
      }}
    >
      <h2>
        <Icon name="user" size={18} />
        Who are you?
      </h2>
      <p>The server answers: {reason}</p>
      {address !== null && (
        <div className="row">
          <a className="btn main" href={address}>
            Log in
          </a>
          <span className="note">or with a token:</span>
        </div>
      )}
      <div className="fields">
        <label>
          Tenant
          <input
            className="input"
            value={tenant}
            autoComplete="organization"
            spellCheck={false}
            onChange={(event) => setTenant(event.target.value)}
          />
        </label>
        <label>
          Token
          <input
            className="input"
            type="password"
            value={token}
            autoComplete="current-password"
            onChange={(event) => setToken(event.target.value)}
          />
        </label>
        <div className="line">
          <label className="line">
            <input type="checkbox" checked={keep} onChange={(event) => setKeep(event.target.checked)} /> Keep me signed in on this computer
          </label>
        </div>
        <div className="line">
          <button type="submit" className={address === null ? "btn main" : "btn"}>
            Go on
          </button>
        </div>
      </div>
    </form>
  );
}
