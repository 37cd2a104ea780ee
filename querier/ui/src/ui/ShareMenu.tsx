import type { Span } from "../api/queries";
import { BASE, useRoute } from "../state/route";
import type { Patch } from "../state/url";
import { Icon } from "./Icon";
import { Menu } from "./Menu";
import { copy } from "./toast";

/* A link that shows the same tomorrow has the range in milliseconds; one that follows the time has it as it is. also: other ranges to be fixed. */
export function ShareMenu({ span, path = "/", also = {} }: { span: Span; path?: string; also?: Patch }) {
  const { params, link } = useRoute();
  const frozen = { from: String(span.from), until: String(span.until), ...(params.sel === "" ? {} : { sel: "" }), ...also };
  const whole = (relative: string): string => location.origin + relative;
  const embed = `<iframe src="${whole(link(frozen, "/embed")).replaceAll("&", "&amp;").replaceAll('"', "&quot;")}" width="100%" height="480" style="border:0" title="Flame graph"></iframe>`;

  return (
    <Menu
      trigger={
        <>
          <Icon name="share" />
          Share
        </>
      }
      entries={[
        { key: "frozen", text: "Copy link to these data", hint: "fixed range", run: () => void copy("Link", whole(link(frozen, path))) },
        { key: "live", text: "Copy link as it is", hint: "y", run: () => void copy("Link", location.href) },
        "line",
        { key: "embed", text: "Copy code to embed", hint: "iframe", run: () => void copy("Code", embed) },
        { note: <>The server shows /embed in pages of the origins that its setting querier.embed_origins names.</> },
      ]}
    />
  );
}

export function homeOf(): string {
  return location.origin + BASE;
}
