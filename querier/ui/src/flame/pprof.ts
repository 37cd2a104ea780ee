/* Where a function is in its source, and what its lines cost: of a pprof as the server sends it (querier/API.md#pprof). */

export interface SourceLine {
  file: string; // "": the profile does not say
  line: number; // 0: the profile does not say
  self: number;
  total: number; // with what the line calls; a stack that has the line more than once counts once
}

export interface SourceLines {
  lines: SourceLine[]; // the heaviest first
  all: number; // what all stacks have
}

export class PprofError extends Error {}

interface Field {
  number: number;
  value: number; // of a number
  bytes: Uint8Array; // of everything else
}

const NOTHING = new Uint8Array(0);
const LOW = 2 ** 28; // four bytes of a number
const HIGH = 2 ** 36; // the rest of its 64 bits

/* Numbers beyond 2^53 lose their last digits, as everywhere in the page. */
class Reader {
  at = 0;
  constructor(readonly bytes: Uint8Array) {}

  get more(): boolean {
    return this.at < this.bytes.length;
  }

  /* In two parts, so that those below zero are exact. */
  varint(): number {
    let [low, high] = [0, 0];
    for (let i = 0; i < 10; i++) {
      const byte = this.bytes[this.at++];
      if (byte === undefined) throw new PprofError("the pprof ends in the middle of a number");
      if (i < 4) low += (byte & 127) * 128 ** i;
      else high += (byte & 127) * 128 ** (i - 4);
      if (byte >= 128) continue;
      high %= HIGH;
      return (high >= HIGH / 2 ? high - HIGH : high) * LOW + low;
    }
    throw new PprofError("the pprof has a number of more than ten bytes");
  }

  private take(length: number): Uint8Array {
    if (length < 0 || length > this.bytes.length - this.at) throw new PprofError("the pprof is cut short");
    return this.bytes.subarray(this.at, (this.at += length));
  }

  field(): Field {
    const tag = this.varint();
    const [number, type] = [Math.floor(tag / 8), tag % 8];
    if (type === 0) return { number, value: this.varint(), bytes: NOTHING };
    if (type === 1) return { number, value: 0, bytes: this.take(8) };
    if (type === 2) return { number, value: 0, bytes: this.take(this.varint()) };
    if (type === 5) return { number, value: 0, bytes: this.take(4) };
    throw new PprofError(`the pprof has a field of the unknown type ${type}`);
  }
}

function* fields(bytes: Uint8Array): Generator<Field> {
  const reader = new Reader(bytes);
  while (reader.more) yield reader.field();
}

/* A repeated number: alone, or several in one field. */
function add(list: number[], field: Field): void {
  if (field.bytes.length === 0) list.push(field.value);
  else for (const reader = new Reader(field.bytes); reader.more; ) list.push(reader.varint());
}

/* Numbers of a message by their field; the last one counts. */
function numbersOf(bytes: Uint8Array): number[] {
  const out: number[] = [];
  for (const { number, value } of fields(bytes)) out[number] = value;
  return out;
}

/* The lines of a location, the innermost first: of each its function and its number. */
interface Location {
  lines: { function: number; line: number }[];
}

function locationOf(bytes: Uint8Array): [number, Location] {
  let id = 0;
  const location: Location = { lines: [] };
  for (const { number, value, bytes: inner } of fields(bytes)) {
    if (number === 1) id = value;
    if (number !== 4) continue;
    const [, fn = 0, line = 0] = numbersOf(inner);
    location.lines.push({ function: fn, line });
  }
  return [id, location];
}

export function linesOf(pprof: Uint8Array, name: string): SourceLines {
  const texts: Uint8Array[] = [];
  const functions: number[][] = []; // numbers of Function: 1 id, 2 name, 4 file
  const locations = new Map<number, Location>();
  const samples: Uint8Array[] = [];
  for (const { number, bytes } of fields(pprof)) {
    if (number === 2) samples.push(bytes);
    if (number === 4) locations.set(...locationOf(bytes));
    if (number === 5) functions.push(numbersOf(bytes));
    if (number === 6) texts.push(bytes);
  }
  const utf8 = new TextDecoder();
  const text = (at = 0): string => utf8.decode(texts[at] ?? NOTHING);
  const files = new Map<number, string>(); // of the functions that are called so
  for (const [, id = 0, called, , file] of functions) if (text(called) === name) files.set(id, text(file));

  /* Per location: the lines of the function in it, and whether its innermost line is one of them. */
  const found = new Map<string, SourceLine>();
  const mine = new Map<number, { rows: SourceLine[]; inner: SourceLine | null }>();
  for (const [id, { lines }] of locations) {
    const rows = lines.map((one) => {
      const file = files.get(one.function);
      if (file === undefined) return null;
      const key = `${file}:${one.line}`;
      const row = found.get(key) ?? { file, line: one.line, self: 0, total: 0 };
      found.set(key, row);
      return row;
    });
    const own = rows.filter((row) => row !== null);
    if (own.length > 0) mine.set(id, { rows: own, inner: rows[0] ?? null });
  }
  let all = 0;
  for (const bytes of samples) {
    const stack: number[] = [];
    const values: number[] = [];
    for (const field of fields(bytes)) {
      if (field.number === 1) add(stack, field);
      if (field.number === 2) add(values, field);
    }
    const value = values[0] ?? 0;
    all += value;
    const seen = new Set<SourceLine>();
    for (const id of stack) for (const row of mine.get(id)?.rows ?? []) seen.add(row);
    for (const row of seen) row.total += value;
    const inner = mine.get(stack[0] ?? 0)?.inner;
    if (inner) inner.self += value;
  }
  const lines = [...found.values()].filter((row) => row.total > 0);
  return { lines: lines.sort((a, b) => b.total - a.total || a.line - b.line), all };
}
