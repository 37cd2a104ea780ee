/* What pages of administration share: their head, the dialogs that make and change things, and words for states. */

import { type ReactNode, useId } from "react";
import { Link } from "wouter";

import { useRights, useWho } from "../../api/who";
import { dateTime } from "../../state/range";
import { useElsewhere } from "../../state/elsewhere";
import { useRoute } from "../../state/route";
import { useSettings } from "../../state/settings";
import { Icon } from "../../ui/Icon";
import "./admin.css";

const PAGES = [
  ["/tenants", "Tenants"],
  ["/tokens", "Tokens"],
  ["/people", "People"],
  ["/audit", "Audit"],
] as const;

export const ROWS_MAX = 300; // of a table; a search finds the others

export function Head({ title, children }: { title: string; children?: ReactNode }) {
  const { path, params } = useRoute();
  const elsewhere = useElsewhere();
  const who = useWho();
  const { governs } = useRights();
  return (
    <>
      <div className="toolbar admin-head">
        <h1>{title}</h1>
        <nav aria-label="Administration">
          {PAGES.map(([to, name]) => (
            <Link key={to} href={elsewhere(to, { of: params.of })} className="btn small" aria-current={to === path ? "page" : undefined}>
              {name}
            </Link>
          ))}
        </nav>
        <div className="push">{children}</div>
      </div>
      {who.state === "open" && (
        <p className="strip" role="status">
          <Icon name="warn" />
          This server asks nobody who they are (access.mode is none): what is made here has no effect until it does.
        </p>
      )}
      {who.state === "in" && !governs && (
        <p className="strip" role="status">
          <Icon name="warn" />
          You may {who.scopes.join(", ") || "nothing"}. Administration needs the scope tenant-admin of a tenant, or admin: ask whoever gave
          you access.
        </p>
      )}
    </>
  );
}

interface FieldProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  required?: boolean;
  placeholder?: string;
  hint?: string;
  choices?: readonly string[]; // that are offered; others may be typed
}

export function Field({ label, value, onChange, required = false, placeholder, hint, choices }: FieldProps) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        className="input"
        value={value}
        required={required}
        placeholder={placeholder}
        spellCheck={false}
        autoComplete="off"
        list={choices === undefined ? undefined : `${id}-choices`}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        onChange={(event) => onChange(event.target.value)}
      />
      {choices !== undefined && (
        <datalist id={`${id}-choices`}>
          {choices.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
      {hint !== undefined && (
        <small id={`${id}-hint`} className="note">
          {hint}
        </small>
      )}
    </div>
  );
}

export function Select({
  label,
  value,
  onChange,
  options,
}: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  options: readonly (readonly [string, string])[];
}) {
  return (
    <label>
      {label}
      <select className="input" value={value} onChange={(event) => onChange(event.target.value)}>
        {options.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

const CLASS: Record<string, string> = { active: "ok", suspended: "warn", deleting: "err", deleted: "err", expired: "warn", revoked: "err" };

export function State({ of }: { of: string }) {
  return <span className={CLASS[of] ?? ""}>{of}</span>;
}

/* A time, or what there is instead of one. */
export function When({ ms, none = "–" }: { ms: number | undefined; none?: string }) {
  const { utc } = useSettings();
  return ms === undefined || ms === 0 ? none : <time dateTime={new Date(ms).toISOString()}>{dateTime(ms, utc)}</time>;
}

/* Which of many rows are shown. */
export function Foot({ count, none }: { count: number; none: string }) {
  if (count === 0) return <p className="table-foot">{none}</p>;
  return count > ROWS_MAX ? (
    <p className="table-foot">
      The first {ROWS_MAX} of {count}; search for the others.
    </p>
  ) : null;
}

/* Whether all words of a search are somewhere in these texts. */
export function matches(search: string, ...texts: (string | readonly string[])[]): boolean {
  const text = texts.flat().join(" ").toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
