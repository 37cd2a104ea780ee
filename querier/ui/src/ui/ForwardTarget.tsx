/* A target of forwarding as a row of a table. */

import { formatCount, formatDuration, formatValue } from "../flame/units";
import { type Resend, progressOf } from "./resend";

export interface Target {
  name: string;
  url: string;
  state: "ok" | "paused" | "denied" | "retrying";
  error: string; // of the last request
  pendingProfiles: number;
  pendingBytes: number;
  queueMaxBytes: number;
  oldestPendingSeconds: number;
  sentProfiles: number;
  deadProfiles: number;
  droppedProfiles: Record<string, number>;
  resend?: Resend;
}

const CLASS = { ok: "ok", paused: "warn", denied: "err", retrying: "err" } as const;
const WORDS = { ok: "ok", paused: "paused", denied: "refuses our credentials", retrying: "trying again" } as const;

function ResendState({ resend, busy, onEnd }: { resend: Resend; busy: boolean; onEnd: () => void }) {
  const counts = `${formatCount(resend.sentProfiles)} sent, ${formatCount(resend.knownProfiles)} of them known there`;
  const more = [
    (resend.heldTenants ?? 0) > 0 ? `the target does not take ${formatCount(resend.heldTenants ?? 0)} of the tenants now` : "",
    resend.refusedProfiles > 0 ? `${formatCount(resend.refusedProfiles)} refused` : "",
    resend.lostProfiles > 0 ? `${formatCount(resend.lostProfiles)} only in rollups` : "",
    resend.incomplete ? "ended early, or with parts that cannot be read" : "",
  ].filter((one) => one !== "");
  const text = [counts, ...more].join("; ");
  if (resend.state === "done") return <small>Last resend: {text}</small>;
  return (
    <div className="resend">
      <progress aria-label="Resend" max={1} value={resend.state === "committing" ? undefined : progressOf(resend)} />{" "}
      <small>
        Resend{resend.tenant !== undefined && ` of ${resend.tenant}`}: {text}
      </small>{" "}
      <button type="button" className="btn small" disabled={busy} onClick={onEnd}>
        Stop <span className="hidden-text">the resend</span>
      </button>
    </div>
  );
}

interface RowProps {
  target: Target;
  busy: boolean;
  onChange: (verb: "pause" | "resume") => void;
  onDead: () => void; // shows what the target has refused
  onDrop: () => void; // asks whether what is pending shall be dropped
  onResend: () => void; // asks which time is to be sent once more
  onEndResend: () => void;
}

export function Row({ target, busy, onChange, onDead, onDrop, onResend, onEndResend }: RowProps) {
  const paused = target.state === "paused";
  const resending = target.resend !== undefined && target.resend.state !== "done";
  const dropped = Object.values(target.droppedProfiles).reduce((sum, one) => sum + one, 0);
  return (
    <tr>
      <td>
        {target.name} <small>{target.url}</small>
        {target.error !== "" && <div className="err">{target.error}</div>}
        {target.resend !== undefined && (
          <div>
            <ResendState resend={target.resend} busy={busy} onEnd={onEndResend} />
          </div>
        )}
      </td>
      <td className={CLASS[target.state]}>{WORDS[target.state]}</td>
      <td className="n">{formatCount(target.pendingProfiles)}</td>
      <td className="n">
        {formatValue(target.pendingBytes, "bytes")} of {formatValue(target.queueMaxBytes, "bytes")}
      </td>
      <td className="n">{target.pendingProfiles === 0 ? "–" : formatDuration(target.oldestPendingSeconds * 1000)}</td>
      <td className="n">{formatCount(target.sentProfiles)}</td>
      <td className={dropped > 0 ? "n warn" : "n"}>{formatCount(dropped)}</td>
      <td className={target.deadProfiles > 0 ? "n err" : "n"}>
        {target.deadProfiles === 0 ? (
          "0"
        ) : (
          <button type="button" className="link" onClick={onDead}>
            {formatCount(target.deadProfiles)} <span className="hidden-text">refused by {target.name}</span>
          </button>
        )}
      </td>
      <td className="actions">
        <button type="button" className="btn small" disabled={busy} onClick={() => onChange(paused ? "resume" : "pause")}>
          {paused ? "Resume" : "Pause"} <span className="hidden-text">{target.name}</span>
        </button>{" "}
        <button type="button" className="btn small" disabled={resending} onClick={onResend}>
          Resend <span className="hidden-text">to {target.name}</span>
        </button>{" "}
        <button type="button" className="btn small danger" disabled={target.pendingProfiles === 0} onClick={onDrop}>
          Drop <span className="hidden-text">what is pending for {target.name}</span>
        </button>
      </td>
    </tr>
  );
}
