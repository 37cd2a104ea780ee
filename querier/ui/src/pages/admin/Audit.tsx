/* Who did what: the newest records of a range, by person, tenant and kind. */

import { useEffect, useState } from "react";

import { type AuditRecord, RECORDS_MAX, useAudit } from "../../api/admin";
import { formatCount, formatValue } from "../../flame/units";
import { useNow } from "../../state/now";
import { dateTime, resolve } from "../../state/range";
import { useRoute } from "../../state/route";
import { useSettings } from "../../state/settings";
import { Skeleton } from "../../ui/Busy";
import { Problem } from "../../ui/Problem";
import { Scroll } from "../../ui/Scroll";
import { SearchField } from "../../ui/SearchField";
import { save } from "../../ui/exports";
import { Field, Head, ROWS_MAX, Select, When, matches } from "./parts";

/* common/access/audit/audit_record.c */
const KINDS = ["admin", "login", "delete", "share", "change", "export", "read", "reads", "refused", "retention", "lost", "object", "end"];
const TYPING_MS = 400;
/* "now" of the page is the begin of a second; what was done in this second is to be here, too. */
const SECOND_MS = 1000;

/* Typed filters are in the address once the user pauses, so that not every letter is a question. */
function Filter({ label, name }: { label: string; name: "who" | "of" }) {
  const { params, set } = useRoute();
  const value = params[name];
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    const timer = setTimeout(() => set({ [name]: text.trim() }, { replace: true }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text, name, set]);
  return <Field label={label} value={text} onChange={setText} />;
}

function about(record: AuditRecord, utc: boolean): string {
  const parts = [record.detail ?? ""];
  if (record.fromMs !== undefined && record.toMs !== undefined)
    parts.push(`${dateTime(record.fromMs, utc)} – ${dateTime(record.toMs, utc)}`);
  if (record.count !== undefined) parts.push(`${formatCount(record.count)} times`);
  if (record.bytes !== undefined) parts.push(formatValue(record.bytes, "bytes"));
  return parts.filter((one) => one !== "").join(" · ");
}

function Row({ record }: { record: AuditRecord }) {
  const { utc } = useSettings();
  return (
    <tr>
      <td className="nowrap">
        <When ms={record.ms} />
      </td>
      <td>
        {record.who ?? "–"}
        {record.source !== undefined && <small>from {record.source}</small>}
      </td>
      <td>
        {record.kind}
        {record.phase === "begin" && <small>begins</small>}
      </td>
      <td>{record.tenant?.replaceAll("|", ", ") ?? ""}</td>
      <td>
        {record.route !== undefined && (
          <code>
            {record.method} {record.route}
          </code>
        )}
        <small className="detail">{about(record, utc)}</small>
      </td>
      <td className={record.status !== undefined && record.status >= 400 ? "n err" : "n"}>{record.status ?? ""}</td>
    </tr>
  );
}

export function AuditPage() {
  const { params, set } = useRoute();
  const { nowMs } = useNow();
  const { utc } = useSettings();
  const [from, to] = resolve(params, nowMs + SECOND_MS, utc);
  const audit = useAudit({ from, to, who: params.who, tenant: params.of, kind: params.record });
  const found = (audit.data?.records ?? []).filter((one) =>
    matches(params.q, one.who ?? "", one.detail ?? "", one.route ?? "", one.source ?? ""),
  );
  const lines = (): Blob =>
    new Blob(
      found.map((one) => `${JSON.stringify(one)}\n`),
      { type: "application/x-ndjson" },
    );
  return (
    <>
      <Head title="Audit">
        <SearchField label="Search records" value={params.q} onChange={(q) => set({ q }, { replace: true })} />
        <button type="button" className="btn small" disabled={found.length === 0} onClick={() => save(lines(), "audit.ndjson")}>
          Save as JSON lines
        </button>
      </Head>
      <section className="card" aria-label="Records">
        <header className="fields admin-filters">
          <Filter label="Who (token, subject or name)" name="who" />
          <Filter label="Tenant" name="of" />
          <Select
            label="Kind"
            value={params.record}
            onChange={(record) => set({ record })}
            options={[["", "all"], ...KINDS.map((one) => [one, one] as const)]}
          />
          <p className="note" role="status">
            {audit.data === undefined
              ? ""
              : `${formatCount(found.length)} ${found.length === 1 ? "record" : "records"}, the newest first. The last minutes come with the next flush.`}
          </p>
        </header>
        {audit.isError && <Problem fault={audit.error} onRetry={() => void audit.refetch()} />}
        {audit.data === undefined && !audit.isError && <Skeleton rows={10} />}
        {audit.data !== undefined && (
          <div className={audit.isPlaceholderData ? "stale" : undefined}>
            {audit.data.unreadable.length > 0 && (
              <p className="table-foot err">
                Objects of the audit cannot be read, and their records are missing: {audit.data.unreadable.join(", ")}
              </p>
            )}
            {audit.data.more && (
              <p className="table-foot warn">
                There are more than {formatCount(RECORDS_MAX)} records, and the newest are missing here: choose a shorter time range.
              </p>
            )}
            <Scroll label="Records">
              <table className="plain admin">
                <thead>
                  <tr>
                    <th scope="col">When</th>
                    <th scope="col">Who</th>
                    <th scope="col">Kind</th>
                    <th scope="col">Tenant</th>
                    <th scope="col">What</th>
                    <th scope="col" className="n">
                      Status
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {found.slice(0, ROWS_MAX).map((record, index) => (
                    <Row key={`${record.ms} ${record.seq} ${index}`} record={record} />
                  ))}
                </tbody>
              </table>
            </Scroll>
            {found.length === 0 && <p className="table-foot">Nothing of that kind in this time range.</p>}
            {found.length > ROWS_MAX && <p className="table-foot">The newest {ROWS_MAX}; all are in the saved file.</p>}
          </div>
        )}
      </section>
    </>
  );
}
