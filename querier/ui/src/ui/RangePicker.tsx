import * as Popover from "@radix-ui/react-popover";
import { useState } from "react";

import { useNow } from "../state/now";
import { PRESETS, type Range, dateTime, isValid, rangeLabel, resolve } from "../state/range";
import { useRoute } from "../state/route";
import { change, rememberRange, useSettings } from "../state/settings";
import { Icon } from "./Icon";
import { copy, toast } from "./toast";

/* What an <input type=datetime-local> holds. */
function local(ms: number, utc: boolean): string {
  const text = dateTime(ms, utc).replace(" ", "T");
  return text.length === 16 ? `${text}:00` : text;
}

/* "FROM..UNTIL", "FROM to UNTIL": what "Copy range" gives and what people have in their notes. */
function readPair(text: string): Range | null {
  const parts = text.split(/\s*(?:\.\.|\bto\b|–|→|,)\s*/);
  return parts.length === 2 ? { from: parts[0]!.trim(), until: parts[1]!.trim() } : null;
}

function Own({ onApply }: { onApply: (range: Range) => void }) {
  const { params } = useRoute();
  const { nowMs } = useNow();
  const { utc, recentRanges } = useSettings();
  const [range, setRange] = useState<Range>({ from: params.from, until: params.until });
  const [from, until] = resolve(range, nowMs, utc);
  const valid = isValid(range, nowMs, utc);

  return (
    <form
      className="own"
      onSubmit={(event) => {
        event.preventDefault();
        if (valid) onApply(range);
      }}
    >
      <div className="fields">
        {(["from", "until"] as const).map((end) => (
          <label key={end}>
            {end === "from" ? "From" : "Until"}
            <input
              className="input"
              aria-label={end === "from" ? "From" : "Until"}
              value={range[end]}
              spellCheck={false}
              aria-invalid={!valid}
              placeholder="now-90m, 2026-04-14 14:20, seconds or milliseconds"
              onChange={(event) => setRange({ ...range, [end]: event.target.value })}
              onPaste={(event) => {
                const pair = readPair(event.clipboardData.getData("text"));
                if (pair === null || !isValid(pair, nowMs, utc)) return;
                event.preventDefault();
                setRange(pair);
              }}
            />
            <input
              className="input"
              type="datetime-local"
              step="1"
              aria-label={end === "from" ? "From, as a date" : "Until, as a date"}
              value={valid ? local(end === "from" ? from : until, utc) : ""}
              onChange={(event) => {
                if (event.target.value !== "") setRange({ ...range, [end]: event.target.value.replace("T", " ") });
              }}
            />
          </label>
        ))}
        {!valid && (
          <p className="err" role="status">
            From has to be a time before Until.
          </p>
        )}
        <div className="line">
          <button type="submit" className="btn main" disabled={!valid}>
            Apply
          </button>
          <button type="button" className="btn bare small" onClick={() => void copy("Range", `${from}..${until}`)}>
            <Icon name="copy" />
            Copy range
          </button>
          <button
            type="button"
            className="btn bare small"
            onClick={() => {
              void navigator.clipboard?.readText().then(
                (text) => {
                  const pair = readPair(text);
                  if (pair !== null && isValid(pair, nowMs, utc)) setRange(pair);
                  else toast("The clipboard has no range: FROM..UNTIL");
                },
                () => toast("The browser does not let this page read the clipboard; paste into From instead"),
              );
            }}
          >
            Paste range
          </button>
        </div>
        <div className="line">
          <button type="button" className="btn small" aria-pressed={utc} onClick={() => change({ utc: !utc })}>
            Times in {utc ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone}
          </button>
        </div>
        {recentRanges.length > 0 && (
          <div>
            <p className="note">Recent</p>
            {recentRanges.map((one) => (
              <button key={`${one.from} ${one.until}`} type="button" className="btn bare small" onClick={() => onApply(one)}>
                {rangeLabel(one, nowMs, utc)}
              </button>
            ))}
          </div>
        )}
      </div>
    </form>
  );
}

export function RangePicker({ open, onOpen }: { open: boolean; onOpen: (open: boolean) => void }) {
  const { params, set } = useRoute();
  const { nowMs } = useNow();
  const { utc } = useSettings();
  const label = rangeLabel(params, nowMs, utc);
  const apply = (range: Range): void => {
    onOpen(false);
    /* Absolute text is of this browser's zone; an address is for everyone. */
    const fixed = (text: string): string =>
      text.startsWith("now") || /^\d+$/.test(text) ? text : String(resolve({ from: text, until: "now+100y" }, nowMs, utc)[0]);
    const made = { from: fixed(range.from), until: fixed(range.until) };
    set({ ...made, sel: "" });
    if (!PRESETS.some((preset) => preset.from === made.from && made.until === "now")) rememberRange(made);
  };

  return (
    <Popover.Root open={open} onOpenChange={onOpen}>
      <Popover.Trigger className="btn" aria-label={`Time range: ${label}`}>
        <Icon name="clock" />
        <span className="what">{label}</span>
        <Icon name="down" size={13} />
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content className="floating range" align="end" sideOffset={6} collisionPadding={8} aria-label="Time range">
          <div className="presets">
            {PRESETS.map((preset) => (
              <button
                key={preset.from}
                type="button"
                aria-pressed={params.from === preset.from && params.until === "now"}
                onClick={() => apply({ from: preset.from, until: "now" })}
              >
                {preset.label}
              </button>
            ))}
          </div>
          <Own onApply={apply} />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}
