/*
 * How the page asks the server. Paths are relative, so they hold below any prefix. Every call can be cancelled, takes what
 * there is of an answer that is not complete, and asks for its statistics.
 */

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number, // 0: the server was not reached
    readonly code: string,
    readonly retryAfterS: number | null,
  ) {
    super(message);
  }
}

/* Who asks. The token stays here and in the browser's storage: never in an address, never in the document. */
export interface Identity {
  token: string;
  tenant: string;
}

const TOKEN_KEY = "flamegrid.token";
const identity: Identity = { token: readToken(), tenant: "" };

function readToken(): string {
  try {
    return sessionStorage.getItem(TOKEN_KEY) ?? localStorage.getItem(TOKEN_KEY) ?? "";
  } catch {
    return "";
  }
}

export function signIn(token: string, keep: boolean): void {
  identity.token = token;
  try {
    sessionStorage.removeItem(TOKEN_KEY);
    localStorage.removeItem(TOKEN_KEY);
    if (token !== "") (keep ? localStorage : sessionStorage).setItem(TOKEN_KEY, token);
  } catch {
    // It holds until the page is closed.
  }
}

export function isSignedIn(): boolean {
  return identity.token !== "";
}

export function setTenant(tenant: string): void {
  identity.tenant = tenant;
}

function headers(more: Record<string, string>): Record<string, string> {
  const out: Record<string, string> = { "X-Flamegrid-Partial": "true", "X-Flamegrid-Statistics": "true", ...more };
  if (identity.token !== "") out.Authorization = `Bearer ${identity.token}`;
  if (identity.tenant !== "") out["X-Scope-OrgID"] = identity.tenant;
  return out;
}

async function failure(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  let code = "";
  let message = text.slice(0, 2000) || response.statusText || `status ${response.status}`;
  try {
    const said = JSON.parse(text) as { code?: unknown; message?: unknown };
    if (typeof said.code === "string") code = said.code;
    if (typeof said.message === "string") message = said.message;
  } catch {
    // What a proxy says is text.
  }
  const after = Number(response.headers.get("Retry-After"));
  return new ApiError(message, response.status, code, after > 0 ? after : null);
}

export async function send(path: string, init: RequestInit & { headers?: Record<string, string> }): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers: headers(init.headers ?? {}), credentials: "same-origin" });
  } catch (fault) {
    if (init.signal?.aborted) throw fault;
    throw new ApiError(fault instanceof Error ? fault.message : String(fault), 0, "unreachable", null);
  }
  if (!response.ok) throw await failure(response);
  return response;
}

export type Query = Record<string, string | number | boolean | readonly string[] | undefined>;

/* Parameters that are undefined or empty are left out; a list is repeated. */
export function address(path: string, query: Query): string {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) for (const one of value) out.append(name, one);
    else if (value !== undefined && value !== "") out.append(name, String(value));
  }
  const text = out.toString();
  return text === "" ? path : `${path}?${text}`;
}

export async function get<Answer>(path: string, query: Query, signal?: AbortSignal): Promise<Answer> {
  return (await send(address(path, query), { signal: signal ?? null })).json() as Promise<Answer>;
}

/* A method of querier.v1.QuerierService, by Connect in JSON. */
export async function call<Answer>(method: string, request: unknown, signal?: AbortSignal): Promise<Answer> {
  const response = await send(`querier.v1.QuerierService/${method}`, {
    method: "POST",
    body: JSON.stringify(request),
    headers: { "Content-Type": "application/json" },
    signal: signal ?? null,
  });
  return response.json() as Promise<Answer>;
}
