/* One flame graph without anything around it, to be shown in a page of somebody else: of a selection, a comparison, or a file. */

import { useMemo } from "react";

import { useAdhoc, useFlame } from "../api/queries";
import { focusOf, nodeOf } from "../flame/focus";
import { unitOf } from "../flame/units";
import { useSpan } from "../state/now";
import { useRoute } from "../state/route";
import { SEPARATOR, defaultOf, parseSel } from "../state/url";
import { Skeleton } from "../ui/Busy";
import { useDifference } from "../ui/difference";
import { FlameGraph } from "../ui/FlameGraph";
import { Mark } from "../ui/Icon";
import { Problem } from "../ui/Problem";
import { useSelection } from "../ui/QueryBar";
import { titleOf } from "../ui/exports";
import { useShape } from "../ui/shape";
import { useSides } from "../ui/sides";
import { WorthStrip } from "../ui/Summary";

export function Embed() {
  const { params, link, set } = useRoute();
  const { query } = useSelection(params.leftQuery || params.query);
  const outer = useSpan();
  const sel = parseSel(params.sel);
  const span = sel === null ? outer : { from: sel[0], until: sel[1] };
  const nodes = Number(params.maxNodes) || Number(defaultOf("maxNodes"));

  const isFile = params.id !== "";
  const isDiff = !isFile && params.leftQuery !== "" && params.rightQuery !== "";
  const single = useFlame(query, span, nodes, { callSite: params.site === "" ? [] : params.site.split(SEPARATOR) }, !isFile && !isDiff);
  const file = useAdhoc(params.id, params.type, nodes);
  const by = params.mode === "abs" ? "rate" : "share";
  const { sides } = useSides();
  const difference = useDifference(sides, by, nodes, params.noise === "1", isDiff);
  const asked = isFile ? file : isDiff ? difference.flame : single;
  const shaped = useShape(isDiff ? null : (asked.data?.flame ?? null));
  const flame = isDiff ? difference.drawn : shaped.flame;
  const start = useMemo(
    () => (!isDiff ? shaped.focus : flame === null || params.focus === "" ? 0 : nodeOf(flame, params.focus.split(SEPARATOR))),
    [flame, isDiff, shaped.focus, params.focus],
  );
  const title = isFile ? (file.data?.file.name ?? "") : titleOf({ query, span, part: {}, maxNodes: nodes, utc: true }).title;

  return (
    <main className="embed">
      <header className="path">
        <h1>{title}</h1>
        <span className="push">
          <a href={link({}, isFile ? "/adhoc" : isDiff ? "/diff" : "/")} target="_blank" rel="noopener" aria-label="Open in flamegrid">
            <Mark />
          </a>
        </span>
      </header>
      {asked.isError && asked.data === undefined ? (
        <Problem fault={asked.error} onRetry={() => void asked.refetch()} />
      ) : flame === null ? (
        <Skeleton />
      ) : (
        <div className="flame-box">
          <WorthStrip answers={[isDiff ? difference.flame.data?.statistics : single.data?.statistics]} />
          <FlameGraph
            flame={flame}
            search={params.q}
            focus={start}
            onZoom={(node) => set({ focus: focusOf(flame, node).join(SEPARATOR) }, { replace: true })}
            options={{
              unit: isFile ? (file.data?.unit ?? "count") : unitOf(query.type),
              upward: params.inv === "1",
              absolute: by === "rate",
              ...(isDiff ? { cover: difference.cover, quiet: difference.quiet, notes: difference.notes } : {}),
              palette: params.pal === "rg" ? "rg" : "cb",
              colourBy: params.color === "function" ? "function" : "package",
              label: title,
            }}
          />
        </div>
      )}
    </main>
  );
}
