/* Files that somebody uploads to look at them and to share them: a list, one of them, or two compared. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useRef, useState } from "react";
import { Link } from "wouter";

import { ACTION, ApiError, address, send } from "../api/client";
import { useAdhoc, useAdhocList } from "../api/queries";
import type { AdhocFile } from "../api/types";
import { take } from "../flame/load";
import { sandwich } from "../flame/tree";
import { formatCount, formatDuration, formatShare, formatValue, unitOfMetadata } from "../flame/units";
import { dateTime } from "../state/range";
import { BASE, useRoute } from "../state/route";
import { useSettings } from "../state/settings";
import { Skeleton } from "../ui/Busy";
import { FlameGraph } from "../ui/FlameGraph";
import { Icon } from "../ui/Icon";
import { Menu } from "../ui/Menu";
import { Problem } from "../ui/Problem";
import { Scroll } from "../ui/Scroll";
import { SearchField } from "../ui/SearchField";
import { save, savePicture } from "../ui/exports";
import { functionsOf } from "../ui/functions";
import { copy, toast } from "../ui/toast";
import { ProfileCard } from "./ProfileCard";

async function upload(file: File): Promise<AdhocFile> {
  const response = await send(address("api/adhoc", { name: file.name }), {
    method: "POST",
    body: file,
    headers: { "Content-Type": "application/octet-stream" },
  });
  return response.json() as Promise<AdhocFile>;
}

function Drop() {
  const [over, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const client = useQueryClient();
  const { set } = useRoute();
  const sent = useMutation({
    mutationFn: async (files: File[]) => {
      const made: AdhocFile[] = [];
      for (const file of files) made.push(await upload(file));
      return made;
    },
    onSettled: () => client.invalidateQueries({ queryKey: ["adhoc"] }),
    onSuccess: (made) => {
      if (made.length === 1) set({ id: made[0]!.id, other: "", type: "" });
      if (made.length === 2) set({ id: made[0]!.id, other: made[1]!.id, type: "" });
    },
  });
  const start = (files: FileList | null): void => {
    if (files !== null && files.length > 0) sent.mutate([...files]);
  };

  return (
    <>
      <div
        className={over ? "drop over" : "drop"}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          start(event.dataTransfer.files);
        }}
      >
        <Icon name="adhoc" size={22} />
        <p>{sent.isPending ? "Uploading …" : "Drop a profile here, or two to compare them"}</p>
        <button type="button" className="btn main" disabled={sent.isPending} onClick={() => input.current!.click()}>
          Choose files
        </button>
        <p>pprof, JFR, speedscope, folded stacks, lines, trie, tree, flamebearer JSON, output of perf script; plain, gzip or zstd</p>
        <input
          ref={input}
          type="file"
          multiple
          hidden
          aria-label="Profiles"
          onChange={(event) => {
            start(event.target.files);
            event.target.value = "";
          }}
        />
      </div>
      {sent.isError && (
        <section className="card">
          <Problem fault={sent.error} />
        </section>
      )}
    </>
  );
}

function expiry(ms: number): string {
  const left = ms - Date.now();
  return left > 0 ? `in ${formatDuration(left)}` : "now";
}

async function remove(id: string): Promise<void> {
  await send(`api/adhoc/${encodeURIComponent(id)}`, { method: "DELETE", headers: ACTION });
}

function List() {
  const list = useAdhocList();
  const { utc } = useSettings();
  const { params, link, set } = useRoute();
  const client = useQueryClient();
  const gone = useMutation({
    mutationFn: remove,
    onSuccess: () => toast("Deleted"),
    onError: (fault) => toast(`Not deleted: ${fault.message}`),
    onSettled: () => client.invalidateQueries({ queryKey: ["adhoc"] }),
  });
  const files = list.data?.profiles ?? [];
  const picked = params.ticked.split(",").filter((id) => files.some((file) => file.id === id));
  const pick = (id: string): void => {
    const next = picked.includes(id) ? picked.filter((one) => one !== id) : [...picked, id].slice(-2);
    set({ ticked: next.join(",") }, { replace: true });
  };

  return (
    <>
      <h1>Ad hoc profiles</h1>
      {!(list.error instanceof ApiError && list.error.status === 501) && <Drop />}
      <section className="card">
        <header>
          <h2>
            {formatCount(files.length)} {files.length === 1 ? "file" : "files"}
          </h2>
          <div className="push">
            <button
              type="button"
              className="btn small"
              disabled={picked.length !== 2}
              title="Tick two files"
              onClick={() => set({ id: picked[0]!, other: picked[1]!, type: "", ticked: "" })}
            >
              <Icon name="diff" />
              Compare the two ticked
            </button>
          </div>
        </header>
        {list.isError && list.data === undefined && <Problem fault={list.error} onRetry={() => void list.refetch()} />}
        {files.length > 0 && (
          <Scroll label="Files">
            <table className="plain">
              <thead>
                <tr>
                  <th scope="col">
                    <span className="hidden-text">Compare</span>
                  </th>
                  <th scope="col">File</th>
                  <th scope="col" className="n">
                    Size
                  </th>
                  <th scope="col">Uploaded</th>
                  <th scope="col">Expires</th>
                  <th scope="col" className="n">
                    Actions
                  </th>
                </tr>
              </thead>
              <tbody>
                {files.map((file) => (
                  <tr key={file.id}>
                    <td>
                      <input
                        type="checkbox"
                        aria-label={`Compare ${file.name}`}
                        checked={picked.includes(file.id)}
                        onChange={() => pick(file.id)}
                      />
                    </td>
                    <td>
                      <Link href={link({ id: file.id, other: "", type: "" }, "/adhoc").slice(BASE.length)}>{file.name}</Link>
                    </td>
                    <td className="n">{formatValue(file.bytes, "bytes")}</td>
                    <td>{dateTime(file.uploaded, utc)}</td>
                    <td title={dateTime(file.expires, utc)}>{expiry(file.expires)}</td>
                    <td>
                      <div className="actions">
                        <button
                          type="button"
                          className="btn bare small"
                          onClick={() => void copy("Link", location.origin + link({ id: file.id, other: "", type: "" }, "/adhoc"))}
                        >
                          <Icon name="share" />
                          Copy link
                        </button>
                        <button type="button" className="btn bare small" onClick={() => void download(file)}>
                          <Icon name="export" />
                          Download
                        </button>
                        <button
                          type="button"
                          className="btn bare small danger"
                          aria-label={`Delete ${file.name}`}
                          onClick={() => {
                            if (window.confirm(`Delete ${file.name}? Links to it stop working.`)) gone.mutate(file.id);
                          }}
                        >
                          <Icon name="trash" />
                          Delete
                        </button>
                      </div>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        )}
      </section>
    </>
  );
}

async function download(file: AdhocFile): Promise<void> {
  try {
    save(await (await send(`api/adhoc/${encodeURIComponent(file.id)}/raw`, {})).blob(), file.name);
  } catch (fault) {
    toast(`Not downloaded: ${fault instanceof Error ? fault.message : String(fault)}`);
  }
}

const NODES = 1_048_576; // all of a file: it is one profile, and the table is made of it

function Types({ types, chosen }: { types: string[]; chosen: string }) {
  const { set } = useRoute();
  if (types.length < 2) return null;
  return (
    <Menu
      align="start"
      trigger={
        <>
          <span className="of">Profile </span>
          {chosen}
          <Icon name="down" size={13} />
        </>
      }
      entries={types.map((type) => ({ key: type, text: type, on: type === chosen, run: () => set({ type, focus: "", fn: "" }) }))}
    />
  );
}

function View() {
  const { params, set } = useRoute();
  const { utc } = useSettings();
  const answer = useAdhoc(params.id, params.type, NODES);
  const flame = answer.data?.flame ?? null;
  const file = answer.data?.file;
  const type = file?.type ?? "";
  const unit = answer.data?.unit ?? "count";
  const functions = useMemo(() => (flame === null ? undefined : functionsOf(flame, unit)), [flame, unit]);
  const around = useMemo(() => {
    if (flame === null || params.fn === "" || params.view !== "sandwich") return undefined;
    const { callers, callees, total, self } = sandwich(flame, params.fn);
    return { callers, callees, total, self, all: flame.total };
  }, [flame, params.fn, params.view]);
  const retry = (): void => void answer.refetch();

  return (
    <>
      <div className="toolbar" style={{ padding: 0, border: 0 }}>
        <button type="button" className="btn bare" onClick={() => set({ id: "", other: "", type: "", focus: "", fn: "" })}>
          ‹ All files
        </button>
        <h1>{file?.name ?? params.id}</h1>
        {file !== undefined && <Types types={file.types ?? []} chosen={type} />}
        {file !== undefined && (
          <span className="note">
            {file.format}, {formatValue(file.bytes, "bytes")}, uploaded {dateTime(file.uploaded, utc)}, expires {expiry(file.expires)}
          </span>
        )}
      </div>
      {answer.isError && answer.data === undefined ? (
        <section className="card">
          <Problem fault={answer.error} onRetry={retry} />
        </section>
      ) : (
        <ProfileCard
          flame={flame}
          stale={answer.isPlaceholderData}
          unit={unit}
          callSite={[]}
          functions={{ data: functions, fault: null, stale: false, retry }}
          sandwich={{ data: around, fault: null, stale: false, retry }}
          tools={(view, hasPicture) => (
            <>
              <button type="button" className="btn" onClick={() => void copy("Link", location.href)}>
                <Icon name="share" />
                Copy link
              </button>
              <Menu
                trigger={
                  <>
                    <Icon name="export" />
                    Export
                    <Icon name="down" size={13} />
                  </>
                }
                entries={[
                  {
                    key: "raw",
                    text: "The file itself",
                    run: () => {
                      if (file !== undefined) void download(file);
                    },
                  },
                  ...(["png", "svg", "html"] as const).map((format) => ({
                    key: format,
                    text: { png: "Picture", svg: "Vector picture", html: "Page of one file, with its viewer" }[format],
                    hint: `.${format}`,
                    disabled: !hasPicture,
                    run: () => void savePicture(view.current!, format, file!.name, type, file!.name),
                  })),
                ]}
              />
            </>
          )}
        />
      )}
    </>
  );
}

interface DiffAnswer {
  profileTypes?: string[];
  flamebearerProfile: string;
}

function Compare() {
  const { params, set } = useRoute();
  const [found, setFound] = useState("");
  const answer = useQuery({
    queryKey: ["adhoc diff", params.id, params.other, params.type],
    structuralSharing: false,
    queryFn: async ({ signal }) => {
      const response = await send("adhocprofiles.v1.AdHocProfileService/Diff", {
        method: "POST",
        signal,
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ leftId: params.id, rightId: params.other, ...(params.type === "" ? {} : { profileType: params.type }) }),
      });
      const said = (await response.json()) as DiffAnswer;
      const profile = JSON.parse(said.flamebearerProfile) as Record<string, unknown> & { metadata: { units: string; sampleRate: number } };
      return {
        flame: take(profile).flame,
        types: said.profileTypes ?? [],
        unit: unitOfMetadata(profile.metadata.units, profile.metadata.sampleRate),
      };
    },
  });
  const name = (id: string): string => id.replace(/^[0-9a-z]{26}-?/i, "") || id;
  const flame = answer.data?.flame;
  const chosen = params.type || answer.data?.types[0] || "";
  const unit = answer.data?.unit ?? "count";

  return (
    <>
      <div className="toolbar" style={{ padding: 0, border: 0 }}>
        <button type="button" className="btn bare" onClick={() => set({ id: "", other: "", type: "" })}>
          ‹ All files
        </button>
        <h1>
          {name(params.id)} → {name(params.other)}
        </h1>
        <Types types={answer.data?.types ?? []} chosen={chosen} />
        <button type="button" className="btn small" onClick={() => set({ id: params.other, other: params.id })}>
          Swap sides
        </button>
        <button type="button" className="btn small" onClick={() => void copy("Link", location.href)}>
          <Icon name="share" />
          Copy link
        </button>
      </div>
      {answer.isError ? (
        <section className="card">
          <Problem fault={answer.error} onRetry={() => void answer.refetch()} />
        </section>
      ) : (
        <section className="card profile" aria-label="Comparison">
          <div className="toolbar">
            <SearchField label="Search functions (regex)" value={params.q} onChange={(q) => set({ q }, { replace: true })} found={found} />
            {flame?.left != null && flame.right !== null && (
              <span className="note">
                {formatValue(flame.left.total, unit)} → {formatValue(flame.right.total, unit)},{" "}
                {formatShare(flame.left.total > 0 ? flame.right.total / flame.left.total : NaN)} of the first; colour: change of the share
              </span>
            )}
          </div>
          {flame === undefined ? (
            <Skeleton />
          ) : (
            <div className="flame-box">
              <FlameGraph
                flame={flame}
                search={params.q}
                onFound={setFound}
                options={{ unit, palette: params.pal === "rg" ? "rg" : "cb", upward: params.inv === "1", label: "Comparison of two files" }}
              />
            </div>
          )}
        </section>
      )}
    </>
  );
}

export function Adhoc() {
  const { params } = useRoute();
  if (params.id !== "" && params.other !== "") return <Compare />;
  return params.id !== "" ? <View key={params.id} /> : <List />;
}
