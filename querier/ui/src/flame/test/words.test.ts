import { describe, expect, test } from "vitest";
import {
  changeOf,
  COLOUR_DIM,
  COLOUR_FOLDED,
  COLOUR_MIDDLE,
  COLOUR_ROOT,
  COLOUR_RUNTIME,
  COLOURS,
  colourOf,
  contrast,
  diffColours,
  DIFF_STEPS,
  fnv1a,
  makeTheme,
  PALETTE,
  singleColours,
} from "../colors";
import { decode } from "../decode";
import { Labels } from "../labels";
import { isRuntime, packageOf, shortNames, splitName } from "../names";
import { describe as sentence, tooltipOf } from "../tooltip";
import {
  formatChange,
  formatCount,
  formatDuration,
  formatPoints,
  formatRate,
  formatShare,
  formatValue,
  unitOf,
  unitOfMetadata,
} from "../units";

const plain = (text: string): string => text.replaceAll("\u00a0", " ");

describe("names", () => {
  test.each([
    ["github.com/acme/shop/api.(*Server).GetCart", "github.com/acme/shop/api"],
    ["slices.SortFunc[go.shape.[]github.com/x/y.T,int]", "slices"],
    ["net/http.(*conn).serve", "net/http"],
    ["main.main.func1", "main"],
    ["java/util/HashMap.get", "java/util"],
    ["java.util.HashMap.get", "java.util"],
    ["com.acme.Shop$Cart.total", "com.acme"],
    ["django/core/handlers/base.py:get_response", "django/core/handlers"],
    ["app.py:index", "app.py"],
    ["node:internal/main/run_main_module:run:12", "node:internal/main"],
    ["./src/index.js:handle:3", "./src"],
    ["tokio::runtime::task::poll", "tokio"],
    ["<alloc::vec::Vec<T> as core::iter::Iterator>::next", "alloc"],
    ["void std::sort(int*, int*)", "std"],
    ["Symfony\\Component\\Kernel::handle", "Symfony\\Component\\Kernel"],
    ["System.Private.CoreLib!System.Threading.Thread.Start", "System.Private.CoreLib"],
    ["libc.so.6+0x9f2a1", "libc.so.6"],
    ["/usr/lib/libssl.so.3+0x1f", "/usr/lib/libssl.so.3"],
    ["[no stack]", ""],
    ["total", ""],
    ["rocksdb_get", ""],
    ["", ""],
    [".", ""],
    ["::", ""],
  ])("package of %s", (name, want) => {
    expect(packageOf(name)).toBe(want);
  });

  test("whatever a name is, its parts are the name without folders", () => {
    for (const name of [
      "github.com/acme/shop/api.(*Server).GetCart",
      "a::b::c",
      "<img src=x onerror=alert(1)>",
      "\u0000",
      "x/",
      "/",
      "..",
      "a.b.c.",
      "Ünïcode.ƒ",
      "💥/💥.💥",
    ]) {
      const { dim, main } = splitName(name);
      expect(name.endsWith(dim + main), name).toBe(true);
      for (const text of shortNames(name)) expect(name.endsWith(text), text).toBe(true);
    }
  });

  test("gets shorter step by step", () => {
    expect(shortNames("github.com/acme/shop/api.(*Server).GetCart")).toEqual([
      "github.com/acme/shop/api.(*Server).GetCart",
      "api.(*Server).GetCart",
      "(*Server).GetCart",
      "GetCart",
    ]);
    expect(shortNames("main")).toEqual(["main"]);
  });

  test("tells the run time from the program", () => {
    for (const name of [
      "runtime.mallocgc",
      "syscall.read",
      "jdk.internal.misc.Unsafe.park",
      "[vmlinux]",
      "libc.so.6+0x1",
      "entry_SYSCALL_64_after_hwframe",
    ])
      expect(isRuntime(name), name).toBe(true);
    for (const name of ["main.runtime.x", "net/http.serve", "runtimeconfig.load", "syscalls_table", "asmlib.go"])
      expect(isRuntime(name), name).toBe(false);
  });
});

describe("units", () => {
  test.each([
    [0, "0 ns"],
    [999, "999 ns"],
    [1500, "1.50 µs"],
    [999_700_000, "1 s"],
    [8_340_000_000, "8.34 s"],
    [690e9, "11.5 min"],
    [12_312e9, "3.42 h"],
    [99 * 3600e9, "99 h"],
    [120 * 3600e9, "5 d"],
    [400 * 86400e9, "1.10 y"],
    [-5e6, "-5 ms"],
    [NaN, "–"],
  ])("%d ns", (value, want) => expect(plain(formatValue(value, "ns"))).toBe(want));

  test.each([
    [0, "0 B"],
    [1023, "1023 B"],
    [1024, "1 KiB"],
    [1.5 * 2 ** 30, "1.50 GiB"],
  ])("%d bytes", (value, want) => expect(plain(formatValue(value, "bytes"))).toBe(want));

  test.each([
    [0, "0"],
    [0.5, "0.500"],
    [1234, "1,234"],
    [9999, "9,999"],
    [12_345, "12.3 k"],
    [999_999, "1 M"],
    [1_230_000, "1.23 M"],
  ])("count %d", (value, want) => expect(plain(formatCount(value))).toBe(want));

  test("rates", () => {
    expect(plain(formatRate(3.42e9, "ns"))).toBe("3.42 cores");
    expect(plain(formatRate(0.104e9, "ns"))).toBe("0.104 cores");
    expect(plain(formatRate(0.0846e9, "ns"))).toBe("84.6 mcores");
    expect(plain(formatRate(2 ** 20, "bytes"))).toBe("1 MiB/s");
    expect(plain(formatRate(12, "count"))).toBe("12/s");
    expect(plain(formatRate(0, "ns"))).toBe("0 cores");
  });

  test("shares and changes", () => {
    expect(formatShare(0.17)).toBe("17.00%");
    expect(formatShare(0.00001)).toBe("<0.01%");
    expect(formatShare(0)).toBe("0%");
    expect(formatShare(1)).toBe("100%");
    expect(plain(formatPoints(0.0256))).toBe("▲ +2.56 pt");
    expect(plain(formatPoints(-0.0219))).toBe("▼ −2.19 pt");
    expect(plain(formatPoints(0.000001))).toBe("0.00 pt");
    expect(plain(formatChange(0.006))).toBe("▲ +0.6%");
    expect(plain(formatChange(-0.5))).toBe("▼ −50.0%");
    expect(plain(formatChange(19))).toBe("▲ +20×");
    expect(formatChange(0)).toBe("0%");
  });

  test("units of types and of metadata", () => {
    expect(unitOf("process_cpu:cpu:nanoseconds:cpu:nanoseconds")).toBe("ns");
    expect(unitOf("memory:inuse_space:bytes:space:bytes")).toBe("bytes");
    expect(unitOf("goroutines:goroutine:count:goroutine:count")).toBe("count");
    expect(unitOfMetadata("samples", 1e9)).toBe("ns");
    expect(unitOfMetadata("objects", 100)).toBe("count");
  });

  test("lengths of time", () => {
    expect(plain(formatDuration(510_000))).toBe("8 min 30 s");
    expect(plain(formatDuration(3_600_000))).toBe("1 h");
    expect(plain(formatDuration(90_061_000))).toBe("1 d 1 h");
    expect(plain(formatDuration(250))).toBe("250 ms");
  });
});

describe("colours", () => {
  test("FNV-1a as others compute it", () => {
    /* http://www.isthe.com/chongo/tech/comp/fnv/: test vectors of 32 bits. */
    expect(fnv1a("")).toBe(0x811c9dc5);
    expect(fnv1a("a")).toBe(0xe40c292c);
    expect(fnv1a("foobar")).toBe(0xbf9cf968);
    /* Beyond ASCII, the bytes of UTF-8: the same by hand. */
    let hash = 0x811c9dc5;
    for (const byte of new TextEncoder().encode("xé💥y")) hash = Math.imul(hash ^ byte, 0x01000193);
    expect(fnv1a("xé💥y")).toBe(hash >>> 0);
  });

  test("labels can be read on every colour", () => {
    for (const dark of [true, false])
      for (const palette of ["cb", "rg"] as const) {
        const theme = makeTheme(dark, palette);
        expect(theme.fills.filter((colour) => /^#[0-9a-f]{6}$/.test(colour))).toHaveLength(COLOURS);
        for (let place = 0; place < COLOURS; place++)
          if (place !== COLOUR_DIM)
            expect(contrast(theme.fills[place]!, theme.text[place]!), `${dark} ${palette} ${place}`).toBeGreaterThanOrEqual(4.5);
        expect(contrast(theme.background, theme.foreground)).toBeGreaterThan(7);
      }
  });

  test("a package keeps its colour; run time, root and folded frames have their own", () => {
    const flame = decode(
      {
        names: ["total", "a/b.f", "a/b.g", "runtime.x", "other"],
        levels: [
          [0, 10, 0, 0],
          [0, 4, 4, 1, 0, 2, 2, 2, 0, 2, 2, 3, 0, 2, 2, 4],
        ],
      },
      false,
    );
    const colours = singleColours(flame, "package");
    expect(colours[0]).toBe(COLOUR_ROOT);
    expect(colours[1]).toBe(colours[2]);
    expect(colours[1]).toBe(fnv1a("a/b") % PALETTE.length);
    expect([colours[3], colours[4]]).toEqual([COLOUR_RUNTIME, COLOUR_FOLDED]);
    expect(colourOf("a/b.f", "function")).toBe(fnv1a("a/b.f") % PALETTE.length);
  });

  test("a comparison is coloured by its change, and noise is grey", () => {
    const names = ["total", "gone", "new", "same", "noise"];
    const levels = [
      [0, 100, 0, 0, 200, 0, 0],
      [0, 50, 50, 0, 0, 0, 1, 0, 0, 0, 0, 100, 100, 2, 0, 40, 40, 0, 80, 80, 3, 0, 10, 10, 0, 20, 20, 4],
    ];
    const flame = decode({ names, levels }, true);
    const by = (absolute: boolean, quiet: Set<string> | null): number[] =>
      [...diffColours(flame, absolute, quiet)].map((place) => place - COLOUR_MIDDLE);
    expect(by(false, null)).toEqual([0, -DIFF_STEPS, DIFF_STEPS, 0, 0]);
    expect(by(true, null)[3]).toBe(Math.round(Math.sqrt(0.5) * DIFF_STEPS));
    expect(by(true, new Set(["noise", "new"]))).toEqual([6, -DIFF_STEPS, 0, 6, 0]);
    /* Twice as much in twice the time is no change. */
    expect(diffColours(flame, true, null, [1, 2])[3]).toBe(COLOUR_MIDDLE);
    expect([changeOf(0, 0), changeOf(1, 0), changeOf(0, 1), changeOf(2, 1)]).toEqual([0, -1, 1, -0.5]);
  });
});

describe("labels", () => {
  const names = ["github.com/acme/shop/api.(*Server).GetCart", "x", "💥💥💥💥💥💥"];
  const labels = new Labels(names, (text) => [...text].length * 10);

  test("take what fits", () => {
    expect(labels.fit(0, 1000)).toBe(names[0]);
    expect(labels.fit(0, 220)).toBe("api.(*Server).GetCart");
    expect(labels.fit(0, 175)).toBe("(*Server).GetCart");
    expect(labels.fit(0, 70)).toBe("GetCart");
    expect(labels.fit(0, 50)).toBe("GetC…");
    expect(labels.fit(0, 25)).toBe("");
    expect(labels.fit(1, 5)).toBe("");
  });

  test("do not cut letters of two units in halves", () => {
    for (let room = 0; room < 80; room++) expect(labels.fit(2, room)).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])/);
  });
});

describe("tooltip", () => {
  test("of one selection", () => {
    const flame = decode(
      {
        names: ["total", "a/b.f", "other"],
        levels: [
          [0, 4e9, 0, 0],
          [0, 2e9, 1e9, 1],
          [1e9, 1e9, 1e9, 2],
        ],
      },
      false,
    );
    const data = tooltipOf(flame, 1, 1, { unit: "ns", absolute: false });
    expect(data.title).toBe("a/b.f");
    expect(data.subtitle).toBe("a/b");
    expect(data.rows.map((row) => row.map(plain))).toEqual([
      ["Total", "2 s", "50.00%"],
      ["Self", "1 s", "25.00%"],
      ["Of parent", "", "50.00%"],
    ]);
    expect(tooltipOf(flame, 2, 2, { unit: "ns", absolute: false }).hint).toContain("load");
    expect(plain(sentence(flame, 1, "ns"))).toBe("a/b.f, level 2, total 2 s, 50.00%, self 1 s");
  });

  test("of a comparison, by share and by value", () => {
    const flame = decode(
      {
        names: ["total", "f", "g"],
        levels: [
          [0, 100, 0, 0, 200, 0, 0],
          [0, 50, 50, 0, 150, 150, 1, 0, 50, 50, 0, 0, 0, 2],
        ],
      },
      true,
    );
    const change = (node: number, absolute: boolean, cover: [number, number] = [1, 1]): string =>
      plain(tooltipOf(flame, node, node, { unit: "count", absolute, cover }).rows[0]![3]!);
    expect(change(1, false)).toBe("▲ +25.00 pt");
    expect(change(1, true)).toBe("▲ +200.0%");
    expect(change(1, true, [1, 3])).toBe("0%");
    expect(change(2, true)).toBe("▼ gone");
  });
});
