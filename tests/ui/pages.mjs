// Cases in a browser: node pages.mjs URL PICTURES CASE... (browser.mjs).
import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import zlib from "node:zlib";

import { ask, at, flame, isAccessible, isNarrow, picture, run, saved, share, shown, url } from "./browser.mjs";

const CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";
const SHOP = `${CPU}{service_name="shop"}`; // what ui_test.py has pushed
/* The hour before that: of "the last hour" some is gone when a slow machine comes to the last cases. */
const FILLED_MS = Number(process.env.FILLED_MS);
const HOUR = { from: String(FILLED_MS - 3600e3), until: String(FILLED_MS) };

/* ---- what cases share ---- */

const card = (page) => page.getByRole("region", { name: "Profile" });
const summary = (page) => page.getByRole("group", { name: "Summary" });

/* Until a selection's answers are there: the picture, and the table if the view has one. */
async function settled(page) {
  await summary(page)
    .getByText(/complete/)
    .waitFor();
  await page.locator("main .stale").waitFor({ state: "detached" });
}

async function explore(page, parameters = {}) {
  await page.goto(at("/", { query: SHOP, ...parameters }));
  await settled(page);
}

/* The whole table, which has only the rows in sight in the document: name, and the two shares. */
async function table(page) {
  const rows = new Map();
  const box = card(page).locator(".rows").first();
  await box.evaluate((element) => {
    element.scrollTop = 0;
  });
  for (;;) {
    const seen = await box
      .locator("tbody tr[data-row]")
      .evaluateAll((found) =>
        found.map((row) => [
          Number(row.dataset.row),
          row.querySelector(".name").title,
          ...[...row.querySelectorAll(".share")].map((share) => share.textContent),
        ]),
      );
    for (const [number, ...row] of seen) rows.set(number, row);
    const more = await box.evaluate((element) => {
      const before = element.scrollTop;
      element.scrollTop += element.clientHeight / 2;
      return element.scrollTop > before;
    });
    if (!more) return [...rows.keys()].sort((a, b) => a - b).map((number) => rows.get(number));
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }
}

/* A proxy that serves the server below a prefix, as people put it behind one. instead: may answer a request itself. */
async function behind(prefix, run, instead = () => false) {
  const upstream = new URL(url);
  const proxy = http.createServer((request, answer) => {
    if (!request.url.startsWith(prefix)) {
      answer.writeHead(404).end();
      return;
    }
    if (instead(request, answer)) return;
    const passed = http.request(
      {
        host: upstream.hostname,
        port: upstream.port,
        method: request.method,
        path: request.url.slice(prefix.length - 1),
        headers: request.headers,
      },
      (from) => {
        answer.writeHead(from.statusCode, from.headers);
        from.pipe(answer);
      },
    );
    request.pipe(passed);
  });
  await new Promise((done) => proxy.listen(0, "127.0.0.1", done));
  try {
    await run(`http://127.0.0.1:${proxy.address().port}${prefix}`);
  } finally {
    proxy.closeAllConnections();
    proxy.close();
  }
}

/* ---- cases ---- */

const cases = {
  /* A server that profiles itself shows that, and how to send profiles until there are some of somebody else. */
  async "own profiles"(page) {
    const heading = page.getByRole("heading", { name: "Send profiles of yours" });
    await page.goto(`${url}/`);
    /* Each question takes processor time, so soon one is sampled. */
    while (!(await heading.isVisible())) {
      await page.waitForTimeout(500);
      await page.goto(`${url}/`);
    }
    await page.getByRole("link", { name: "flamegrid", exact: true }).waitFor();
    assert.ok((await page.getByRole("tabpanel").textContent()).includes(`${url}/ingest`));
    assert.equal((await page.request.post(`${url}/ingest?name=demo.cpu&from=now-10s&until=now`, { data: "main;work 30\n" })).status(), 200);
    await page.getByRole("link", { name: "demo", exact: true }).waitFor();
    assert.equal(await heading.count(), 0);
  },

  /* A server without a profile says how to send one, and shows it as soon as it comes. */
  async "first profile"(page) {
    await page.goto(`${url}/`);
    await page.getByRole("heading", { name: "Send the first profile" }).waitFor();
    assert.ok((await page.getByRole("tabpanel").textContent()).includes(`${url}/ingest`));
    await picture(page, "start");
    await isAccessible(page, "the start");
    await page.getByRole("tab", { name: "curl" }).focus();
    await page.keyboard.press("ArrowRight");
    assert.ok((await page.getByRole("tabpanel").textContent()).includes(`ServerAddress:   "${url}"`));
    await page.getByRole("tab", { name: "Java" }).click();
    await page.goto(page.url());
    await page.getByRole("tab", { name: "Java", selected: true }).waitFor();
    assert.equal((await page.request.post(`${url}/ingest?name=demo.cpu&from=now-10s&until=now`, { data: "main;work 30\n" })).status(), 200);
    await page.getByRole("link", { name: "demo", exact: true }).waitFor();
  },

  /* The hottest function of a service in three clicks, without knowing anything. */
  async services(page) {
    await page.goto(`${url}/`);
    await page.getByRole("heading", { name: /services$/ }).waitFor();
    await page.locator(".spark path").first().waitFor({ state: "attached" });
    await picture(page, "services");
    await isAccessible(page, "services");
    const search = page.getByRole("searchbox", { name: "Search services" });
    await search.fill("SHO");
    assert.deepEqual(await page.locator(".service h2").allTextContents(), ["shop"]);
    assert.equal(shown(page).q, "SHO");
    await search.fill("nobody");
    await page.getByRole("button", { name: "Show all" }).click();
    await page.getByRole("link", { name: "shop", exact: true }).click();
    await settled(page);
    assert.equal(shown(page).query, SHOP);
    assert.equal((await table(page))[0][0], "hash");
    await page.goBack();
    await page.getByRole("heading", { name: /services$/ }).waitFor();
  },

  /* Names and shares of all functions, in the order of the server's numbers. */
  async table(page) {
    for (const query of [SHOP, `${CPU}{service_name="bench"}`]) {
      const range = { from: `${Date.now() - 3600e3}`, until: `${Date.now()}` };
      for (const column of ["self", "total"]) {
        const want = await ask(page, "/api/functions", { query, ...range, sort: column, limit: "100000" });
        await explore(page, { query, ...range, view: "table", sort: column });
        const rows = await table(page);
        assert.equal(rows.length, want.count);
        assert.deepEqual(
          rows,
          want.functions.map((row) => [row.name, share(row.self, want.total), share(row.total, want.total)]),
        );
      }
    }
    await explore(page, { view: "table" });
    await page.getByRole("button", { name: /^Function/ }).click();
    const names = (await table(page)).map((row) => row[0]);
    assert.deepEqual(names, [...names].sort());
    assert.equal(shown(page).sort, "-name");
    await page.getByRole("searchbox").fill("^(hash|sort)$");
    assert.deepEqual(
      (await table(page)).map((row) => row[0]),
      ["hash", "sort"],
    );
  },

  /* What a row of the table offers without a right button, and by keys; and the time before is a click away. */
  async rows(page) {
    await explore(page, { view: "table" });
    const row = card(page).getByRole("row", { name: /^hash/ });
    await row.hover();
    await row.getByRole("button", { name: "Actions for hash" }).click();
    await page.getByRole("menuitem", { name: "Sandwich: callers and callees" }).click();
    await page.getByRole("application", { name: /^Callers/ }).waitFor();
    assert.deepEqual([shown(page).view, shown(page).fn, shown(page).q], ["sandwich", "hash", undefined]);
    await page.keyboard.press("1");
    await card(page).getByRole("button", { name: "sort", exact: true }).focus();
    await page.keyboard.press("s");
    await page.waitForURL((to) => to.searchParams.get("fn") === "sort");
    await page.keyboard.press("1");
    await card(page).getByRole("button", { name: "work", exact: true }).focus();
    await page.keyboard.press("o");
    await page.getByRole("dialog", { name: "Source and lines" }).getByText("work", { exact: true }).waitFor();
    const until = Math.round(Date.now() / 1000) * 1000;
    await explore(page, { from: String(until - 1800e3), until: String(until) });
    await page.getByRole("link", { name: "Compare with the previous 30 min" }).click();
    await page.waitForURL(/\/diff\?/);
    const { leftFrom, leftUntil, rightFrom, rightUntil, leftQuery } = shown(page);
    assert.deepEqual([leftFrom, leftUntil, rightFrom, rightUntil].map(Number), [3600e3, 1800e3, 1800e3, 0].map((ago) => until - ago));
    assert.equal(leftQuery, SHOP);
    await page.getByRole("region", { name: "Baseline", exact: true }).waitFor();
    page.refused = undefined; // an answer of the page before may be cut off
  },

  /* Zoom, search and menu by mouse and by keys; the address follows, and gives the same again. */
  async "flame graph"(page) {
    await explore(page);
    await picture(page, "single");
    await isAccessible(page, "both");
    await flame(page).focus();
    for (const key of ["ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
    await page.getByRole("navigation", { name: "Zoom" }).getByRole("button", { name: "work" }).waitFor();
    const zoomed = page.url();
    assert.ok(shown(page).focus.startsWith("main\x1fwork\x1f"));
    assert.ok((await page.getByRole("navigation", { name: "Zoom" }).textContent()).includes("95.24% of total"));
    await page.goto(zoomed);
    await settled(page);
    await page.getByRole("navigation", { name: "Zoom" }).getByRole("button", { name: "work" }).waitFor();
    await page.getByRole("navigation", { name: "Zoom" }).getByRole("button", { name: "All" }).click();
    assert.equal(shown(page).focus, undefined);

    await page.keyboard.press("/");
    await page.keyboard.type("WORK|idle");
    assert.equal(shown(page).q, "WORK|idle"); // capitals count: nothing is called so but idle
    await page.keyboard.press("Escape");
    await page.keyboard.type("work");
    await page
      .getByRole("search")
      .getByText(/95\.24/)
      .waitFor();
    await page.keyboard.press("Escape");

    const box = await flame(page).boundingBox();
    await page.mouse.click(box.x + 100, box.y + 30, { button: "right" }); // the second row: main
    await page.getByRole("menuitem", { name: "Only stacks through here" }).click();
    await settled(page);
    assert.equal(shown(page).site, "main");
    await page.getByRole("navigation", { name: "Zoom" }).getByRole("button", { name: "only through main" }).waitFor();
    await page.mouse.click(box.x + 100, box.y + 70); // the fourth row: hash
    await page.getByRole("navigation", { name: "Zoom" }).getByRole("button", { name: "hash" }).waitFor();
  },

  /* A bar without its siblings, and only stacks with a function: by the menu and by keys; the table follows. */
  async "parts of a flame graph"(page) {
    const zoom = page.getByRole("navigation", { name: "Zoom" });
    const hasFrames = (count) => page.waitForFunction((text) => document.querySelector(".fg-flame")?.ariaLabel.includes(text), `, ${count} frames`);
    await explore(page, HOUR);
    await hasFrames(6); // total, main, idle, work, hash, sort
    await flame(page).focus();
    for (const key of ["ArrowDown", "ArrowDown", "c"]) await page.keyboard.press(key); // work, which has idle at its side
    await page.waitForURL(/alone=/);
    await page.goto(page.url());
    await settled(page);
    await flame(page).focus();
    for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
    await page.locator(".fg-flame-live").getByText("… 1 sibling, level 3, total 1.12 s, 4.76%").waitFor();
    await isAccessible(page, "collapsed siblings");
    await page.keyboard.press("m");
    await page.getByRole("menuitem", { name: "Show all siblings" }).click();
    await page.waitForURL((to) => !to.searchParams.has("alone"));

    await page.goto(at("/", { query: SHOP, having: "sort" }));
    await settled(page);
    await hasFrames(4);
    assert.deepEqual(await table(page), [
      ["sort", "100%", "100%"],
      ["main", "0%", "100%"],
      ["work", "0%", "100%"],
    ]);
    assert.ok((await zoom.textContent()).includes("100% of total"), await zoom.textContent());
    await isAccessible(page, "a filter of stacks");
    await page.getByRole("button", { name: "Remove the filter sort" }).click();
    await hasFrames(6);
    await card(page).getByRole("button", { name: "hash", exact: true }).click({ button: "right" });
    await page.getByRole("menuitemcheckbox", { name: /^Use as filter/ }).click();
    await hasFrames(4);
    assert.equal(shown(page).having, "hash");
    /* Where it is embedded, it is the same. */
    await page.goto(at("/embed", { query: SHOP, having: "hash" }));
    await hasFrames(4);
  },

  /* Lines of a function with what they cost, and links to where the labels of its profiles say that the source is. */
  async "source of a function"(page) {
    const dialog = page.getByRole("dialog", { name: "Source and lines" });
    await page.goto(at("/", { query: `${CPU}{service_name="linked"}`, view: "table", source: "work" }));
    const link = dialog.getByRole("link", { name: "api/get.go:12" });
    await link.waitFor();
    assert.equal(await link.getAttribute("href"), "https://github.com/acme/shop/blob/3f2a/services/api/get.go#L12");
    assert.deepEqual([await link.getAttribute("target"), await link.getAttribute("rel")], ["_blank", "noopener noreferrer"]);
    const rows = await dialog.locator("tbody tr").allTextContents();
    assert.deepEqual(
      rows.map((row) => row.replace(/\s/g, " ")), // between a number and its unit is a space of its own kind
      ["api/get.go:1270 ms90 ms90.00%", "api/get.go:1410 ms10 ms10.00%"],
    );
    await isAccessible(page, "source of a function");
    await picture(page, "source");
    await page.keyboard.press("Escape");
    await page.waitForURL((to) => !to.searchParams.has("source"));
    await page.getByRole("button", { name: "work", exact: true }).click({ button: "right" });
    await page.getByRole("menuitem", { name: "Source and lines" }).click();
    await link.waitFor();
    /* A label that is no address of the web is none, and a service without labels says what is missing. */
    await page.goto(at("/", { query: `${CPU}{service_name="hostile"}`, source: "work" }));
    await dialog.getByText("api/get.go:12").waitFor();
    await dialog.getByText(/^No file of this function is in/).waitFor();
    assert.equal(await dialog.getByRole("link").count(), 0);
    await page.goto(at("/", { query: SHOP, source: "hash" }));
    await dialog.getByText(/label service_repository/).waitFor();
  },

  /* Each state from its address alone, and a look at it changes no address. */
  async states(page) {
    const until = Date.now();
    const states = [
      [{ view: "table" }, () => page.getByRole("table", { name: "Functions" })],
      [{ view: "flame" }, () => flame(page)],
      [{ view: "tree" }, () => page.getByRole("treegrid").getByText("hash")],
      [{ view: "sandwich", fn: "hash" }, () => flame(page, "Callers")],
      [{ view: "sandwich", fn: "nobody" }, () => page.getByRole("heading", { name: "No stack has it" })],
      [{ view: "sandwich" }, () => page.getByText("Pick a function", { exact: false }).first()],
      [{ q: "work" }, () => page.getByRole("search").getByText(/95\.24/)],
      [{ by: "pod" }, () => page.getByRole("button", { name: "Split by pod" })],
      [{ inv: "1" }, () => page.getByRole("button", { name: "Flame", exact: true }).nth(1)],
      [{ color: "function" }, () => page.getByRole("button", { name: "Colours: Function" })],
      [{ group: "package" }, () => page.getByRole("button", { name: "Group •" })],
      [{ only: "main" }, () => page.getByRole("button", { name: "Group •" })],
      [{ having: "sort" }, () => page.getByRole("navigation", { name: "Zoom" }).getByText("only stacks with sort")],
      [{ alone: "main\x1fwork\x1fhash\x1f00000000" }, () => page.getByRole("button", { name: "Group •" })],
      [{ source: "hash" }, () => page.getByRole("dialog", { name: "Source and lines" }).getByText("hash", { exact: true })],
      [{ show: "all" }, () => summary(page).getByText("functions")],
      [{ group: "recursion", min: "0.01" }, () => flame(page)],
      [{ site: "main\x1fwork" }, () => page.getByRole("button", { name: "only through work" })],
      [{ maxNodes: "3" }, () => summary(page).getByText("folded into")],
      [{ sel: `${until - 40 * 60e3}..${until - 10 * 60e3}` }, () => page.getByRole("button", { name: "Clear the selection" })],
      [{ from: String(until - 3600e3), until: String(until) }, () => flame(page)],
      [{ query: `${CPU}{service_name="shop",pod=~"a|b"}` }, () => page.getByRole("button", { name: "Remove the filter pod=~a|b" })],
      [{ later: "unknown parameters stay" }, () => flame(page)],
    ];
    for (const [state, sign] of states) {
      await explore(page, state);
      await sign().waitFor();
      const asked = { query: SHOP, ...state };
      assert.deepEqual(shown(page), asked, JSON.stringify(state));
      assert.ok((await page.title()).startsWith("Explore"), await page.title());
    }
    await page.goto(at("/", { query: `${CPU}{service_name="shop",pod="none"}` }));
    await page.getByRole("button", { name: "remove pod=none" }).click();
    await settled(page);
    /* Two hours later there is nothing, and the way back is a click. */
    await page.goto(at("/", { query: SHOP, from: String(until + 3600e3), until: String(until + 7200e3) }));
    await page.getByRole("heading", { name: "No profile matches" }).waitFor();
    await isAccessible(page, "nothing in the range");
    await page.getByRole("button", { name: "Go to the nearest time with profiles" }).click();
    await settled(page);
    const { from, until: end } = shown(page);
    assert.ok(Number(from) < until && Number(end) <= Date.now(), `${from} ${end}`);
    page.refused = undefined; // an answer of the address before may be cut off
  },

  /* What is unfolded, ticked, or longer than its first rows is in the address of its page. */
  async unfolded(page) {
    await page.goto(at("/status"));
    const limit = page.getByRole("row", { name: /^limits\.max_query_length / });
    await page.getByText("Limits", { exact: true }).click();
    await limit.waitFor();
    await page.waitForURL(/open=limits/);
    await page.goto(page.url());
    await limit.waitFor();
    await page.getByText("Limits", { exact: true }).click();
    await limit.waitFor({ state: "hidden" });
    await page.waitForURL((to) => !to.searchParams.has("open"));

    await page.goto(at("/labels", { query: SHOP, by: "pod" }));
    await page.getByRole("button", { name: "The server's own labels, too" }).click();
    const own = page.getByRole("table", { name: "Labels by number of values" }).getByText("__profile_type__");
    await own.waitFor();
    await page.goto(page.url());
    await own.waitFor();

    const ids = [];
    for (const name of ["one.folded", "two.folded"]) {
      const made = await page.request.post(at("/api/adhoc", { name }), { data: "main;work 3\n" });
      assert.equal(made.status(), 200);
      ids.push((await made.json()).id);
    }
    await page.goto(at("/adhoc", { ticked: ids.join(",") }));
    await page.getByRole("button", { name: "Compare the two ticked" }).click();
    await page.waitForURL((to) => to.searchParams.get("id") === ids[0] && to.searchParams.get("other") === ids[1]);

    /* Where a picture is embedded its zoom is in the address, and so in that of the way back. */
    await page.goto(at("/embed", { query: SHOP }));
    const picture = page.getByRole("application");
    await picture.focus();
    for (const key of ["ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
    await page.waitForURL(/focus=main/);
    const back = await page.getByRole("link", { name: "Open in flamegrid" }).getAttribute("href");
    assert.ok(back.includes("focus=main"), back);
  },

  /* What answers are worth is said: sums that do not fit, bars that are not exact, and members that did not answer. */
  async worth(page) {
    await explore(page);
    assert.equal(await page.locator(".strip").count(), 0);
    const range = { from: String(Date.now() - 4 * 3600e3), until: String(Date.now() - 2 * 3600e3) };
    for (const minutes of [130, 140]) {
      const seconds = Math.round(Date.now() / 1000) - minutes * 60;
      const pushed = await page.request.post(at("/ingest", { name: "huge.cpu", from: seconds, until: seconds + 10, format: "folded" }), {
        data: "main;work 900000000000\n",
      });
      assert.equal(pushed.status(), 200);
    }
    await page.goto(at("/", { query: `${CPU}{service_name="huge"}`, ...range }));
    await page.getByText("Too large a sum.").waitFor();
    await summary(page).getByText(/^too large in/).waitFor();
    assert.equal(await summary(page).getByText("bars exact to").count(), 0);
    await isAccessible(page, "a sum that is too large");

    const exactly = await ask(page, "/pyroscope/render", { query: SHOP, from: "now-1h", statistics: "true" });
    const worse = { ...exactly.statistics, complete: false, missing: "ingester i1 did not answer", exact: false, bound: 20_000_000 };
    await page.route("**/pyroscope/render?*", (route) => route.fulfill({ json: { ...exactly, statistics: worse } }));
    await page.goto(at("/", { query: SHOP }));
    await page.getByText("ingester i1 did not answer; totals may be low.").waitFor();
    await summary(page).getByText("bars exact to 20 ms").waitFor();
    await page.goto(at("/compare", { query: SHOP }));
    await flame(page, "Baseline").waitFor();
    await page.getByText("bars exact to 20 ms").nth(1).waitFor();
    await page.getByRole("link", { name: "Status" }).last().click();
    await page.getByRole("heading", { name: "Tenant anonymous" }).waitFor();
    await page.unroute("**/pyroscope/render?*");
    page.refused = undefined; // an answer of the address before may be cut off
  },

  /* A part of the range: by dragging, by keys; its total is the server's. */
  async timeline(page) {
    await explore(page, HOUR);
    const plot = await page.locator(".timeline .u-over").boundingBox();
    await page.mouse.move(plot.x + plot.width * 0.2, plot.y + 40);
    await page.mouse.down();
    await page.mouse.move(plot.x + plot.width * 0.5, plot.y + 50, { steps: 4 });
    await page.mouse.up();
    await page.getByRole("button", { name: "Clear the selection" }).waitFor();
    await settled(page);
    const [from, until] = shown(page).sel.split("..");
    const want = await ask(page, "/api/functions", { query: SHOP, from, until });
    const rows = await table(page);
    assert.deepEqual(
      rows,
      want.functions.map((row) => [row.name, share(row.self, want.total), share(row.total, want.total)]),
    );
    await picture(page, "selection");

    await page.getByRole("slider").first().focus();
    await page.keyboard.press("ArrowLeft");
    await page.waitForFunction((before) => new URL(location.href).searchParams.get("sel") !== before, `${from}..${until}`);
    await page.getByRole("button", { name: "Zoom to selection" }).click();
    assert.equal(shown(page).sel, undefined);
    await settled(page);
    await page.goBack();
    await page.getByRole("button", { name: "Clear the selection" }).click();
    await settled(page);
    await page.getByRole("button", { name: "Split by" }).click();
    await page.getByRole("menuitemcheckbox", { name: /^pod/ }).click();
    await page.getByRole("button", { name: "b", exact: true }).click(); // in the legend: only this one
    await page.getByRole("button", { name: "Remove the filter pod=b" }).waitFor();
    await settled(page);

    /* As a table: rates are the server's, so a program that does the same all the time has the same rate, though its profiles come
     * once a minute and the steps are of half a minute. */
    await explore(page, HOUR);
    await page.getByRole("button", { name: "View as table" }).click();
    assert.equal(shown(page).times, "table");
    const times = page.getByRole("region", { name: "Values over time" });
    const cells = await times.locator("tbody td.n").allTextContents();
    const values = cells.filter((text) => text !== "–");
    assert.ok(cells.length >= 119 && values.length >= 105, `${values.length} of ${cells.length} steps have values`);
    assert.deepEqual([...new Set(values)], [values[0]]);
    await isAccessible(page, "the timeline as a table");
    await page.getByRole("button", { name: "View as chart" }).click();
    await page.locator(".timeline .u-over").waitFor();
  },

  /* The query without a mouse: service, type, filter with operator, range. */
  async "query bar"(page) {
    await page.goto(`${url}/`);
    await page.getByRole("button", { name: /^Service All/ }).press("Enter");
    await page.keyboard.type("ben");
    await page.getByRole("option", { name: /^bench/ }).waitFor();
    await page.keyboard.press("Enter");
    await settled(page);
    assert.equal(shown(page).query, `${CPU}{service_name="bench"}`);
    await page.getByRole("button", { name: /^Profile / }).press("Enter");
    await page.keyboard.type("samples");
    await page.keyboard.press("Enter");
    await settled(page);
    assert.equal(shown(page).query, 'process_cpu:samples:count:cpu:nanoseconds{service_name="bench"}');

    await explore(page);
    await page.getByRole("button", { name: "Filter", exact: true }).press("Enter");
    await page.getByRole("option", { name: /^pod/ }).waitFor();
    await page.keyboard.type("pod");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "!=" }).click();
    await page.getByRole("combobox", { name: "Value" }).fill("b");
    await page.getByRole("option", { name: /^b/ }).waitFor();
    await page.keyboard.press("Enter");
    await settled(page);
    assert.equal(shown(page).query, `${CPU}{service_name="shop",pod!="b"}`);
    await page.getByRole("button", { name: "Remove the filter pod!=b" }).click();
    await settled(page);
    assert.equal(shown(page).query, SHOP);

    await page.keyboard.press("t");
    await page.getByRole("textbox", { name: "From", exact: true }).fill("now-90m");
    await page.keyboard.press("Enter");
    await settled(page);
    assert.equal(shown(page).from, "now-90m");
    await page.keyboard.press("t");
    await page.getByRole("textbox", { name: "From", exact: true }).fill("tomorrow, perhaps");
    assert.equal(await page.getByRole("button", { name: "Apply" }).isEnabled(), false);
    await page.getByRole("button", { name: "Last 3 hours" }).click();
    await settled(page);
    assert.equal(shown(page).from, "now-3h");
    await isAccessible(page, "the query bar");
    page.refused = undefined; // a changed query stops the answers of the one before
  },

  async keyboard(page) {
    await explore(page);
    for (const [key, view] of [
      ["1", "table"],
      ["3", "flame"],
      ["4", "tree"],
      ["5", "sandwich"],
      ["2", undefined],
    ]) {
      await page.keyboard.press(key);
      assert.equal(shown(page).view, view, key);
    }
    await page.keyboard.press("i");
    assert.equal(shown(page).inv, "1");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
    await isAccessible(page, "the list of keys");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor({ state: "hidden" });
    const before = await page.evaluate(() => document.documentElement.dataset.theme);
    await page.keyboard.press("d");
    assert.notEqual(await page.evaluate(() => document.documentElement.dataset.theme), before);
    await page.reload(); // the browser keeps it
    await settled(page);
    assert.notEqual(await page.evaluate(() => document.documentElement.dataset.theme), before);
    await page.keyboard.press("g");
    await page.keyboard.press("a");
    await page.getByRole("heading", { name: "Ad hoc profiles" }).waitFor();
    assert.equal(shown(page).query, SHOP); // what is asked stays for the way back
    await page.keyboard.press("g");
    await page.keyboard.press("e");
    await settled(page);

    /* Everything is reached by Tab, and can be seen to have the focus. */
    const seen = new Set();
    await page.locator("body").click({ position: { x: 2, y: 2 } });
    for (let step = 0; step < 60; step++) {
      await page.keyboard.press("Tab");
      seen.add(
        await page.evaluate(() => {
          const on = document.activeElement;
          const ring = getComputedStyle(on).outlineStyle !== "none" || getComputedStyle(on, "::after").borderTopStyle !== "none";
          return `${on.getAttribute("aria-label") ?? on.textContent.trim()} ${on === document.body || ring ? "" : "without a ring"}`.trim();
        }),
      );
    }
    const blind = [...seen].filter((text) => text.endsWith("without a ring"));
    assert.deepEqual(blind, []);
    for (const wanted of ["Skip to the content", "Explore", "Table", "Search functions (regex)", "Share", "Width of the table"])
      assert.ok(
        [...seen].some((text) => text.startsWith(wanted)),
        `Tab does not reach "${wanted}": ${[...seen].join(", ")}`,
      );
    assert.ok(
      [...seen].some((text) => text.startsWith("Flame graph")),
      "Tab does not reach the flame graph",
    );
    page.refused = undefined;
  },

  /* Call tree and sandwich say the same as the server. */
  async "call tree"(page) {
    await explore(page, { view: "tree" });
    const tree = page.getByRole("treegrid");
    await tree.locator("tr[data-row]").first().focus();
    await picture(page, "tree");
    await isAccessible(page, "the call tree");
    await page.keyboard.press("ArrowDown"); // main
    await page.keyboard.press("ArrowLeft");
    assert.equal(await tree.locator("tr[data-row]").count(), 2);
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowDown");
    await page.waitForFunction(() => document.activeElement.textContent.includes("work"));
    await explore(page, { view: "sandwich", fn: "work" });
    await picture(page, "sandwich");
    await isAccessible(page, "the sandwich");
    const want = await ask(page, "/api/sandwich", { query: SHOP, function: "work" });
    assert.ok((await card(page).textContent()).includes(`${share(want.with_callees, want.total)} of all`));
    await card(page).getByRole("button", { name: "sort", exact: true }).click();
    await page.waitForFunction(() => new URL(location.href).searchParams.get("fn") === "sort");
  },

  /* What of the call tree is opened and closed by hand is in the address, and shown from it alone, also with nodes that are not there. */
  async "opened nodes"(page) {
    const tree = page.getByRole("treegrid");
    const row = (name) => tree.locator("tr[data-row]").filter({ has: page.locator(`.name[title="${name}"]`) });
    const names = () => tree.locator("tr[data-row] .name").evaluateAll((cells) => cells.map((cell) => cell.title));
    const range = { from: String(Date.now() - 3600e3), until: String(Date.now()) };
    await explore(page, { view: "tree", ...range });
    const all = await names();
    assert.deepEqual([...all].sort(), ["hash", "idle", "main", "sort", "total", "work"]);
    assert.equal(shown(page).tree, undefined);
    await row("work").click();
    await row("main").click();
    assert.deepEqual(await names(), ["total", "main"]);
    await page.waitForURL(/tree=-/);

    /* From the address alone. Below a node that opens again, what was closed is closed. */
    await page.goto(page.url());
    await settled(page);
    assert.deepEqual(await names(), ["total", "main"]);
    assert.equal(await row("main").getAttribute("aria-expanded"), "false");
    await isAccessible(page, "a call tree with closed nodes");
    await row("main").focus();
    await page.keyboard.press("ArrowRight");
    assert.deepEqual([...(await names())].sort(), ["idle", "main", "total", "work"]);
    const closed = shown(page).tree;

    /* Another view is a step, and back from it the tree is as it was. */
    await card(page).getByRole("button", { name: "Table", exact: true }).click();
    await page.waitForURL(/view=table/);
    assert.equal(shown(page).tree, closed);
    assert.equal((await table(page)).length, 5);
    await page.goBack();
    await tree.waitFor();
    assert.equal(await row("work").getAttribute("aria-expanded"), "false");
    await page.goForward();
    await page.waitForURL(/view=table/);
    await page.goBack();
    await tree.waitFor();

    /* A search opens the way to what it finds, and opened again the tree is that of an address without nodes. */
    await page.getByRole("searchbox", { name: "Search functions (regex)" }).fill("sort");
    await row("sort").waitFor();
    assert.equal(shown(page).tree, undefined);
    await row("main").click();
    await page.goto(at("/", { query: SHOP, view: "tree", ...range, tree: "zzzzzzz0000000-<b>" }));
    await settled(page);
    assert.deepEqual(await names(), all);
  },

  /* Files of what is shown: read again, they have the same sum. */
  async exports(page) {
    const range = { from: String(Date.now() - 3600e3), until: String(Date.now()) };
    const want = await ask(page, "/api/functions", { query: SHOP, ...range });
    await explore(page, range);
    for (const [item, ending] of [
      [/^pprof \.pb/, "pb.gz"],
      [/^pprof for go build -pgo/, "pgo"],
    ]) {
      const pprof = await saved(page, item);
      assert.match(pprof.name, /^shop_cpu_.*$/);
      assert.ok(pprof.name.endsWith(`.${ending}`), pprof.name);
      const made = await (await page.request.post(`${url}/api/adhoc?name=again.pb.gz`, { data: pprof.bytes })).json();
      const again = await ask(page, `/api/adhoc/${made.id}`, { type: made.type });
      assert.equal(again.flamebearer.numTicks, want.total, pprof.name);
    }
    const folded = await saved(page, /^Folded stacks/);
    const lines = folded.bytes
      .toString()
      .trim()
      .split("\n")
      .map((line) => Number(line.slice(line.lastIndexOf(" "))));
    assert.equal(
      lines.reduce((sum, value) => sum + value, 0),
      want.total,
    );
    for (const item of [/^Flame graph as JSON/, /^For speedscope.app/, /^For profiler.firefox.com/])
      JSON.parse((await saved(page, item)).bytes);
    assert.ok((await saved(page, /^Call graph/)).bytes.toString().startsWith("digraph"));
    const png = await saved(page, /^Picture/);
    assert.equal(png.bytes.subarray(1, 4).toString(), "PNG");
    assert.equal(png.bytes.readUInt32BE(16), 3200); // two pixels for each
    const svg = (await saved(page, /^Vector picture/)).bytes.toString();
    assert.ok(svg.startsWith("<svg") && svg.includes(">hash"));
    const html = await saved(page, /^Page of one file/);
    const place = path.join(process.cwd(), "saved.html");
    fs.writeFileSync(place, html.bytes);
    const alone = await page.context().newPage();
    const complaints = [];
    alone.on("console", (said) => {
      if (said.type() === "error") complaints.push(said.text());
    });
    alone.on("pageerror", (fault) => complaints.push(fault.message));
    await alone.goto(`file://${place}`);
    await alone.getByRole("application").waitFor();
    assert.ok((await alone.getByRole("table").textContent()).includes("hash"));
    assert.deepEqual(complaints, []);
    await alone.close();

    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
    const command = async (item) => {
      await page.evaluate(() => navigator.clipboard.writeText(""));
      await page.getByRole("button", { name: "Export" }).click();
      await page.getByRole("menuitem", { name: `Copy as command line: ${item}` }).click();
      await page.waitForFunction(async () => (await navigator.clipboard.readText()) !== "");
      await page.getByText("Command copied").waitFor();
      return clipboard();
    };
    const asked = `flamegrid query '${SHOP}' --from ${range.from} --until ${range.until} --url ${url}`;
    assert.equal(await command("stacks"), `${asked} --output folded`);
    for (const [item, output, then] of [
      ["go tool pprof", "pprof", "go tool pprof -http : F"],
      ["go build -pgo", "goPgo", "go build -pgo=F"],
    ]) {
      const line = await command(item);
      const file = line.match(/ -o (\S+) /)?.[1] ?? "";
      assert.match(file, /^shop_cpu_/);
      assert.equal(line, `${asked} --output ${output} -o ${file} && ${then.replace("F", file)}`);
    }
    await explore(page); // of the last hour, until now
    await page.getByRole("button", { name: "Share" }).click();
    await page.getByRole("menuitem", { name: /these data/ }).click();
    await page.getByText("Link copied").waitFor();
    const link = Object.fromEntries(new URL(await clipboard()).searchParams);
    assert.ok(Number(link.until) - Number(link.from) === 3600e3, JSON.stringify(link));
  },

  /* Files: drop, list, look, compare, delete; what is no profile gets a reason. */
  async "ad hoc"(page) {
    const drop = (...files) =>
      page
        .locator("input[type=file]")
        .setInputFiles(files.map(([file, text]) => ({ name: file, mimeType: "text/plain", buffer: Buffer.from(text) })));
    await page.goto(`${url}/adhoc`);
    await page.getByRole("heading", { name: "Ad hoc profiles" }).waitFor();
    await drop(["one.folded", "main;work 30\nmain;idle 10\n"]);
    await card(page).getByRole("button", { name: "work", exact: true }).waitFor();
    await picture(page, "adhoc-view");
    assert.deepEqual(await table(page), [
      ["work", "75.00%", "75.00%"],
      ["idle", "25.00%", "25.00%"],
      ["main", "0%", "100%"],
    ]);
    const link = page.url();
    await page.goto(link);
    await card(page).getByRole("button", { name: "work", exact: true }).waitFor();
    await page.getByRole("button", { name: "Sandwich" }).click();
    await card(page).getByRole("button", { name: "work", exact: true }).click();
    await flame(page, "Callers").waitFor();
    await page.getByRole("button", { name: "All files" }).click();
    await drop(["one.folded", "main;work 30\nmain;idle 10\n"], ["two.folded", "main;work 10\nmain;idle 10\n"]);
    await flame(page, "Comparison").waitFor();
    await picture(page, "adhoc-compare");
    await isAccessible(page, "two files");
    await page.getByRole("button", { name: "Swap sides" }).click();
    await page.getByRole("heading", { name: "two.folded → one.folded" }).waitFor();
    await page.getByRole("button", { name: "All files" }).click();
    await picture(page, "adhoc");
    await isAccessible(page, "ad hoc");
    page.refused = 1; // the server's answer to the next one is an error, and the browser says so
    await drop(["broken.pb.gz", "\x1f\x8bnot a profile"]);
    await page.getByRole("alert").getByText("The query is wrong").waitFor();
    page.on("dialog", (dialog) => void dialog.accept());
    const files = await page.getByRole("button", { name: /^Delete / }).count();
    await page.getByRole("button", { name: "Delete two.folded" }).first().click();
    await page.getByText("Deleted").waitFor();
    await page.waitForFunction((before) => document.querySelectorAll("[aria-label^='Delete ']").length === before - 1, files);
  },

  /* What was shown before is asked for again, in vain: each answer says how long to wait, and nothing is asked for sooner. */
  async "tries again"(page) {
    await page.clock.install();
    await explore(page);
    const asked = [];
    await page.route("**/pyroscope/render*", (route) => {
      asked.push(Date.now());
      const body = JSON.stringify({ code: "resource_exhausted", message: "busy" });
      return route.fulfill({ status: 429, body, contentType: "application/json", headers: { "Retry-After": "4" } });
    });
    page.refused = undefined;
    await page.getByRole("link", { name: "Status" }).click();
    await page.waitForFunction(() => document.title.startsWith("Status"));
    await page.clock.fastForward(60_000); // what there was has become old
    await page.goBack();
    for (const end = Date.now() + 60_000; asked.length < 4 && Date.now() < end; ) await page.waitForTimeout(100);
    assert.ok(asked.length >= 4, "it does not try again");
    const gaps = asked.slice(1).map((time, i) => time - asked[i]);
    assert.ok(Math.min(...gaps) > 2000, `milliseconds between requests: ${gaps.slice(0, 10).join(", ")}`);
  },

  /* Each class of trouble says what to do, and none takes the page away. */
  async trouble(page) {
    const answers =
      (status, body, headers = {}) =>
      (route) =>
        route.fulfill({ status, body: JSON.stringify(body), contentType: "application/json", headers });
    const refuse = async (status, code, message, text, headers) => {
      await page.route("**/pyroscope/render*", answers(status, { code, message }, headers));
      await page.goto(at("/", { query: SHOP }));
      await page.getByRole("alert").getByText(text, { exact: false }).first().waitFor();
      await page.unroute("**/pyroscope/render*");
    };
    await refuse(400, "invalid_argument", "parse error: pod", "The query is wrong");
    await isAccessible(page, "an error");
    await refuse(403, "permission_denied", "no", "Access denied");
    await refuse(429, "resource_exhausted", "limits.max_query_bytes", "limits.max_query_bytes", { "Retry-After": "30" });
    await page.getByRole("timer").waitFor(); // it will try again by itself
    await refuse(500, "data_loss", "block x", "The server has a fault");
    await refuse(501, "unimplemented", "not here", "does not offer it");
    await page.route("**/pyroscope/render*", answers(503, { code: "unavailable", message: "i1 is down" }));
    await page.goto(at("/", { query: SHOP }));
    await page.getByRole("alert").getByText("Not available").waitFor();
    await page.getByText("Details").click();
    await page.getByText("i1 is down").waitFor();
    await page.unroute("**/pyroscope/render*");
    await page.getByRole("button", { name: "Try again" }).click();
    await settled(page);

    await page.route("**/pyroscope/render*", (route) => route.abort());
    await page.goto(at("/", { query: SHOP }));
    await page.getByRole("alert").getByText("cannot be reached").waitFor();
    await page.unroute("**/pyroscope/render*");

    /* Who are you? Then on with the same page; the token is in no address. */
    let token = "";
    await page.route("**/pyroscope/render*", (route) => {
      const given = route.request().headers();
      token = given.authorization ?? "";
      return token === "Bearer s3cret" && given["x-scope-orgid"] === "team-a"
        ? route.continue()
        : answers(401, { code: "unauthenticated", message: "no org id" })(route);
    });
    await page.goto(at("/", { query: SHOP }));
    await page.getByRole("textbox", { name: "Tenant" }).fill("team-a");
    await page.getByLabel("Token").fill("s3cret");
    await page.getByRole("button", { name: "Go on" }).click();
    await settled(page);
    assert.equal(shown(page).tenant, "team-a");
    assert.ok(!page.url().includes("s3cret") && !(await page.content()).includes("s3cret"));
    await page.unroute("**/pyroscope/render*");

    /* Partial, said plainly. */
    await page.route("**/pyroscope/render*", async (route) => {
      const answer = await route.fetch();
      const body = (await answer.text()).replace('"complete":true', '"complete":false,"missing":"i2: no answer"');
      await route.fulfill({ response: answer, body });
    });
    await page.goto(at("/", { query: SHOP }));
    await page.getByText("Partial answer.").waitFor();
    await page.getByText("i2: no answer").waitFor();
    await page.unroute("**/pyroscope/render*");

    /* A selector that cannot be read says where. */
    await page.goto(at("/", { query: `${CPU}{pod=` }));
    await page.getByRole("alert").getByText("a value in quotes").first().waitFor();
    /* Behind a proxy of HTTP/1.0 the answers are plain ones. */
    await page.route("**/pyroscope/render*", async (route) =>
      route.fulfill({ response: await route.fetch({ headers: { ...route.request().headers(), accept: "*/*" } }) }),
    );
    await explore(page);
    await page.unroute("**/pyroscope/render*");
    page.refused = undefined; // that was the point
  },

  /* A server that says who one is: the tenants one may switch to, what one may, and the way out. */
  async access(page) {
    const who = {
      mode: "token",
      subject: "u-17",
      name: "Ada",
      tenants: ["shop", "lab"],
      scopes: ["read"],
      csrf: "c-1",
    };
    const answers = (status, body) => (route) => route.fulfill({ status, json: body });
    const refusal = { code: "unauthenticated", message: "log in first", login: "/auth/login" };
    let session = false;
    let left = null; // the request that logs out
    const asked = []; // tenants of data routes
    await page.route("**/api/whoami", (route) => answers(session ? 200 : 401, session ? who : refusal)(route));
    await page.route("**/auth/**", (route) => {
      session = route.request().url().includes("/auth/login");
      if (session) return route.fulfill({ status: 303, headers: { Location: new URL(route.request().url()).searchParams.get("return") } });
      left = { method: route.request().method(), csrf: route.request().headers()["x-flamegrid-csrf"] };
      return route.fulfill({ json: {} });
    });
    await page.route(/\/(pyroscope|querier\.v1\.QuerierService|api\/(functions|labels))/, (route) => {
      const { "x-scope-orgid": tenant, authorization } = route.request().headers();
      if (!session && authorization !== "Bearer fgt_1") return answers(401, refusal)(route);
      asked.push(tenant);
      if (tenant === "other") return answers(403, { code: "permission_denied", message: "Ada has no scope read in tenant other" })(route);
      return route.continue();
    });

    /* Not logged in: one panel in the place of the page, and back to where one was. */
    await page.goto(at("/", { query: SHOP, view: "table" }));
    await page.getByRole("form", { name: "Log in" }).waitFor();
    assert.equal(await page.getByRole("form").count(), 1);
    assert.equal(await summary(page).count(), 0);
    await picture(page, "log in");
    await isAccessible(page, "not logged in");
    await page.getByRole("form", { name: "Log in" }).getByRole("link", { name: "Log in" }).click();
    await settled(page);
    assert.equal(shown(page).view, "table");

    /* With several tenants one of them is taken; another one is another page. */
    assert.equal(shown(page).tenant, "shop");
    await page.getByRole("button", { name: "Logged in as Ada" }).click();
    await page.getByText("may: read").waitFor();
    await picture(page, "who one is");
    await page.keyboard.press("Escape");
    asked.length = 0;
    await page.getByRole("button", { name: "Tenant: shop" }).click();
    await page.getByRole("menuitemcheckbox", { name: /^lab/ }).click();
    await settled(page);
    assert.equal(shown(page).tenant, "lab");
    assert.ok(asked.length > 0 && asked.every((tenant) => tenant === "lab"), `${asked}`);
    await page.goBack();
    await page.getByRole("button", { name: "Tenant: shop" }).waitFor();

    /* Refused: by the server's words, with what one has instead. */
    await page.goto(at("/", { query: SHOP, tenant: "other" }));
    await page.getByRole("alert").getByText("Ada has no scope read in tenant other").first().waitFor();
    await page.getByRole("alert").getByText("You are Ada, as tenant other, and may read.").first().waitFor();
    await page.getByRole("button", { name: "Go to tenant lab" }).first().click();
    await settled(page);

    /* A session that ends shows the panel; so does its end by hand. */
    await page.getByRole("button", { name: "Logged in as Ada" }).click();
    await page.getByRole("menuitem", { name: "Log out" }).click();
    await page.getByRole("form", { name: "Log in" }).waitFor();
    assert.deepEqual(left, { method: "POST", csrf: "c-1" });
    assert.equal(await page.getByRole("button", { name: "Logged in as" }).count(), 0);

    /* A token is sent as Bearer, and is nowhere else. */
    await page.unroute("**/api/whoami");
    await page.route("**/api/whoami", (route) =>
      route.request().headers().authorization === "Bearer fgt_1"
        ? answers(200, { ...who, name: "", subject: "fgt_1 of CI", tenants: ["lab"], csrf: "" })(route)
        : answers(401, { ...refusal, login: "" })(route),
    );
    await page.goto(at("/", { query: SHOP }));
    await page.getByLabel("Token").fill("fgt_1");
    await page.getByRole("button", { name: "Go on" }).click();
    await settled(page);
    assert.equal(await page.evaluate(() => sessionStorage.getItem("flamegrid.token")), "fgt_1");
    assert.equal(await page.evaluate(() => localStorage.getItem("flamegrid.token")), null);
    await page.getByRole("button", { name: /^Logged in as/ }).click();
    await page.getByRole("menuitem", { name: "Forget the token" }).click();
    await page.getByRole("form", { name: "Log in" }).waitFor();
    page.refused = undefined; // that was the point
  },

  /* How far a query is, by the server's events; Cancel closes its connection. */
  async "progress bar"(page) {
    const event = (done) =>
      `event: progress\ndata: ${JSON.stringify({ stage: "blocks", done, total: 204, bytes: 2 ** 20, profiles: 3000 })}\n\n`;
    let closed = 0;
    let slow = true;
    await behind(
      "/",
      async (base) => {
        page.also = new URL(base).origin;
        await page.goto(`${base}?${new URLSearchParams({ query: SHOP })}`);
        const bar = page.getByRole("progressbar", { name: "Loading" });
        await page.getByRole("status").getByText(/^Reading · 31 of 204 blocks · /).waitFor();
        assert.deepEqual([await bar.getAttribute("aria-valuenow"), await bar.getAttribute("aria-valuemax")], ["31", "204"]);
        await picture(page, "progress bar");
        await isAccessible(page, "a slow query");
        assert.equal(closed, 0);
        await page.getByRole("button", { name: "Cancel" }).click();
        await page.getByText(/^Cancelled/).waitFor();
        for (let round = 0; closed === 0; round++) {
          assert.ok(round < 100, "the connection stays open");
          await page.waitForTimeout(100);
        }
        slow = false;
        await page.getByRole("button", { name: "Ask again" }).click();
        await settled(page);
      },
      (request, answer) => {
        if (!slow || !request.url.startsWith("/pyroscope/render")) return false;
        answer.writeHead(200, { "Content-Type": "text/event-stream" });
        answer.write(event(1));
        answer.write(event(31));
        answer.on("close", () => closed++);
        return true;
      },
    );
    page.refused = undefined; // the request that was ended
  },

  /* A query that waits says for what, and ends with its button, in the server as well: its ingesters are stopped meanwhile. */
  async "progress of a cluster"(page) {
    const { ingesters, metrics } = JSON.parse(process.env.CLUSTER);
    const signal = (name) => ingesters.forEach((pid) => process.kill(pid, name));
    const running = async () => Number(/^flamegrid_query_proxy_running (\d+)/m.exec(await (await fetch(metrics)).text())[1]);
    const codings = [];
    page.on("response", (answer) => {
      if (answer.url().includes("/pyroscope/render")) codings.push(answer.headers()["content-encoding"]);
    });
    await explore(page); // the page itself does not wait for ingesters
    signal("SIGSTOP");
    try {
      await page.goto(at("/", { query: SHOP, from: "now-2h" }));
      await page.getByRole("status").getByText(/^(Reading|Waiting for) /).waitFor();
      assert.ok((await running()) > 0, "no query runs");
      await picture(page, "progress");
      await page.getByRole("button", { name: "Cancel" }).click();
      await page.getByText(/^Cancelled/).waitFor();
      for (let round = 0; (await running()) > 0; round++) {
        assert.ok(round < 200, "the server goes on");
        await page.waitForTimeout(100);
      }
      assert.ok(["gzip", "zstd"].includes(codings.at(-1)), `events are sent as ${codings}`);
      await isAccessible(page, "a query that was cancelled");
    } finally {
      signal("SIGCONT");
    }
    await page.getByRole("button", { name: "Ask again" }).click();
    await settled(page);
    assert.equal((await table(page))[0][0], "hash");
    page.refused = undefined; // requests that were ended
  },

  /* Admins see the settings of the ingesters, too; one that does not answer is named, and does not keep the others away. */
  async "settings of a cluster"(page) {
    const { ingesters } = JSON.parse(process.env.CLUSTER);
    const settings = page.getByRole("region", { name: "Settings", exact: true });
    process.kill(ingesters[1], "SIGSTOP");
    try {
      await page.goto(at("/status", { show: "all" }));
      await settings.getByText("Without answer:").waitFor();
      const silent = await settings.getByRole("status").textContent();
      assert.ok(silent.includes("ingester-2") && !silent.includes("ingester-1") && !silent.includes("ingester-3"), silent);
      await isAccessible(page, "a member that does not answer");
    } finally {
      process.kill(ingesters[1], "SIGCONT");
    }
    await settings.getByRole("button", { name: "Settings of: This program" }).click();
    await page.getByRole("menuitemcheckbox", { name: /^ingester-1/ }).click();
    await settings.getByText("of flamegrid-ingester").waitFor();
    await page.getByRole("row", { name: /^ring\.name ingester-1/ }).waitFor();
    assert.equal(shown(page).member, "ingester-1");
    await page.reload();
    await page.getByRole("row", { name: /^ring\.name ingester-1/ }).waitFor();
    /* Those that nobody can call say in the bucket that they are there. */
    const members = page.getByRole("region", { name: "Members" });
    for (const role of ["distributor", "querier", "compactor"]) {
      await members.getByRole("row", { name: new RegExp(` ${role} .* seen `) }).getByRole("button").click();
      await settings.getByText(`of flamegrid-${role}`).waitFor();
      assert.ok(shown(page).member.startsWith(`${role}/`), shown(page).member);
    }
    await page.getByRole("row", { name: /^compactor\.interval / }).waitFor();
    assert.equal(await members.getByText("versions run").count(), 0);
    await isAccessible(page, "members of a cluster");
    await picture(page, "settings-of-a-cluster");
    const unknown = await page.request.get(at("/api/settings", { member: "nobody" }));
    assert.equal(unknown.status(), 404, await unknown.text());
    page.refused = undefined; // what the silent one did not answer
  },

  /* Names from outside are text, wherever they are shown. */
  async "names from outside"(page) {
    await page.addInitScript(() => {
      window.hurt = 0;
    });
    const evil = '<img src=x onerror="hurt=1">';
    await page.goto(`${url}/`);
    await page.getByRole("link", { name: evil, exact: true }).click();
    await settled(page);
    for (const view of ["table", "both", "tree", "sandwich"]) {
      await explore(page, { query: shown(page).query, view, fn: evil, by: "pod", q: "img" });
      await page.getByText(evil).first().waitFor();
    }
    const box = await flame(page, "Callers").boundingBox();
    await page.mouse.move(box.x + 50, box.y + box.height - 10);
    await page.locator(".fg-tip:not(.fg-chart-legend):visible").first().waitFor();
    assert.equal(await page.locator("main img, .fg-tip img").count(), 0);
    assert.equal(await page.evaluate(() => window.hurt), 0);
    page.refused = undefined;
  },

  /* The policy is on, and what it allows is enough. */
  async policy(page) {
    const answer = await page.goto(`${url}/`);
    const policy = answer.headers()["content-security-policy"];
    for (const part of ["default-src 'self'", "object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"])
      assert.ok(policy.includes(part), policy);
    assert.ok(!policy.includes("unsafe"), policy);
    const script = await page.locator("script[type=module]").getAttribute("src");
    const asset = await page.request.get(new URL(script, answer.url()).href, { headers: { "Accept-Encoding": "gzip" } });
    assert.equal(asset.headers()["cache-control"], "public, max-age=31536000, immutable");
    assert.equal((await page.request.get(`${url}/assets/none.js`)).status(), 404);
    assert.equal((await page.request.get(`${url}/nothing-here`)).status(), 404);
    for (const old of ["/comparison", "/comparison-diff", "/explore"]) assert.equal((await page.request.get(url + old)).status(), 200, old);
  },

  /* Below a prefix that a proxy removes. */
  async prefix(page) {
    await behind("/x/y/", async (outside) => {
      page.also = new URL(outside).origin;
      await page.goto(outside);
      await page.getByRole("link", { name: "shop", exact: true }).click();
      await settled(page);
      assert.ok(page.url().startsWith(`${outside}?`), page.url());
      await page.getByRole("link", { name: "Ad hoc" }).click();
      await page.getByRole("heading", { name: "Ad hoc profiles" }).waitFor();
      assert.ok(page.url().startsWith(`${outside}adhoc`), page.url());
      await page.reload();
      await page.getByRole("heading", { name: "Ad hoc profiles" }).waitFor();
      await page.goBack();
      await settled(page);
    });
  },

  /* One picture in the page of somebody else, if the server allows it. */
  async embed(page) {
    const frame = at("/embed", { query: SHOP, q: "work" });
    await page.goto(frame);
    await flame(page, "shop").waitFor();
    await isAccessible(page, "embed");
    const wiki = http.createServer((_, answer) =>
      answer
        .writeHead(200, { "Content-Type": "text/html" })
        .end(
          `<!doctype html><title>wiki</title><iframe src="${frame.replaceAll("&", "&amp;")}" title="f" width="800" height="400"></iframe>`,
        ),
    );
    await new Promise((done) => wiki.listen(0, "127.0.0.1", done));
    page.also = `http://127.0.0.1:${wiki.address().port}`;
    try {
      await page.goto(page.also);
      await page.frameLocator("iframe").getByRole("application").waitFor();
      await picture(page, "embed");
    } finally {
      wiki.closeAllConnections();
      wiki.close();
    }
  },

  async status(page) {
    await page.goto(`${url}/status`);
    const status = await ask(page, "/api/status", {});
    await page.getByRole("heading", { name: "Tenant anonymous" }).waitFor();
    assert.ok((await page.locator(".facts").textContent()).includes(status.version));
    await page.getByText(/^Today \(UTC\): \d+ series of \d+ services$/).click();
    await page.getByRole("link", { name: "shop", exact: true }).waitFor();
    await page.getByText("Limits", { exact: true }).click();
    const limit = page.getByRole("row", { name: /^limits\.adhoc_profiles_max/ });
    assert.ok((await limit.textContent()).includes(status.limits.adhoc_profiles_max.meaning.replaceAll("`", "")));
    const files = (await ask(page, "/api/adhoc", {})).profiles.length;
    await page.waitForFunction(
      (count) =>
        [...document.querySelectorAll("tr")].some(
          (row) => row.textContent.startsWith("limits.adhoc_profiles_max") && row.cells[2].textContent === count,
        ),
      `${files}`,
    );
    await picture(page, "status");
    await isAccessible(page, "status");
    for (const [limit, value] of Object.entries(status.tenants[0].limits))
      assert.ok((await page.locator(".limits").last().textContent()).includes(`limits.${limit}${value === "" ? "–" : value}`), limit);
  },

  /* What is pending for each target, with the error of the last request; a button pauses and resumes one of them. */
  async forwarding(page) {
    await page.goto(`${url}/status`);
    const card = page.getByRole("region", { name: "Forwarding", exact: true });
    const cells = async (name) => card.getByRole("row", { name: new RegExp(`^${name}`) }).locator("td").allTextContents();
    await card.getByRole("row", { name: /^eu\/west .* trying again 1 / }).waitFor();
    await card.getByRole("button", { name: "Pause eu/west" }).click();
    await card.getByRole("row", { name: /^eu\/west .* paused 1 / }).waitFor();
    assert.notEqual((await cells("central"))[1], "paused");
    assert.equal((await ask(page, "/api/forward", {})).targets[1].state, "paused");
    await picture(page, "forwarding");
    await isAccessible(page, "forwarding");
    await page.reload();
    await card.getByRole("button", { name: "Resume eu/west" }).click();
    await card.getByRole("button", { name: "Pause eu/west" }).waitFor();
    assert.equal((await cells("central"))[6], "0");
    /* Dropping is asked once more: an address alone changes nothing. */
    await card.getByRole("button", { name: "Drop what is pending for eu/west" }).click();
    const drop = page.getByRole("dialog", { name: "Drop what is pending for eu/west?" });
    await drop.getByText(/^1 profile of /).waitFor();
    await isAccessible(page, "dropping what is pending");
    await page.goto(page.url());
    await drop.getByRole("button", { name: "Cancel" }).click();
    assert.equal((await ask(page, "/api/forward", {})).targets[1].pendingProfiles, 1);
    await card.getByRole("button", { name: "Drop what is pending for eu/west" }).click();
    await drop.getByRole("button", { name: "Drop", exact: true }).click();
    await page.getByText("1 profile will not be sent to eu/west").waitFor();
    await card.getByRole("row", { name: /^eu\/west .* 0 0 B / }).waitFor();
    /* What a target refuses for good is listed with its reason. */
    await card.getByRole("button", { name: "1 refused by strict" }).click();
    const dead = page.getByRole("dialog", { name: "Refused by strict" });
    const row = dead.getByRole("row", { name: /status 400: .*no profiles of that kind, please/ });
    await row.getByText('service_name="shop"').waitFor();
    await isAccessible(page, "refused profiles");
    await picture(page, "forwarding-refused");
    await page.reload();
    await row.waitFor();
    await page.keyboard.press("Escape");
    await page.waitForURL((to) => !to.searchParams.has("form"));
  },

  async targets(page) {
    await page.goto(`${url}/targets`);
    await page.getByRole("heading", { name: /targets?$/ }).waitFor();
    await page
      .getByRole("cell", { name: /127\.0\.0\.1:9/ })
      .first()
      .waitFor();
    await page.getByText("down", { exact: true }).first().waitFor();
    await page.getByRole("columnheader", { name: "Took" }).waitFor();
    await picture(page, "targets");
    await isAccessible(page, "targets");
  },

  /* Light, and as small as a phone. */
  async looks(page) {
    await page.emulateMedia({ colorScheme: "light" });
    await page.addInitScript(() => localStorage.clear());
    for (const [route, parameters] of [
      ["/", {}],
      ["/", { query: SHOP }],
      ["/", { query: SHOP, view: "sandwich", fn: "work" }],
      ["/adhoc", {}],
      ["/status", {}],
      ["/targets", {}],
      ["/usage", {}],
      ["/tokens", {}],
    ]) {
      await page.setViewportSize({ width: 1440, height: 900 });
      await page.goto(at(route, parameters));
      await page.locator("main h1, main h2, main dl").first().waitFor();
      if (parameters.query !== undefined) await settled(page);
      if (parameters.query !== undefined && parameters.view === undefined) {
        await page.setViewportSize({ width: 320, height: 800 });
        const names = await card(page)
          .locator("td.name button:not(.row-menu)")
          .evaluateAll((all) => all.map((one) => one.clientWidth));
        assert.ok(names.length > 0 && Math.min(...names) > 20, `names of functions are ${names} px wide on a phone`);
        await page.setViewportSize({ width: 1440, height: 900 });
      }
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
      await isAccessible(page, `${route} in the light theme`);
      for (const width of [1024, 390, 320]) {
        await page.setViewportSize({ width, height: 800 });
        await isNarrow(page, `${route} ${JSON.stringify(parameters)}`);
      }
      await picture(
        page,
        `phone${route === "/" ? (parameters.view ?? (parameters.query ? "-single" : "-services")) : `-${route.slice(1)}`}`,
      );
    }
    page.refused = undefined;
  },
};

/* ---- what needs no server ---- */

/* What a first visit loads, compressed as the server does it. */
const KB = 1024;
const most = { js: 215 * KB, css: 12 * KB, font: 49 * KB, all: 275 * KB, lazy: 25 * KB };

function budgets(dist) {
  const packed = (file) => zlib.gzipSync(fs.readFileSync(path.join(dist, file)), { level: 9 }).length;
  const html = fs.readFileSync(path.join(dist, "index.html"), "utf8");
  const first = [...html.matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)].map((found) => found[1]);
  const sum = (files) => files.reduce((total, file) => total + packed(file), 0);
  const js = sum(first.filter((file) => file.endsWith(".js")));
  const css = sum(first.filter((file) => file.endsWith(".css")));
  const fonts = fs.readdirSync(path.join(dist, "assets")).filter((file) => file.endsWith(".woff2"));
  const font = fonts.reduce((total, file) => total + fs.statSync(path.join(dist, "assets", file)).size, 0);
  assert.ok(js > 0 && css > 0 && font > 0, html);
  const all = sum(first) + font + packed("index.html");
  const lazy = fs.readdirSync(path.join(dist, "assets")).filter((file) => file.endsWith(".js") && !first.includes(`assets/${file}`));
  console.log(
    `js ${js}, css ${css}, font ${font}, all ${all} bytes; lazy: ${lazy.map((file) => `${file} ${packed(`assets/${file}`)}`).join(", ")}`,
  );
  for (const [what, size] of Object.entries({ js, css, font, all }))
    assert.ok(size <= most[what], `${what}: ${size} of at most ${most[what]} bytes`);
  for (const file of lazy)
    assert.ok(packed(`assets/${file}`) <= most.lazy, `${file}: ${packed(`assets/${file}`)} of at most ${most.lazy} bytes`);
}

await run(cases, { budgets });
