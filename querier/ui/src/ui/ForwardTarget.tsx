/* A target of forwarding as a row of a table. */

import { formatCount, formatDuration, formatValue } from "../flame/units";

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
}

const CLASS = { ok: "ok", paused: "warn", denied: "err", retrying: "err" } as const;
const WORDS = { ok: "ok", paused: "paused", denied: "refuses our credentials", retrying: "trying again" } as const;

interface RowProps {
  target: Target;
  busy: boolean;
  onChange: (verb: "pause" | "resume") => void;
  onDead: () => void; // shows what the target has refused
  onDrop: () => void; // asks whether what is pending shall be dropped
}

export function Row({ target, busy, onChange, onDead, onDrop }: RowProps) {
  const paused = target.state === "paused";
  const dropped = Object.values(target.droppedProfiles).reduce((sum, one) => sum + one, 0);
  return (
    <tr>
      <td>
        {target.name} <small>{target.url}</small>
        {target.error !== "" && <div className="err">{target.error}</div>}
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
        <button type="button" className="btn small danger" disabled={target.pendingProfiles === 0} onClick={onDrop}>
          Drop <span className="hidden-text">what is pending for {target.name}</span>
        </button>
      </td>
    </tr>
  );
}
