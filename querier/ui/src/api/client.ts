/*
 * How the page asks the server. Paths are relative, so they hold below any prefix. Every call can be cancelled, takes what
 * there is of an answer that is not complete, and asks for its statistics.
 */

import { followed } from "../state/progress";
import { EventReader, RefusedError } from "./events";

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number, // 0: the server was not reached
    readonly code: string,
    readonly retryAfterS: number | null,
    readonly login = "", // of 401: where one may log in, a path
  ) {
    super(message);
  }
}

/* Who asks. The token stays here and in the browser's storage: never in an address, never in the document. */
interface Identity {
  token: string;
  tenant: string;
  csrf: string; // of a session: what requests that change something have to bring
  version: number; // another one is another person, who must not see answers for the one before
}

const TOKEN_KEY = "flamegrid.token";
const identity: Identity = { token: readToken(), tenant: "", csrf: "", version: 0 };
const listeners = new Set<() => void>();

function readToken(): string {
  try {
    return sessionStorage.getItem(TOKEN_KEY) ?? localStorage.getItem(TOKEN_KEY) ?? "";
  } catch {
    return "";
  }
}

/* token "": goes on without one. */
export function signIn(token: string, keep: boolean): void {
  identity.token = token;
  identity.csrf = "";
  identity.version++;
  try {
    sessionStorage.removeItem(TOKEN_KEY);
    localStorage.removeItem(TOKEN_KEY);
    if (token !== "") (keep ? localStorage : sessionStorage).setItem(TOKEN_KEY, token);
  } catch {
    // It holds until the page is closed.
  }
  for (const listener of listeners) listener();
}

export function hasToken(): boolean {
  return identity.token !== "";
}

export function onIdentity(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function identityVersion(): number {
  return identity.version;
}

export function setCsrf(csrf: string): void {
  identity.csrf = csrf;
}

export function setTenant(tenant: string): void {
  identity.tenant = tenant;
}

function headers(method: string, more: Record<string, string>): Record<string, string> {
  const out: Record<string, string> = { "X-Flamegrid-Partial": "true", "X-Flamegrid-Statistics": "true", ...more };
  if (identity.token !== "") out.Authorization = `Bearer ${identity.token}`;
  if (identity.csrf !== "" && method !== "GET") out["X-Flamegrid-Csrf"] = identity.csrf;
  if (identity.tenant !== "") out["X-Scope-OrgID"] = identity.tenant;
  return out;
}

/* The header of requests that act for an operator, or delete: pages of other sites cannot send it. */
export const ACTION = { "X-Flamegrid-Action": "page" };

async function failure(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  let code = "";
  let login = "";
  let message = text.slice(0, 2000) || response.statusText || `status ${response.status}`;
  try {
    const said = JSON.parse(text) as { code?: unknown; message?: unknown; login?: unknown };
    if (typeof said.code === "string") code = said.code;
    if (typeof said.message === "string") message = said.message;
    if (typeof said.login === "string") login = said.login;
  } catch {
    // What a proxy says is text.
  }
  const after = Number(response.headers.get("Retry-After"));
  return new ApiError(message, response.status, code, after > 0 ? after : null, login);
}

export async function send(path: string, init: RequestInit & { headers?: Record<string, string> }): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers: headers(init.method ?? "GET", init.headers ?? {}), credentials: "same-origin" });
  } catch (fault) {
    if (init.signal?.aborted) throw fault;
    throw new ApiError(fault instanceof Error ? fault.message : String(fault), 0, "unreachable", null);
  }
  if (!response.ok) throw await failure(response);
  return response;
}

/* Ends a session, here and at the provider: that is another server, whose page asks or comes back. */
export async function logOut(path: string): Promise<void> {
  const response = await send(path, { method: "POST", headers: { Accept: "application/json" } });
  const { location: to } = (await response.json()) as { location?: string };
  signIn("", false);
  if (to !== undefined && /^https?:/.test(to)) location.assign(to);
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

const EVENTS = "text/event-stream";

/* The bytes of an answer that may take long: while it is made, the server says how far it is. */
export function follow(path: string, query: Query, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  return followed(async (tell) => {
    const response = await send(address(path, query), { headers: { Accept: EVENTS }, signal: signal ?? null });
    /* A proxy that speaks HTTP/1.0 with the server gets the plain answer. */
    if (response.headers.get("Content-Type")?.startsWith(EVENTS) !== true) return new Uint8Array(await response.arrayBuffer());
    const events = new EventReader(tell);
    const reader = response.body!.getReader();
    try {
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) events.take(piece.value);
      return events.finish();
    } catch (fault) {
      if (signal?.aborted) throw fault;
      if (fault instanceof RefusedError) throw new ApiError(fault.message, fault.refusal.status, fault.refusal.code, null);
      throw new ApiError(fault instanceof Error ? fault.message : String(fault), 0, "unreachable", null);
    }
  });
}

export async function getLong<Answer>(path: string, query: Query, signal?: AbortSignal): Promise<Answer> {
  return JSON.parse(new TextDecoder().decode(await follow(path, query, signal))) as Answer;
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
