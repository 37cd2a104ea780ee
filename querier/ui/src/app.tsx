import { type ComponentType, Suspense, lazy, useEffect, useRef, useState } from "react";
import { Link, Redirect, Route, Switch } from "wouter";

import { useRights, useWho } from "./api/who";
import { useNow } from "./state/now";
import { scaled, shifted } from "./state/range";
import { useRoute } from "./state/route";
import { change, isDark } from "./state/settings";
import { OLD_PATHS, carried } from "./state/url";
import { Explore } from "./pages/Explore";
import { Skeleton } from "./ui/Busy";
import { Faults } from "./ui/Faults";
import { Icon, type IconName, Mark } from "./ui/Icon";
import { QueryBar } from "./ui/QueryBar";
import { SignIn } from "./ui/SignIn";
import { HelpDialog, useKeys } from "./ui/Shortcuts";
import { Toast, copy } from "./ui/toast";

interface Page {
  path: string;
  name: string;
  icon: IconName;
  key?: string; // after g
  selects: boolean; // the query bar's selection is this page's
  ranged: boolean; // and its range
  view: ComponentType;
  atEnd?: boolean; // of the rail
  part?: true; // of the page before it, whose entry in the rail stands for it
  governs?: true; // for those who govern tenants
  reads?: true; // it is about profiles
}

/* Loaded when they are first shown: what most visits need stays small. */
const Adhoc = lazy(() => import("./pages/Adhoc").then((module) => ({ default: module.Adhoc })));
const Compare = lazy(() => import("./pages/Compare").then((module) => ({ default: module.Compare })));
const Diff = lazy(() => import("./pages/Diff").then((module) => ({ default: module.Diff })));
const Embed = lazy(() => import("./pages/Embed").then((module) => ({ default: module.Embed })));
const NoRead = lazy(() => import("./pages/NoRead").then((module) => ({ default: module.NoRead })));
const Labels = lazy(() => import("./pages/Labels").then((module) => ({ default: module.LabelsPage })));
const Spans = lazy(() => import("./pages/Spans").then((module) => ({ default: module.Spans })));
const Status = lazy(() => import("./pages/Status").then((module) => ({ default: module.Status })));
const Targets = lazy(() => import("./pages/Targets").then((module) => ({ default: module.Targets })));
const Usage = lazy(() => import("./pages/Usage").then((module) => ({ default: module.UsagePage })));
const Tenants = lazy(() => import("./pages/admin").then((module) => ({ default: module.Tenants })));
const Tokens = lazy(() => import("./pages/admin").then((module) => ({ default: module.Tokens })));
const People = lazy(() => import("./pages/admin").then((module) => ({ default: module.People })));
const Audit = lazy(() => import("./pages/admin").then((module) => ({ default: module.AuditPage })));

const PAGES: readonly Page[] = [
  { path: "/", name: "Explore", icon: "explore", key: "e", selects: true, ranged: true, view: Explore, reads: true },
  { path: "/labels", name: "Labels", icon: "labels", key: "l", selects: true, ranged: true, view: Labels, reads: true },
  { path: "/spans", name: "Spans", icon: "spans", key: "s", selects: true, ranged: true, view: Spans, reads: true },
  { path: "/compare", name: "Compare", icon: "compare", key: "c", selects: false, ranged: true, view: Compare, reads: true },
  { path: "/diff", name: "Diff", icon: "diff", key: "d", selects: false, ranged: true, view: Diff, reads: true },
  { path: "/adhoc", name: "Ad hoc", icon: "adhoc", key: "a", selects: false, ranged: false, view: Adhoc, reads: true },
  { path: "/targets", name: "Targets", icon: "targets", key: "t", selects: false, ranged: false, view: Targets, atEnd: true },
  { path: "/status", name: "Status", icon: "status", key: "u", selects: false, ranged: false, view: Status, atEnd: true },
  { path: "/usage", name: "Usage", icon: "usage", key: "b", selects: false, ranged: false, view: Usage, atEnd: true, reads: true },
  { path: "/tenants", name: "Tenants", icon: "admin", key: "m", selects: false, ranged: false, view: Tenants, atEnd: true, governs: true },
  { path: "/tokens", name: "Tokens", icon: "admin", selects: false, ranged: false, view: Tokens, part: true },
  { path: "/people", name: "People", icon: "admin", selects: false, ranged: false, view: People, part: true },
  { path: "/audit", name: "Audit", icon: "admin", selects: false, ranged: true, view: Audit, part: true },
];

/* The entry of the rail that stands for a page. */
function entryOf(page: Page): Page {
  const before = PAGES.slice(0, PAGES.indexOf(page) + 1).filter((one) => one.part !== true);
  return before[before.length - 1]!;
}

function Rail({ current }: { current: Page }) {
  const { address } = useRoute();
  const { governs } = useRights();
  const shown = PAGES.filter((page) => page.part !== true && (page.governs !== true || governs));
  const search = carried(address);
  const entry = (page: Page) => (
    <Link
      key={page.path}
      className="page"
      href={search === "" ? page.path : `${page.path}?${search}`}
      aria-current={entryOf(current) === page ? "page" : undefined}
    >
      <Icon name={page.icon} size={16} />
      {page.governs === true ? "Admin" : page.name}
    </Link>
  );
  return (
    <nav className="rail" aria-label="Pages">
      <Link className="mark" href="/" aria-label="flamegrid: all services">
        <Mark />
      </Link>
      {shown.filter((page) => page.atEnd !== true).map(entry)}
      <span className="gap" />
      {shown.filter((page) => page.atEnd === true).map(entry)}
    </nav>
  );
}

export function App() {
  const { path } = useRoute();
  if (path === "/embed")
    return (
      <Suspense fallback={<Skeleton />}>
        <Embed />
      </Suspense>
    );
  return <Frame />;
}

function Frame() {
  const { path, params, address, set } = useRoute();
  const { nowMs, refresh } = useNow();
  const [help, setHelp] = useState(false);
  const [range, setRange] = useState(false);
  const main = useRef<HTMLElement>(null);
  const who = useWho();
  const { reads } = useRights();
  const page = PAGES.find((one) => one.path === path) ?? PAGES[0]!;
  const mayNot = page.reads === true && !reads;

  useEffect(() => {
    document.title = `${page.name}${params.query === "" ? "" : ` · ${params.query.slice(0, 80)}`} · flamegrid`;
  }, [page, params.query]);
  const move = (to: { from: string; until: string }): void => set({ ...to, sel: "" });
  const go = (to: string): void =>
    set(
      {
        view: "",
        q: "",
        fn: "",
        focus: "",
        site: "",
        source: "",
        having: "",
        alone: "",
        tree: "",
        of: "",
        form: "",
        open: "",
        rowsMax: "",
        ticked: "",
      },
      { path: to },
    );
  useKeys({
    "?": () => setHelp(true),
    "/": () => document.querySelector<HTMLElement>("[data-search]")?.focus(),
    t: () => setRange(true),
    r: refresh,
    d: () => change({ theme: isDark() ? "light" : "dark" }),
    y: () => void copy("Link", location.href),
    "[": () => move(shifted(params, -1, nowMs)),
    "]": () => move(shifted(params, 1, nowMs)),
    "-": () => move(scaled(params, 2, nowMs)),
    "=": () => move(scaled(params, 0.5, nowMs)),
    ...Object.fromEntries(PAGES.filter((one) => one.key !== undefined).map((one) => [`g ${one.key}`, () => go(one.path)])),
  });

  const old = OLD_PATHS[path];
  if (old !== undefined) return <Redirect to={`${old}${location.search}`} replace />;
  return (
    <>
      <button type="button" className="skip" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <div className="frame">
        <Rail current={page} />
        <div className="column">
          <QueryBar
            selects={page.selects && !mayNot}
            ranged={page.ranged && !mayNot}
            rangeOpen={range}
            onRange={setRange}
            onHelp={() => setHelp(true)}
          />
          <main ref={main} tabIndex={-1}>
            <Faults key={`${path} ${address.params.query}`}>
              <Suspense
                fallback={
                  <section className="card profile">
                    <Skeleton />
                  </section>
                }
              >
                {who.state === "out" ? (
                  <section className="card">
                    <h1 className="hidden-text">Log in</h1>
                    <SignIn reason={who.reason} login={who.login} />
                  </section>
                ) : mayNot ? (
                  <NoRead />
                ) : (
                  <Switch>
                    {PAGES.map((one) => (
                      <Route key={one.path} path={one.path} component={one.view} />
                    ))}
                    <Route>
                      <section className="card center">
                        <h2>There is no such page</h2>
                        <p>
                          <Link href="/">All services</Link>
                        </p>
                      </section>
                    </Route>
                  </Switch>
                )}
              </Suspense>
            </Faults>
          </main>
        </div>
      </div>
      <HelpDialog open={help} onClose={() => setHelp(false)} />
      <Toast />
    </>
  );
}
