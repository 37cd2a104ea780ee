/* Tenants, tokens, bindings, sessions, records of the audit, and usage (querier/API.md#access, #audit, #usage). */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { toast } from "../ui/toast";
import { address, get, send } from "./client";
import { ask } from "./queries";

export interface Tenant {
  id: string;
  state: "active" | "suspended" | "deleting" | "deleted";
  createdMs: number;
  createdBy: string;
  changedMs: number;
  deletion?: Deletion;
}

export interface Deletion {
  askedMs: number;
  askedBy: string;
  keysShredded: number;
  tokensRevoked: number;
  bindingsRemoved: number;
  begunMs?: number; // until then there is nothing of the next four
  profiles?: number;
  blocks?: number;
  blockBytes?: number;
  segments?: number;
  endedMs?: number;
  profilesRemoved?: number;
}

export interface Limit {
  value: string;
  source: "registry" | "tenants_file" | "settings";
  meaning: string;
  used?: number; // in the unit of the value, bytes if that has several, of all processes; of limits of which somebody keeps count
  resetMs?: number; // when a period ends
}

export type Limits = Record<string, Limit>;

const UNITS = ["", "KiB", "MiB", "GiB", "TiB"];

/* A number of bytes as settings have it, such as 10GiB; NaN: it is none. */
function bytesOf(value: string): number {
  const [, number, unit] = /^([\d.]+)([KMGT]iB)?$/.exec(value) ?? [];
  return Number(number) * 1024 ** UNITS.indexOf(unit ?? "");
}

/* How much of a limit is used, from 0 on; undefined: nobody keeps count, or there is no limit. */
export function usedShare(limit: Limit): number | undefined {
  const of = bytesOf(/period_limit_mb: *([\d.]+)/.exec(limit.value)?.[1] ?? limit.value);
  return limit.used === undefined || !(of > 0) ? undefined : limit.used / of;
}

/* Of a push token: a label says which tenant each series goes to. */
export interface TenantLabel {
  name: string;
  tenants?: { value: string; tenant: string }[];
  prefix?: string; // before the value of the label, if the token has that tenant
  otherwise?: string; // for all other series; without it they are refused
}

export interface Token {
  id: string;
  name: string;
  state: "active" | "expired" | "revoked" | "not yet valid";
  tenants: string[]; // "*" is all
  scopes: string[];
  matchers?: string;
  tenantLabel?: TenantLabel;
  createdMs: number;
  createdBy: string;
  expiresMs: number; // 0: never
  revokedMs?: number;
  revokedBy?: string;
  oldSecretUntilMs?: number;
  lastUsedMs?: number; // when the hour of its last use began
  token?: string; // its text, only in the answer that makes it
}

/* "a=x, b=y" as the server takes it; null: it is something else. */
export function parseValues(text: string): { value: string; tenant: string }[] | null {
  const parts = text.split(",").map((one) => one.trim());
  const found = parts.filter((one) => one !== "").map((one) => /^(.*?)\s*=\s*([^=\s]+)$/.exec(one));
  return found.every((one) => one !== null) ? found.map((one) => ({ value: one[1]!, tenant: one[2]! })) : null;
}

const DAY_MS = 86_400_000;

/* Whether it was not used for so many days, if uses were recorded for so long. A token that is younger may be on its way. */
export function isIdle(token: Token, sinceMs: number | undefined, days: number, nowMs: number): boolean {
  return sinceMs !== undefined && Math.max(token.lastUsedMs ?? sinceMs, token.createdMs) < nowMs - days * DAY_MS;
}

export interface NewToken {
  name: string;
  tenants: string[];
  scopes: string[];
  matchers?: string;
  tenantLabel?: TenantLabel;
  expiresIn: string;
}

export interface Binding {
  id: string;
  issuer: string;
  claim: string;
  value: string;
  tenants: string;
  role: string;
  createdMs: number;
  createdBy: string;
}

export interface AuditRecord {
  ms: number;
  kind: string;
  seq: number;
  op?: number;
  phase?: "begin" | "result";
  who?: string;
  token?: string;
  session?: string;
  issuer?: string;
  tenant?: string;
  method?: string;
  route?: string;
  detail?: string;
  fromMs?: number;
  toMs?: number;
  count?: number;
  bytes?: number;
  status?: number;
  source?: string;
}

export interface UsageNumbers {
  profiles: number;
  unmeasured_profiles: number;
  samples: number;
  wire_bytes: number;
  raw_bytes: number;
  series: number;
}

export interface UsageDay extends UsageNumbers {
  tenant: string;
  day: string;
  version: number;
  revision: number;
  preliminary: boolean;
  stored_byte_days: number;
  stored_byte_seconds: number;
  writes: number;
  queries: number;
  reads: number;
  read_bytes: number;
  cpu_ms: number;
  services?: (UsageNumbers & { service: string })[];
}

export interface Usage {
  from: string;
  until: string;
  days: UsageDay[];
  waiting: { tenant: string; profiles: number; wire_bytes: number }[];
}

const KEY = "governed";

function useGoverned<Answer>(path: string, query: Record<string, string> = {}, enabled = true) {
  return useQuery(ask([KEY, path, query], (signal) => get<Answer>(path, query, signal), enabled));
}

export const useTenants = () => useGoverned<{ tenants: Tenant[] }>("api/tenants");
export interface Tokens {
  tokens: Token[];
  usesSinceMs?: number; // since when uses are recorded; undefined: nobody knows when a token was used
}

export const useTokens = (tenant: string) => useGoverned<Tokens>("api/tokens", { tenant });
export const useBindings = () => useGoverned<{ bindings: Binding[] }>("api/bindings");

export const tenantPath = (id: string): string => `api/tenants/${encodeURIComponent(id)}`;
export const tokenPath = (id: string): string => `api/tokens/${encodeURIComponent(id)}`;

export const useLimits = (tenant: string) => useGoverned<Limits>(`${tenantPath(tenant)}/limits`);

export interface Change {
  method: "POST" | "PUT" | "DELETE";
  path: string;
  body?: unknown;
}

/* Changes something, says so, and asks again for all that is governed. */
export function useChange<Answer>(said: (answer: Answer) => string, onDone: (answer: Answer) => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async ({ method, path, body }: Change) => {
      const response = await send(path, {
        method,
        body: JSON.stringify(body ?? {}),
        headers: { "Content-Type": "application/json" },
      });
      return (await response.json()) as Answer;
    },
    onSuccess: async (answer) => {
      await client.invalidateQueries({ queryKey: [KEY] });
      toast(said(answer));
      onDone(answer);
    },
  });
}

export const RECORDS_MAX = 10_000;
const RECORDS_OF_A_PAGE = 1000;

export interface AuditQuery {
  from: number;
  to: number;
  who: string;
  tenant: string;
  kind: string;
}

export interface Audit {
  records: AuditRecord[]; // the newest first
  more: boolean; // there are records after these
  unreadable: string[];
}

/* Records of a range, page by page as the server has them, up to RECORDS_MAX. */
async function readAudit(query: AuditQuery, signal: AbortSignal): Promise<Audit> {
  const records: AuditRecord[] = [];
  const unreadable = new Set<string>();
  let from: number | undefined = query.from;
  while (from !== undefined && records.length < RECORDS_MAX) {
    const page: { records: AuditRecord[]; nextMs?: number; unreadable?: string[] } = await get(
      "api/audit",
      { ...query, from, limit: RECORDS_OF_A_PAGE },
      signal,
    );
    records.push(...page.records);
    for (const one of page.unreadable ?? []) unreadable.add(one);
    from = page.nextMs;
  }
  return { records: records.reverse(), more: from !== undefined, unreadable: [...unreadable] };
}

export function useAudit(query: AuditQuery) {
  return useQuery(ask(["audit", query], (signal) => readAudit(query, signal)));
}

export interface UsageQuery {
  [name: string]: string;
  from: string;
  until: string;
  by: string;
}

export function useUsage(query: UsageQuery) {
  return useQuery(ask(["usage", query], (signal) => get<Usage>("api/usage", query, signal)));
}

export async function usageAsCsv(query: UsageQuery): Promise<Blob> {
  return (await send(address("api/usage", { ...query, format: "csv" }), {})).blob();
}
