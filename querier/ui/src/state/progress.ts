/* How far the queries are that are under way, all of the page together. */

import { useSyncExternalStore } from "react";

import type { Progress } from "../api/events";
import { formatCount, formatValue } from "../flame/units";

/* The first of them that any query is in is said: what it waits for, others in the queue wait for as well. */
const STAGES = ["ingesters", "blocks", "queued", "answer"] as const;
const running = new Set<{ said: Progress | null }>();
const listeners = new Set<() => void>();
let current: Progress | null = null;

export function sumOf(all: readonly Progress[]): Progress | null {
  if (all.length === 0) return null;
  const sum: Progress = { stage: "answer", done: 0, total: 0, bytes: 0, profiles: 0 };
  for (const one of all) {
    sum.done += one.done;
    sum.total += one.total;
    sum.bytes += one.bytes;
    sum.profiles += one.profiles;
    if (STAGES.indexOf(one.stage) < STAGES.indexOf(sum.stage)) sum.stage = one.stage;
  }
  return sum;
}

const WORDS: Record<Progress["stage"], string> = {
  queued: "Waiting for other queries",
  blocks: "Reading",
  ingesters: "Waiting for ingesters",
  answer: "Making the picture",
};

/* What the server says, in a line. */
export function progressText(progress: Progress): string {
  const parts = [WORDS[progress.stage]];
  if (progress.total > 0) parts.push(`${formatCount(progress.done)} of ${formatCount(progress.total)} blocks`);
  if (progress.profiles > 0) parts.push(`${formatCount(progress.profiles)} profiles`);
  if (progress.bytes > 0) parts.push(formatValue(progress.bytes, "bytes"));
  return parts.join(" · ");
}

function changed(): void {
  current = sumOf([...running].flatMap(({ said }) => (said === null ? [] : [said])));
  for (const listener of listeners) listener();
}

/* Runs a query that tells how far it is, until its promise is settled. */
export async function followed<Answer>(run: (tell: (progress: Progress) => void) => Promise<Answer>): Promise<Answer> {
  const query: { said: Progress | null } = { said: null };
  running.add(query);
  try {
    return await run((progress) => {
      query.said = progress;
      changed();
    });
  } finally {
    running.delete(query);
    if (query.said !== null) changed();
  }
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/* null: no query says anything, as all are fast. */
export function useProgress(): Progress | null {
  return useSyncExternalStore(subscribe, () => current);
}
