/* Asks which time is to be sent to a target once more, and says how many profiles that is. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ACTION, address, get, send } from "../api/client";
import { Ask } from "./Ask";
import { Problem } from "./Problem";
import { type Preview, inputOf, previewText, timeOf } from "./resend";
import { toast } from "./toast";

const DAY_MS = 86_400_000;

interface Props {
  target: string;
  nowMs: number; // when the dialog was opened
  queryKey: readonly unknown[]; // of the targets, which change
  onClose: () => void;
}

export function ResendDialog({ target, nowMs, queryKey, onClose }: Props) {
  const client = useQueryClient();
  const [from, setFrom] = useState(inputOf(nowMs - DAY_MS));
  const [until, setUntil] = useState(inputOf(nowMs));
  const span = { from: timeOf(from), until: timeOf(until) };
  const valid = span.from < span.until; // false for NaN
  const path = `api/forward/${encodeURIComponent(target)}/resend`;
  const preview = useQuery({
    queryKey: ["resend", target, span.from, span.until],
    queryFn: ({ signal }) => get<Preview>(path, { from: String(span.from), until: String(span.until) }, signal),
    enabled: valid,
    meta: { quiet: true },
  });
  const begin = useMutation({
    mutationFn: () => send(address(path, { from: String(span.from), until: String(span.until) }), { method: "POST", headers: ACTION }),
    onSuccess: () => {
      toast(`Profiles are sent to ${target} once more`);
      onClose();
    },
    onSettled: () => client.invalidateQueries({ queryKey }),
  });
  return (
    <Ask
      title={`Send profiles to ${target} once more?`}
      action="Resend"
      unready={!valid}
      change={begin}
      onSubmit={() => begin.mutate()}
      onClose={onClose}
    >
      <label>
        From (UTC)
        <input type="datetime-local" required value={from} onChange={(event) => setFrom(event.target.value)} />
      </label>
      <label>
        Until (UTC)
        <input type="datetime-local" required value={until} onChange={(event) => setUntil(event.target.value)} />
      </label>
      {!valid && <p className="err">The end has to be after the beginning.</p>}
      {valid && preview.isError && <Problem fault={preview.error} onRetry={() => void preview.refetch()} />}
      {valid && !preview.isError && <p role="status">{preview.data === undefined ? "Counting …" : previewText(preview.data)}</p>}
      <p>Another flamegrid finds by their ids those that it has. Anything else counts them a second time.</p>
    </Ask>
  );
}
