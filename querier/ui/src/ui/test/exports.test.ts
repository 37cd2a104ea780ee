import { describe, expect, test } from "vitest";

import { type CommandFormat, SERVER_FORMATS, type ServerFormat, type Shown, commandLine, fileName, serverParameters } from "../exports";

const HOUR_MS = 3600e3;
const FROM = Date.UTC(2026, 3, 14, 14, 20);
const CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";

const shown = (callSite: string[] = [], service = "shop"): Shown => ({
  query: { type: CPU, matchers: [{ name: "service_name", op: "=", value: service }] },
  span: { from: FROM, until: FROM + HOUR_MS },
  part: { callSite },
  maxNodes: 16384,
  utc: true,
});

describe("files", () => {
  test.each<[ServerFormat, string]>([
    ["pprof", "shop_cpu_2026-04-14_1420_1520.pb.gz"],
    ["goPgo", "shop_cpu_2026-04-14_1420_1520.pgo"],
    ["folded", "shop_cpu_2026-04-14_1420_1520.folded"],
    ["firefox", "shop_cpu_2026-04-14_1420_1520.firefox.json"],
  ])("%s is saved as %s", (format, want) => expect(fileName(shown(), SERVER_FORMATS[format])).toBe(want));

  test.each(Object.keys(SERVER_FORMATS) as ServerFormat[])("%s: only the flame graph is cut to the node limit", (format) => {
    const parameters = serverParameters(shown(["main", "work"]), format);
    expect(parameters).toMatchObject({ format, from: FROM, until: FROM + HOUR_MS, callSite: ["main", "work"] });
    expect("max-nodes" in parameters).toBe(format === "json");
  });
});

describe("command lines", () => {
  const asked = `flamegrid query '${CPU}{service_name="shop"}' --from ${FROM} --until ${FROM + HOUR_MS} --url http://localhost:4040`;

  test.each<[CommandFormat, string]>([
    ["table", "--output table"],
    ["folded", "--call-site 'main;work' --output folded"],
    ["pprof", "--call-site 'main;work' --output pprof -o X.pb.gz && go tool pprof -http : X.pb.gz"],
    ["goPgo", "--call-site 'main;work' --output goPgo -o X.pgo && go build -pgo=X.pgo"],
  ])("%s", (format, want) =>
    expect(commandLine(shown(["main", "work"]), "http://localhost:4040", "", format)).toBe(
      `${asked} ${want.replaceAll("X", "shop_cpu_2026-04-14_1420_1520")}`,
    ),
  );

  test("a shell takes names as they are", () => {
    const line = commandLine(shown(["it's"], "$(rm x)"), "http://localhost:4040", "team a", "folded");
    expect(line).toContain(`'${CPU}{service_name="$(rm x)"}'`);
    expect(line).toContain(`--tenant 'team a' --call-site 'it'\\''s'`);
  });
});
