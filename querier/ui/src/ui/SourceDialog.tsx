/* The lines of a function with what each costs, and where its source can be read. */

import { useQuery } from "@tanstack/react-query";

import { address, send } from "../api/client";
import { type Span, ask, useValues } from "../api/queries";
import { linesOf } from "../flame/pprof";
import { formatCount, formatShare, formatValue, unitOf } from "../flame/units";
import { useSettings } from "../state/settings";
import { type Query, formatQuery } from "../state/selector";
import { type Repository, linkOf, sourceOf } from "../state/source";
import { Skeleton } from "./Busy";
import { Dialog } from "./Dialog";
import { Problem } from "./Problem";
import { Scroll } from "./Scroll";

const LINES = 200; // of a function; the heaviest come first

/* The pprof of all stacks is asked for, since one that is cut may lack lines. It is read here and forgotten. */
function useLinesOf(query: Query, span: Span, callSite: string[], fn: string) {
  const parameters = { query: formatQuery(query), from: span.from, until: span.until, callSite, format: "pprof" };
  return useQuery(
    ask(["lines of", parameters, fn], async (signal) =>
      linesOf(new Uint8Array(await (await send(address("pyroscope/render", parameters), { signal })).arrayBuffer()), fn),
    ),
  );
}

/* What most series say; `others` also say something. */
function useLabel(query: Query, span: Span, name: string): { value: string; others: number; settled: boolean } {
  const asked = useValues(query, span, name, "");
  const values = (asked.data?.values ?? []).filter((row) => row.value !== "");
  return { value: values[0]?.value ?? "", others: Math.max(values.length - 1, 0), settled: !asked.isPending };
}

interface Props {
  query: Query;
  span: Span;
  callSite: string[];
  fn: string;
  onClose: () => void;
}

export function SourceDialog({ query, span, callSite, fn, onClose }: Props) {
  const { sourceLinks } = useSettings();
  const found = useLinesOf(query, span, callSite, fn);
  const url = useLabel(query, span, "service_repository");
  const ref = useLabel(query, span, "service_git_ref");
  const root = useLabel(query, span, "service_root_path");
  const unit = unitOf(query.type);
  const repository: Repository | null = url.value === "" ? null : { url: url.value, ref: ref.value, root: root.value };
  const link = (file: string, line: number): string | null =>
    sourceLinks !== "" ? linkOf(sourceLinks, fn, file, line, repository) : sourceOf(file, line, repository);
  const own = sourceLinks === "" ? null : linkOf(sourceLinks, fn, "", 0, repository);
  const lines = found.data?.lines ?? [];
  const settled = found.data !== undefined && url.settled && ref.settled && root.settled;

  return (
    <Dialog title="Source and lines" open onClose={onClose}>
      <p className="cut" title={fn}>
        <b>{fn}</b>
      </p>
      {found.isError && <Problem fault={found.error} onRetry={() => void found.refetch()} />}
      {!found.isError && !settled && <Skeleton />}
      {settled && lines.length === 0 && <p>No profile of this selection and time says where this function is.</p>}
      {settled && lines.length > 0 && (
        <>
          <Scroll label="Lines">
            <table className="plain">
              <thead>
                <tr>
                  <th scope="col">Line</th>
                  <th scope="col" className="n">
                    Self
                  </th>
                  <th scope="col" className="n">
                    Total
                  </th>
                  <th scope="col" className="n">
                    of all
                  </th>
                </tr>
              </thead>
              <tbody>
                {lines.slice(0, LINES).map((row) => {
                  const to = link(row.file, row.line);
                  const text = row.file === "" ? "in no file that the profiles name" : row.line > 0 ? `${row.file}:${row.line}` : row.file;
                  return (
                    <tr key={`${row.file}:${row.line}`}>
                      <th scope="row">
                        {to === null ? (
                          text
                        ) : (
                          <a href={to} target="_blank" rel="noopener noreferrer">
                            {text}
                          </a>
                        )}
                      </th>
                      <td className="n">{formatValue(row.self, unit)}</td>
                      <td className="n">{formatValue(row.total, unit)}</td>
                      <td className="n">{formatShare(found.data!.all > 0 ? row.total / found.data!.all : 0)}</td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </Scroll>
          {lines.length > LINES && (
            <p className="table-foot">
              The heaviest {LINES} of {formatCount(lines.length)} lines.
            </p>
          )}
          {lines.every((row) => link(row.file, row.line) === null) && (
            <p className="note">
              {repository === null
                ? "Profiles with the label service_repository, such as https://github.com/acme/shop, link to their source; service_git_ref is the commit, and service_root_path the folder of the service. Or give an address of your own in the settings (?)."
                : `No file of this function is in ${repository.url}: its name has to be relative to the repository, or below a folder that is named as the repository.`}
            </p>
          )}
          {repository !== null && url.others + ref.others > 0 && (
            <p className="note">
              Links are of {repository.url}
              {repository.ref !== "" && ` at ${repository.ref}`}, which most series of this selection have; others have another one.
            </p>
          )}
        </>
      )}
      {own !== null && lines.every((row) => row.file === "") && (
        <p>
          <a href={own} target="_blank" rel="noopener noreferrer">
            Open source
          </a>
        </p>
      )}
    </Dialog>
  );
}
