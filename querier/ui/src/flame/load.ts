/*
 * From the bytes of an answer to arrays. Large answers are parsed and decoded by a worker, so that the page does not
 * freeze; it hands its arrays over without copying them.
 */
import { decode, DIFF_NUMBERS, type DiffWidth } from "./decode";
import { type Flame, FlameError, type Levels } from "./model";

/* About 20,000 nodes. A smaller answer is decoded faster than a worker gets it. */
const WORKER_BYTES = 512 * 1024;

export interface Loaded {
  flame: Flame;
  /* The rest of the answer: metadata, timeline, statistics and so on, without the levels. */
  rest: Record<string, unknown>;
}

export type Bytes = ArrayBuffer | Uint8Array<ArrayBuffer>;

export interface LoadRequest {
  id: number;
  bytes: Bytes;
  width: DiffWidth;
}

export type LoadReply = { id: number; loaded: Loaded } | { id: number; error: string };

/* Reads what /pyroscope/render, /pyroscope/render-diff and the methods of the querier answer. */
export function parse(bytes: Bytes, width: DiffWidth): Loaded {
  let answer: Record<string, unknown>;
  try {
    answer = JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
  } catch {
    throw new FlameError("the answer is no JSON");
  }
  return take(answer, width);
}

export function take(answer: Record<string, unknown>, width: DiffWidth = "share"): Loaded {
  const bearer = (answer["flamebearer"] ?? answer["flamegraph"]) as { names?: string[]; levels?: unknown[] } | undefined;
  /* Connect wraps a level into a message, and leaves out what is empty. */
  const levels = (bearer?.levels ?? []).map((level) => (Array.isArray(level) ? level : (level as { values?: [] }).values) ?? []);
  /* The first level is the root alone, so it tells how many numbers a bar has. */
  const diff = levels[0]?.length === DIFF_NUMBERS;
  const flame = decode({ names: bearer?.names ?? [], levels: levels as Levels["levels"] }, diff, width);
  const rest = { ...answer };
  delete rest["flamebearer"];
  delete rest["flamegraph"];
  return { flame, rest };
}

let worker: Worker | null = null;
let nextId = 1;
const waiting = new Map<number, { resolve: (loaded: Loaded) => void; reject: (error: Error) => void }>();

function start(): Worker {
  const made = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  made.onmessage = (event: MessageEvent<LoadReply>) => {
    const reply = event.data;
    const one = waiting.get(reply.id);
    waiting.delete(reply.id);
    if ("error" in reply) one?.reject(new FlameError(reply.error));
    else one?.resolve(reply.loaded);
  };
  made.onerror = () => {
    /* The script did not load. What was handed over is lost; the next answer gets a new worker. */
    const all = [...waiting.values()];
    waiting.clear();
    worker = null;
    for (const one of all) one.reject(new FlameError("the decoder did not start: try again"));
  };
  return made;
}

/* The bytes belong to the decoder afterwards. */
export function load(bytes: Bytes, width: DiffWidth = "share"): Promise<Loaded> {
  if (bytes.byteLength < WORKER_BYTES || typeof Worker === "undefined") return new Promise((resolve) => resolve(parse(bytes, width)));
  worker ??= start();
  const id = nextId++;
  const request: LoadRequest = { id, bytes, width };
  const result = new Promise<Loaded>((resolve, reject) => waiting.set(id, { resolve, reject }));
  worker.postMessage(request, [bytes instanceof ArrayBuffer ? bytes : bytes.buffer]);
  return result;
}
