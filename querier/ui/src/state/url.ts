/*
 * What the page shows is in its address: one codec for all pages. Parameters at their default are left out, those that this page
 * does not know are kept, and links of Pyroscope's page are understood, since the names are the same.
 */

const DEFAULTS = {
  query: "",
  from: "now-1h",
  until: "now",
  sel: "", // FROM..UNTIL in milliseconds: the part of the range that is looked at
  view: "both",
  q: "", // search
  fn: "", // function of the sandwich
  focus: "", // zoomed bar: the last names of its path and a hash, joined by SEPARATOR
  site: "", // call site that is asked for alone: names from the root, joined by SEPARATOR
  by: "", // label that the timeline is split by
  source: "", // function whose lines are shown
  inv: "", // 1: flames upwards
  color: "package",
  group: "", // how frames are put together
  hide: "", // packages that are not shown
  only: "", // the one package that is shown
  min: "", // least share
  having: "", // the function that all shown stacks have
  alone: "", // bars whose siblings are one bar, each as focus has it, joined by BAR_SEPARATOR
  tree: "", // nodes of the call tree that are opened and closed by hand, as flame/calltree.ts has them
  sort: "", // of tables: a column, with - before it ascending
  maxNodes: "16384",
  tenant: "",
  leftQuery: "",
  leftFrom: "",
  leftUntil: "",
  rightQuery: "",
  rightFrom: "",
  rightUntil: "",
  sync: "", // 1: both sides of a comparison are of the same time, and stay so if one of them is moved
  mode: "share",
  pal: "cb",
  id: "", // an ad hoc profile, a token, a binding or a target of forwarding
  other: "", // the one it is compared with
  type: "", // of several in one file
  show: "", // states of changes that the table of a comparison has; all: also tokens that have ended, settings at their default, or functions beyond the first page
  noise: "", // 1: changes that are not significant have colours, too
  chart: "lines", // how series by label are drawn
  times: "chart", // table: charts over time are tables
  kind: "spans", // what a heat map counts
  box: "", // FROM..UNTIL..LOW..HIGH in a heat map
  span: "", // ids of spans whose profile is shown, joined by commas
  profile: "", // id of the profile that is shown
  trace: "", // id of the trace whose profile is shown
  of: "", // the tenant that administration is about
  form: "", // what is being made or changed: the dialog that is open; reader: that of a new token, which reads
  who: "", // whose records of the audit
  record: "", // of which kind
  member: "", // of the ring, whose settings are shown; "": those of the program that answers
  open: "", // parts that are unfolded, joined by commas
  rowsMax: "", // rows of a table that is longer
  ticked: "", // ids of ad hoc profiles that are to be compared, joined by commas
  lang: "", // kind of program whose lines are shown to send the first profile
  rows: "", // of usage: service; "" is days
  idle: "", // tokens that were not used for so many days
  month: "", // YYYY-MM whose usage is shown; "": the last 31 days
} as const;

export type Name = keyof typeof DEFAULTS;
export type Params = Record<Name, string>;
export type Patch = Partial<Params>;

/* Function names have no such character; addresses carry it as %1F. */
export const SEPARATOR = "\x1f";

/* Between bars, each of which is names joined by SEPARATOR. */
export const BAR_SEPARATOR = "\x1e";

const NAMES = Object.keys(DEFAULTS) as Name[];

/* What Pyroscope's page and older links call it. */
const ALIASES: Record<string, Name> = { "max-nodes": "maxNodes", groupBy: "by", selectionFrom: "from" };

export interface Address {
  params: Params;
  rest: [string, string][]; // unknown, in their order
}

export function parse(search: string): Address {
  const address: Address = { params: { ...DEFAULTS }, rest: [] };
  for (const [name, value] of new URLSearchParams(search)) {
    const known = (ALIASES[name] ?? name) as Name;
    if (NAMES.includes(known)) address.params[known] = value === "" ? DEFAULTS[known] : value;
    else address.rest.push([name, value]);
  }
  return address;
}

/* Returns the search part of an address, without "?". */
export function format(address: Address): string {
  const out = new URLSearchParams();
  for (const name of NAMES) if (address.params[name] !== DEFAULTS[name]) out.append(name, address.params[name]);
  for (const [name, value] of address.rest) out.append(name, value);
  return out.toString();
}

export function patched(address: Address, patch: Patch): Address {
  const params = { ...address.params };
  for (const name of Object.keys(patch) as Name[]) params[name] = patch[name] || DEFAULTS[name];
  return { params, rest: address.rest };
}

export function defaultOf(name: Name): string {
  return DEFAULTS[name];
}

export function parseSel(sel: string): [number, number] | null {
  const found = /^(\d+)\.\.(\d+)$/.exec(sel);
  if (found === null) return null;
  const from = Number(found[1]);
  const until = Number(found[2]);
  return from < until ? [from, until] : null;
}

export function formatSel(sel: [number, number] | null): string {
  return sel === null ? "" : `${Math.round(sel[0])}..${Math.round(sel[1])}`;
}

/* A box in a heat map: times in milliseconds, and values. */
export function parseBox(text: string): { from: number; until: number; low: number; high: number } | null {
  const [from, until, low, high, more] = text.split("..").map(Number);
  if (more !== undefined || !(from! < until!) || !(low! <= high!)) return null;
  return { from: from!, until: until!, low: low!, high: high! };
}

export function formatBox(box: { from: number; until: number; low: number; high: number } | null): string {
  return box === null ? "" : [box.from, box.until, box.low, box.high].map(Math.round).join("..");
}

/* Paths of Pyroscope's page, and ours for them. */
export const OLD_PATHS: Record<string, string> = {
  "/comparison": "/compare",
  "/comparison-diff": "/diff",
  "/explore": "/labels",
};

/* What stays if the user goes to another page: what is asked, not how it is looked at. */
const CARRIED: readonly Name[] = [
  "query",
  "from",
  "until",
  "sel",
  "tenant",
  "leftQuery",
  "leftFrom",
  "leftUntil",
  "rightQuery",
  "rightFrom",
  "rightUntil",
  "sync",
];

export function carried(address: Address): string {
  const params = { ...DEFAULTS } as Params;
  for (const name of CARRIED) params[name] = address.params[name];
  return format({ params, rest: [] });
}
