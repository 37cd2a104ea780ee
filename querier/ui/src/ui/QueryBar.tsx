import { useQueryClient } from "@tanstack/react-query";
import * as Popover from "@radix-ui/react-popover";
import { useMemo, useState } from "react";

import { useLabels, useServices, useValues } from "../api/queries";
import { useNow, useSpan } from "../state/now";
import { useRoute } from "../state/route";
import {
  type Matcher,
  OPERATORS,
  type Operator,
  type Query,
  formatQuery,
  parseQuery,
  serviceOf,
  withMatcher,
  withService,
  withoutMatcher,
} from "../state/selector";
import { change, useDark, useSettings } from "../state/settings";
import { byImportance, meaning } from "../state/types";
import { BusyLine } from "./Busy";
import { Combo, PickList } from "./Combo";
import { Icon } from "./Icon";
import { Menu } from "./Menu";
import { RangePicker } from "./RangePicker";
import { WhoBar } from "./Who";

/* The query of the address; what cannot be read is empty, and `fault` says why. */
export function useSelection(text: string): { query: Query; fault: Error | null } {
  return useMemo(() => {
    try {
      return { query: parseQuery(text), fault: null };
    } catch (fault) {
      return { query: { type: "", matchers: [] }, fault: fault as Error };
    }
  }, [text]);
}

export function ServicePicker({ query, onChange }: { query: Query; onChange: (query: Query) => void }) {
  const services = useServices(useSpan());
  const service = serviceOf(query);
  const items = [
    { key: "", text: "All services", more: "overview" },
    ...(services.data ?? [])
      .filter((one) => one.service !== "")
      .map((one) => ({
        key: one.service,
        text: one.service,
        more: `${one.types.length} ${one.types.length === 1 ? "type" : "types"}`,
      })),
  ];
  const pick = (name: string): void => {
    if (name === "") {
      onChange({ type: "", matchers: [] });
      return;
    }
    const types = services.data?.find((one) => one.service === name)?.types ?? [];
    const type = types.includes(query.type) ? query.type : ([...types].sort(byImportance)[0] ?? query.type);
    onChange(withService({ type, matchers: query.matchers }, name));
  };

  return (
    <Combo
      label="Search services"
      items={items}
      selected={service}
      onPick={pick}
      none={services.isPending ? "Loading …" : "No service matches."}
      trigger={
        <>
          <span className="of">Service </span>
          <span className="what">{service || "All"}</span>
          <Icon name="down" size={13} />
        </>
      }
    />
  );
}

export function TypePicker({ query, onChange }: { query: Query; onChange: (query: Query) => void }) {
  const services = useServices(useSpan());
  const service = serviceOf(query);
  const types = useMemo(() => {
    const found = new Set((services.data ?? []).filter((one) => service === "" || one.service === service).flatMap((one) => one.types));
    return [...found].sort(byImportance);
  }, [services.data, service]);

  return (
    <Combo
      label="Search profile types"
      selected={query.type}
      items={types.map((type) => ({
        key: type,
        text: meaning(type).label,
        more: type.split(":").slice(0, 2).join(":"),
        title: `${meaning(type).what} (${type})`,
      }))}
      onPick={(type) => onChange({ ...query, type })}
      foot={query.type === "" ? undefined : meaning(query.type).what}
      none={services.isPending ? "Loading …" : "This service has no profiles in the range."}
      trigger={
        <>
          <span className="of">Profile </span>
          <span className="what">{query.type === "" ? "Pick one" : meaning(query.type).label}</span>
          <Icon name="down" size={13} />
        </>
      }
    />
  );
}

/* Label, operator, value: in that order, each by typing and Enter. */
function FilterEditor({ query, index, onDone }: { query: Query; index: number | null; onDone: (matcher: Matcher | null) => void }) {
  const span = useSpan();
  const old = index === null ? null : query.matchers[index]!;
  const others = index === null ? query : withoutMatcher(query, index);
  const [name, setName] = useState(old?.name ?? "");
  const [op, setOp] = useState<Operator>(old?.op ?? "=");
  const [prefix, setPrefix] = useState("");
  const labels = useLabels(others, span, name === "");
  const values = useValues(others, span, name, op === "=" || op === "!=" ? prefix : "");

  if (name === "")
    return (
      <PickList
        label="Filter by label"
        selected=""
        onPick={setName}
        free
        none={labels.isPending ? "Loading …" : "No label matches."}
        items={(labels.data?.labels ?? [])
          .filter((row) => !row.name.startsWith("__") && row.name !== "service_name")
          .map((row) => ({ key: row.name, text: row.name, more: `${row.values} ${row.values === 1 ? "value" : "values"}` }))}
      />
    );
  return (
    <div>
      <div style={{ display: "flex", gap: 8, padding: "8px 8px 0", alignItems: "center" }}>
        <button type="button" className="btn small" onClick={() => setName("")}>
          {name}
        </button>
        <span className="seg" role="group" aria-label="Operator">
          {OPERATORS.map((one) => (
            <button key={one} type="button" aria-pressed={op === one} onClick={() => setOp(one)}>
              {one}
            </button>
          ))}
        </span>
      </div>
      <PickList
        key={op}
        label={op.endsWith("~") ? "Regular expression of the whole value" : "Value"}
        selected={old?.value ?? ""}
        free
        initial={op.endsWith("~") ? (old?.value ?? "") : ""}
        onInput={setPrefix}
        onPick={(value) => onDone({ name, op, value })}
        none={values.isPending ? "Loading …" : "No value matches."}
        items={(values.data?.values ?? []).map((row) => ({
          key: row.value,
          text: row.value === "" ? "(empty)" : row.value,
          more: `${row.series} series`,
        }))}
        foot={
          values.data !== undefined && values.data.count > values.data.values.length
            ? `${values.data.count} values; type to find others`
            : undefined
        }
      />
    </div>
  );
}

export function Filters({ query, onChange, wrong }: { query: Query; onChange: (query: Query) => void; wrong?: string }) {
  const [editing, setEditing] = useState<number | "new" | null>(null);
  const shown = query.matchers
    .map((matcher, index) => ({ matcher, index }))
    .filter(({ matcher }) => !(matcher.name === "service_name" && matcher.op === "="));
  const done = (index: number | null, matcher: Matcher | null): void => {
    setEditing(null);
    if (matcher !== null) onChange(withMatcher(index === null ? query : withoutMatcher(query, index), matcher));
  };
  const editor = (index: number | null) => (
    <Popover.Portal>
      <Popover.Content className="floating" align="start" sideOffset={6} collisionPadding={8} aria-label="Filter">
        <FilterEditor query={query} index={index} onDone={(matcher) => done(index, matcher)} />
      </Popover.Content>
    </Popover.Portal>
  );

  return (
    <div className="chips" role="group" aria-label="Filters" tabIndex={-1}>
      {shown.map(({ matcher, index }) => (
        <Popover.Root key={`${index} ${matcher.name}`} open={editing === index} onOpenChange={(open) => setEditing(open ? index : null)}>
          <span className={wrong?.includes(matcher.value) === true && matcher.value !== "" ? "chip wrong" : "chip"}>
            <Popover.Trigger title="Change this filter">
              {matcher.name}
              <span className="op">{matcher.op}</span>
              {matcher.value === "" ? "(empty)" : matcher.value}
            </Popover.Trigger>
            <button
              type="button"
              aria-label={`Remove the filter ${matcher.name}${matcher.op}${matcher.value}`}
              onClick={() => onChange(withoutMatcher(query, index))}
            >
              ×
            </button>
          </span>
          {editing === index && editor(index)}
        </Popover.Root>
      ))}
      <Popover.Root open={editing === "new"} onOpenChange={(open) => setEditing(open ? "new" : null)}>
        <Popover.Trigger className="btn bare small">
          <Icon name="plus" />
          Filter
        </Popover.Trigger>
        {editing === "new" && editor(null)}
      </Popover.Root>
    </div>
  );
}

const EVERY: readonly [number, string][] = [
  [0, "Off"],
  [5, "5 s"],
  [10, "10 s"],
  [30, "30 s"],
  [60, "1 min"],
  [300, "5 min"],
];

function Refresh() {
  const { refresh, everyS, setEvery } = useNow();
  const client = useQueryClient();
  const again = (): void => {
    refresh();
    void client.invalidateQueries();
  };
  return (
    <>
      <button type="button" className="btn icon" aria-label="Refresh now" title="Refresh now" onClick={again}>
        <Icon name="refresh" />
      </button>
      <Menu
        trigger={
          <>
            <span className="hidden-text">Refresh by itself: </span>
            {EVERY.find(([seconds]) => seconds === everyS)![1]}
            <Icon name="down" size={13} />
          </>
        }
        entries={EVERY.map(([seconds, text]) => ({
          key: text,
          text: seconds === 0 ? "Off" : `Every ${text}`,
          on: seconds === everyS,
          run: () => setEvery(seconds),
        }))}
      />
    </>
  );
}

export function ThemeButton() {
  const dark = useDark();
  const { theme } = useSettings();
  return (
    <button
      type="button"
      className="btn bare icon"
      title={theme === "system" ? "Theme: as the system" : `Theme: ${theme}`}
      aria-label={dark ? "Use the light theme" : "Use the dark theme"}
      onClick={() => change({ theme: dark ? "light" : "dark" })}
    >
      <Icon name={dark ? "sun" : "moon"} />
    </button>
  );
}

interface Props {
  /* Whether the page is about one selection, and about a range. */
  selects: boolean;
  ranged: boolean;
  rangeOpen: boolean;
  onRange: (open: boolean) => void;
  onHelp: () => void;
}

export function QueryBar({ selects, ranged, rangeOpen, onRange, onHelp }: Props) {
  const { params, set } = useRoute();
  const { query } = useSelection(params.query);
  const onChange = (next: Query): void => {
    const text = next.type === "" && next.matchers.length === 0 ? "" : formatQuery(next);
    /* Another service or type is another picture: what was zoomed or looked for there means nothing here. */
    const other = next.type !== query.type || serviceOf(next) !== serviceOf(query);
    change({ lastQuery: text });
    set(other ? { query: text, focus: "", site: "", fn: "" } : { query: text });
  };

  return (
    <header className="bar">
      {selects && (
        <>
          <ServicePicker query={query} onChange={onChange} />
          {params.query !== "" && <TypePicker query={query} onChange={onChange} />}
        </>
      )}
      {selects && params.query !== "" ? <Filters query={query} onChange={onChange} /> : <div className="chips" />}
      <div className="end">
        <WhoBar />
        {ranged && <RangePicker open={rangeOpen} onOpen={onRange} />}
        {ranged && <Refresh />}
        <button
          type="button"
          className="btn bare icon"
          aria-label="Keyboard and settings"
          title="Keyboard and settings (?)"
          onClick={onHelp}
        >
          <Icon name="keyboard" />
        </button>
        <ThemeButton />
      </div>
      <BusyLine />
    </header>
  );
}
