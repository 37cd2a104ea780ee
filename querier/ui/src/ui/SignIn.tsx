/* Asked for when the server answers 401: a token, or a tenant, or both. The page stays where it is. */

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { signIn } from "../api/client";
import { useRoute } from "../state/route";
import { Icon } from "./Icon";

export function SignIn({ reason, onDone }: { reason: string; onDone?: (() => void) | undefined }) {
  const { params, set } = useRoute();
  const [token, setToken] = useState("");
  const [tenant, setTenant] = useState(params.tenant);
  const [keep, setKeep] = useState(false);
  const client = useQueryClient();

  return (
    <form
      className="problem"
      onSubmit={(event) => {
        event.preventDefault();
        if (token !== "") signIn(token.trim(), keep);
        set({ tenant: tenant.trim() }, { replace: true });
        /* After the render that tells the client of the tenant. */
        setTimeout(() => {
          void client.invalidateQueries();
          onDone?.();
        }, 0);
      }}
    >
      <h2>
        <Icon name="user" size={18} />
        Who are you?
      </h2>
      <p>The server answers: {reason}</p>
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
          <button type="submit" className="btn main">
            Go on
          </button>
        </div>
      </div>
    </form>
  );
}
