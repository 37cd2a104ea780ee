import type { RefObject } from "react";

import type { Span } from "../api/queries";
import type { FlameView } from "../flame/view";
import { useRoute } from "../state/route";
import type { Query } from "../state/selector";
import { useSettings } from "../state/settings";
import {
  SERVER_FORMATS,
  type CommandFormat,
  type ServerFormat,
  type Shown,
  commandLine,
  fileName,
  savePicture,
  saveFromServer,
  titleOf,
} from "./exports";
import { Icon } from "./Icon";
import { type Entry, Menu } from "./Menu";
import { homeOf } from "./ShareMenu";
import { copy, toast } from "./toast";

interface Props {
  query: Query;
  span: Span;
  maxNodes: number;
  callSite: string[];
  view: RefObject<FlameView | null>;
  hasPicture: boolean;
}

export function ExportMenu({ query, span, maxNodes, callSite, view, hasPicture }: Props) {
  const { params } = useRoute();
  const { utc } = useSettings();
  const shown: Shown = { query, span, maxNodes, part: { callSite }, utc };
  const attempt = (what: string, work: Promise<void>): void => {
    toast(`${what} …`);
    work.then(
      () => toast(`${what} saved`),
      (fault: unknown) => toast(`${what}: ${fault instanceof Error ? fault.message : String(fault)}`),
    );
  };
  const server = (format: ServerFormat, text: string): Entry => ({
    key: format,
    text,
    hint: `.${SERVER_FORMATS[format]}`,
    run: () => attempt(text, saveFromServer(shown, format)),
  });
  const picture = (format: "png" | "svg" | "html", text: string, hint: string): Entry => ({
    key: format,
    text,
    hint,
    disabled: !hasPicture,
    run: () => {
      const { title, subtitle } = titleOf(shown);
      attempt(text, savePicture(view.current!, format, title, subtitle, fileName(shown, "x").slice(0, -2)));
    },
  });
  const command = (output: CommandFormat, text: string): Entry => ({
    key: `cli ${output}`,
    text,
    run: () => void copy("Command", commandLine(shown, homeOf(), params.tenant, output)),
  });

  return (
    <Menu
      trigger={
        <>
          <Icon name="export" />
          Export
          <Icon name="down" size={13} />
        </>
      }
      entries={[
        server("pprof", "pprof"),
        server("goPgo", "pprof for go build -pgo"),
        server("folded", "Folded stacks"),
        server("json", "Flame graph as JSON"),
        server("speedscope", "For speedscope.app"),
        server("firefox", "For profiler.firefox.com"),
        server("dot", "Call graph for Graphviz"),
        "line",
        picture("png", "Picture", ".png"),
        picture("svg", "Vector picture", ".svg"),
        picture("html", "Page of one file, with its viewer", ".html"),
        "line",
        command("table", "Copy as command line: functions"),
        command("folded", "Copy as command line: stacks"),
        command("pprof", "Copy as command line: go tool pprof"),
        command("goPgo", "Copy as command line: go build -pgo"),
      ]}
    />
  );
}
