/* Lines to copy, a tab for each kind of program. */

import type { Snippet } from "../pages/snippets";
import { useRoute } from "../state/route";
import { Icon } from "./Icon";
import { copy } from "./toast";

export function Snippets({ all }: { all: readonly Snippet[] }) {
  const { params, set } = useRoute();
  const picked = Math.max(
    all.findIndex((one) => one.name === params.lang),
    0,
  );
  const setPicked = (index: number): void => set({ lang: index === 0 ? "" : all[index]!.name }, { replace: true });
  const chosen = all[picked]!;
  return (
    <>
      <div className="tabs" role="tablist" aria-label="Kind of program">
        {all.map((one, index) => (
          <button
            key={one.name}
            type="button"
            role="tab"
            id={`tab-${index}`}
            aria-selected={index === picked}
            aria-controls="snippet"
            tabIndex={index === picked ? 0 : -1}
            onClick={() => setPicked(index)}
            onKeyDown={(event) => {
              const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
              if (by === 0) return;
              const next = (index + by + all.length) % all.length;
              setPicked(next);
              document.getElementById(`tab-${next}`)?.focus();
            }}
          >
            {one.name}
          </button>
        ))}
      </div>
      <div id="snippet" role="tabpanel" aria-labelledby={`tab-${picked}`}>
        {chosen.install !== undefined && (
          <p>
            <code>{chosen.install}</code>
          </p>
        )}
        <div className="snippet">
          <pre tabIndex={0}>
            <code>{chosen.code}</code>
          </pre>
          <button type="button" className="btn small icon" aria-label="Copy the lines" onClick={() => void copy("Lines", chosen.code)}>
            <Icon name="copy" />
          </button>
        </div>
      </div>
    </>
  );
}
