import { describe, expect, test } from "vitest";
import { PprofError, linesOf } from "../pprof";
import { mulberry } from "./random";

/* ---- a pprof, as protobuf has it ---- */

function varint(value: number): number[] {
  const out: number[] = [];
  for (; value >= 128; value = Math.floor(value / 128)) out.push((value % 128) + 128);
  return [...out, value];
}

const number = (field: number, value: number): number[] => [...varint(field * 8), ...varint(value)];
const message = (field: number, bytes: number[]): number[] => [...varint(field * 8 + 2), ...varint(bytes.length), ...bytes];
const packed = (field: number, values: number[]): number[] => message(field, values.flatMap(varint));

interface Frame {
  name: string;
  file: string;
  line: number;
}

/* Each stack has locations, the innermost first, and each location lines, the innermost first. */
function pprof(stacks: { locations: Frame[][]; value: number }[]): Uint8Array {
  const texts = [""];
  const text = (one: string): number => {
    if (!texts.includes(one)) texts.push(one);
    return texts.indexOf(one);
  };
  const functions = new Map<string, number>();
  const bytes: number[] = [];
  let id = 0;
  for (const { locations, value } of stacks) {
    const ids = locations.map((lines) => {
      const inner = lines.flatMap(({ name, file, line }) => {
        const key = `${name} ${file}`;
        if (!functions.has(key)) {
          functions.set(key, functions.size + 1);
          bytes.push(...message(5, [...number(1, functions.size), ...number(2, text(name)), ...number(4, text(file))]));
        }
        return message(4, [...number(1, functions.get(key)!), ...number(2, line)]);
      });
      bytes.push(...message(4, [...number(1, ++id), ...inner]));
      return id;
    });
    bytes.push(...message(2, [...packed(1, ids), ...packed(2, [value])]));
  }
  for (const one of texts) bytes.push(...message(6, [...new TextEncoder().encode(one)]));
  return Uint8Array.from(bytes);
}

describe("lines of a function", () => {
  const at = (name: string, line: number, file = "a.go"): Frame => ({ name, file, line });

  test("with what they cost alone and with what they call, each stack once", () => {
    const profile = pprof([
      { locations: [[at("work", 7)], [at("main", 3)]], value: 10 },
      { locations: [[at("sort", 1)], [at("work", 8)], [at("main", 3)]], value: 5 },
      { locations: [[at("work", 8)], [at("work", 8)], [at("main", 3)]], value: 2 }, // recursion
      { locations: [[at("inlined", 90), at("work", 9)], [at("main", 3)]], value: 1 },
      { locations: [[at("work", 7, "b.go")]], value: 4 },
    ]);
    expect(linesOf(profile, "work")).toEqual({
      all: 22,
      lines: [
        { file: "a.go", line: 7, self: 10, total: 10 },
        { file: "a.go", line: 8, self: 2, total: 7 },
        { file: "b.go", line: 7, self: 4, total: 4 },
        { file: "a.go", line: 9, self: 0, total: 1 },
      ],
    });
    expect(linesOf(profile, "main").lines).toEqual([{ file: "a.go", line: 3, self: 0, total: 18 }]);
    expect(linesOf(profile, "nobody")).toEqual({ all: 22, lines: [] });
    expect(linesOf(new Uint8Array(0), "work")).toEqual({ all: 0, lines: [] });
  });

  test("values beyond 32 bits and below zero", () => {
    const minusOne = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    const bytes = [...pprof([{ locations: [[at("work", 1)]], value: 2 ** 45 + 3 }])];
    expect(linesOf(Uint8Array.from(bytes), "work").lines[0]!.self).toBe(2 ** 45 + 3);
    expect(linesOf(Uint8Array.from([...bytes, ...message(2, message(2, minusOne))]), "work").all).toBe(2 ** 45 + 2);
  });

  test("of broken bytes is an error, never anything else", () => {
    const whole = pprof([{ locations: [[at("work", 7)], [at("main", 300)]], value: 1000 }]);
    const random = mulberry(11);
    const tried = (bytes: Uint8Array): void => {
      try {
        linesOf(bytes, "work");
      } catch (fault) {
        expect(fault).toBeInstanceOf(PprofError);
      }
    };
    for (let end = 0; end < whole.length; end++) tried(whole.subarray(0, end));
    for (let round = 0; round < 2000; round++) {
      const bytes = Uint8Array.from(whole);
      for (let n = 0; n < 3; n++) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
      tried(bytes);
    }
    expect(() => linesOf(Uint8Array.from([0x12, 0x7f, 1]), "work")).toThrow("cut short");
  });
});
