/* A resend: profiles of the past that are sent to a target once more. */

import { formatCount } from "../flame/units";

/* The last one, or the one under way. */
export interface Resend {
  state: "committing" | "sending" | "done";
  fromMs: number;
  untilMs: number;
  atMs?: number; // all before it is done, of the tenant that it is at
  tenant?: string;
  heldTenants?: number; // which the target does not take now; others go on
  sentProfiles: number;
  knownProfiles: number; // of them the target had before
  refusedProfiles: number;
  lostProfiles: number;
  incomplete: boolean;
}

/* How far a resend is, of one tenant: 0 to 1. */
export function progressOf(resend: Resend): number {
  if (resend.state === "done") return 1;
  if (resend.atMs === undefined || resend.untilMs <= resend.fromMs) return 0;
  return Math.min(Math.max((resend.atMs - resend.fromMs) / (resend.untilMs - resend.fromMs), 0), 1);
}

/* A time as an input of type datetime-local has it: without a zone, here UTC. */
export function inputOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 16);
}

/* The time of such an input; NaN: none. */
export function timeOf(input: string): number {
  return Date.parse(`${input}Z`);
}

export interface Preview {
  profiles: number;
  lostProfiles: number;
}

export function previewText({ profiles, lostProfiles }: Preview): string {
  const lost = lostProfiles === 0 ? "" : ` ${formatCount(lostProfiles)} more are only in rollups and cannot be sent.`;
  return `About ${formatCount(profiles)} ${profiles === 1 ? "profile" : "profiles"} in blocks, before the target's selector and rules.${lost}`;
}
