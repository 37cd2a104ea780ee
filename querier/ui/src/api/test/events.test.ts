import { describe, expect, it } from "vitest";

import { mulberry as random } from "../../flame/test/random";
import { progressText, sumOf } from "../../state/progress";
import { CutError, EventReader, type Progress, RefusedError } from "../events";

const bytes = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;
const at = (done: number, stage: Progress["stage"] = "blocks"): Progress => ({ stage, done, total: 9, bytes: 7, profiles: 3 });
const progress = (one: Progress): string => `event: progress\ndata: ${JSON.stringify(one)}\n\n`;

/* In pieces of any size. */
function read(text: string, seed: number): { told: Progress[]; body: () => string } {
  const told: Progress[] = [];
  const reader = new EventReader((one) => told.push(one));
  const next = random(seed);
  const all = bytes(text);
  for (let from = 0; from < all.length; ) {
    const until = from + 1 + Math.floor(next() * (next() < 0.5 ? 4 : 90));
    reader.take(all.slice(from, until));
    from = until;
  }
  return { told, body: () => new TextDecoder().decode(reader.finish()) };
}

describe("events", () => {
  it("tell how far a query is, and then its answer, however they are cut", () => {
    const body = '{"name":"Größe €💥","text":"a\\n\\nevent: progress"}';
    for (let seed = 1; seed < 300; seed++) {
      const { told, body: answer } = read(`${progress(at(1))}${progress(at(5))}event: result\ndata: ${body}\n\n`, seed);
      expect(told).toEqual([at(1), at(5)]);
      expect(answer()).toBe(body);
    }
  });

  it("may be the answer alone, of none or several lines", () => {
    for (const body of ["", "{}", "a\nb\n\nc"])
      expect(
        read(
          `event: result\n${body
            .split("\n")
            .map((line) => `data: ${line}\n`)
            .join("")}\n`,
          1,
        ).body(),
      ).toBe(body);
  });

  it("end with an error as its status would be", () => {
    const refusal = { status: 504, code: "deadline_exceeded", message: "took longer" };
    const { body } = read(`${progress(at(1))}event: error\ndata: ${JSON.stringify(refusal)}\n\n`, 3);
    expect(body).toThrow(RefusedError);
    try {
      body();
    } catch (fault) {
      expect((fault as RefusedError).refusal).toEqual(refusal);
    }
  });

  it("that are cut short are no answer", () => {
    for (const text of ["", "event: result\ndata: {", progress(at(1)), "<html></html>\n\n", "event: result\ndata: {}\n"])
      expect(read(text, 1).body).toThrow(CutError);
  });
});

describe("progress of several queries", () => {
  it("is their sum, and what the one waits for that others wait for", () => {
    expect(sumOf([])).toBeNull();
    expect(sumOf([at(1, "answer"), at(2, "queued"), at(3, "ingesters")])).toEqual({
      stage: "ingesters",
      done: 6,
      total: 27,
      bytes: 21,
      profiles: 9,
    });
  });

  it("is said in a line, with what is known", () => {
    expect(progressText(at(2))).toMatch(/^Reading · 2 of 9 blocks · 3 profiles · 7.B$/);
    expect(progressText({ stage: "ingesters", done: 0, total: 0, bytes: 0, profiles: 0 })).toBe("Waiting for ingesters");
  });
});
