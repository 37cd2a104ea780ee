/*
 * Answers as server-sent events (querier/API.md#progress): "progress" any number of times, then "result" or "error". The
 * browser's EventSource cannot send headers, and its results are text; ours stay bytes, for the decoder's worker.
 */

export interface Progress {
  stage: "queued" | "blocks" | "ingesters" | "answer";
  done: number; // of `total` pieces of segments and blocks
  total: number;
  bytes: number;
  profiles: number;
}

/* What the event "error" says in the place of a status and its body. */
export interface Refusal {
  status: number;
  code: string;
  message: string;
}

export class RefusedError extends Error {
  constructor(readonly refusal: Refusal) {
    super(refusal.message);
  }
}

/* The stream has ended before its last event. */
export class CutError extends Error {}

const PROGRESS = "event: progress\n";
const RESULT = "event: result\n";
const ERROR = "event: error\n";
const DATA = "data: ";
const END = "\n\n";
const NEWLINE = 10;

type Bytes = Uint8Array<ArrayBuffer>;

const latin = new TextDecoder("latin1"); // a byte a character: names of events and their ends are ASCII
const text = new TextDecoder();

function joined(pieces: readonly Bytes[]): Bytes {
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

/* The data of an event, from behind its name to before its end. Of several lines each has its name before it. */
function dataOf(lines: Bytes): Bytes {
  const first = lines.subarray(DATA.length);
  if (!first.includes(NEWLINE)) return first;
  return new TextEncoder().encode(text.decode(first).replaceAll(`\n${DATA}`, "\n"));
}

/* Takes a stream in pieces as they come. */
export class EventReader {
  private rest: Bytes = new Uint8Array(0); // of an event of progress that is not complete
  private last: Bytes[] | null = null; // of the event with the outcome, from its name on

  constructor(private readonly tell: (progress: Progress) => void) {}

  take(piece: Bytes): void {
    if (this.last !== null) {
      this.last.push(piece);
      return;
    }
    this.rest = joined([this.rest, piece]);
    while (this.last === null && this.rest.length >= PROGRESS.length) {
      if (latin.decode(this.rest.subarray(0, PROGRESS.length)) !== PROGRESS) {
        this.last = [this.rest];
        return;
      }
      const end = latin.decode(this.rest).indexOf(END);
      if (end < 0) return;
      this.tell(JSON.parse(text.decode(dataOf(this.rest.subarray(PROGRESS.length, end)))) as Progress);
      this.rest = this.rest.subarray(end + END.length);
    }
  }

  /* Returns the body of the plain answer. */
  finish(): Bytes {
    const all = joined(this.last ?? [this.rest]);
    const name = latin.decode(all.subarray(0, RESULT.length));
    if (latin.decode(all.subarray(-END.length)) !== END) throw new CutError("the answer has no end");
    if (name === RESULT) return dataOf(all.subarray(RESULT.length, all.length - END.length));
    if (!name.startsWith(ERROR)) throw new CutError("the answer has no result");
    throw new RefusedError(JSON.parse(text.decode(dataOf(all.subarray(ERROR.length, all.length - END.length)))) as Refusal);
  }
}
