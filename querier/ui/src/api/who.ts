/* Who the server takes the page for (the access of querier/API.md). */

import { useQuery } from "@tanstack/react-query";

import { ApiError, get, setCsrf } from "./client";

export interface Whoami {
  mode: "none" | "header" | "token";
  subject: string;
  name: string;
  tenants: string[];
  scopes: string[];
  csrf: string; // of a session
}

export const LOGOUT = "/auth/logout";

/* open: nobody has to say who they are, or it is not known yet. */
export type Who = { state: "open" } | { state: "out"; reason: string; login: string } | ({ state: "in" } & Whoami);

const OPEN: Who = { state: "open" };

async function ask(signal: AbortSignal): Promise<Who> {
  try {
    const who = await get<Partial<Whoami> & { tenancy?: boolean }>("api/whoami", {}, signal);
    if (who.mode !== "header" && who.mode !== "token") return OPEN;
    const csrf = who.csrf ?? "";
    setCsrf(csrf);
    return {
      state: "in",
      mode: who.mode,
      subject: who.subject ?? "",
      name: who.name ?? "",
      tenants: who.tenancy === false ? [] : (who.tenants ?? []),
      scopes: who.scopes ?? [],
      csrf,
    };
  } catch (fault) {
    if (!(fault instanceof ApiError)) throw fault;
    if (fault.status === 401) return { state: "out", reason: fault.message, login: fault.login };
    if (fault.status === 404) return OPEN; // a server without access control
    throw fault;
  }
}

export const WHO_KEY = ["whoami"] as const;

function useAnswer(): Who | undefined {
  return useQuery({
    queryKey: WHO_KEY,
    queryFn: ({ signal }) => ask(signal),
    staleTime: Infinity,
    meta: { quiet: true },
  }).data;
}

/* The page does not wait for it: what may not be seen is refused by the server. */
export function useWho(): Who {
  return useAnswer() ?? OPEN;
}

/* Whether the settings of the server may be seen: without access control by everybody, behind a gateway by nobody. */
export function useSeesSettings(): boolean {
  const who = useAnswer();
  return who !== undefined && (who.state === "open" || (who.state === "in" && who.mode === "token" && rightsOf(who).admin));
}

/* What the caller may govern. The server decides; this is what the page offers. */
export interface Rights {
  admin: boolean;
  governs: boolean;
  reads: boolean; // profiles
}

export function rightsOf(who: Who): Rights {
  const scopes = who.state === "in" ? who.scopes : [];
  const admin = scopes.includes("admin");
  return { admin, governs: admin || scopes.includes("tenant-admin"), reads: who.state !== "in" || scopes.includes("read") };
}

export function useRights(): Rights {
  return rightsOf(useWho());
}
