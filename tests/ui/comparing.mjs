// Cases of the pages Compare, Diff, Labels and Spans: node comparing.mjs URL PICTURES CASE..., as pages.mjs (browser.mjs has what both share).
import assert from "node:assert/strict";
import fs from "node:fs";

import { ask, at, flame, isAccessible, isNarrow, picture, run, saved, share, shown, url } from "./browser.mjs";

const CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";
const SAMPLES = "process_cpu:samples:count:cpu:nanoseconds";
const QUERY = `${CPU}{service_name="rollout"}`; // what ui_test.py has pushed
const MINUTE_MS = 60_000;
const plain = (text) => text.replaceAll("\u00a0", " ").trim();

/* ---- what is there ---- */

/* The half hours before and after the rollout, to the second as ui_test.py counts them. */
/* Where something is once it does not move any more: what is closed above it lets it rise. */
async function resting(locator) {
  for (let before = await locator.boundingBox(); ; ) {
    await locator.page().waitForTimeout(100);
    const now = await locator.boundingBox();
    if (now.x === before.x && now.y === before.y && now.width === before.width) return now;
    before = now;
  }
}

async function times(page) {
  const { values } = await ask(page, "/api/labels/change", { query: QUERY, from: "now-3h" });
  const change = Number(values[0].value) * 1000;
  return { change, before: { from: change - 30 * MINUTE_MS, until: change - 1 }, after: { from: change, until: change + 30 * MINUTE_MS } };
}

function sides(left, right, more = {}) {
  return {
    query: QUERY,
    from: "now-2h",
    leftQuery: QUERY,
    leftFrom: String(left.from),
    leftUntil: String(left.until),
    rightQuery: QUERY,
    rightFrom: String(right.from),
    rightUntil: String(right.until),
    ...more,
  };
}

const compared = (left, right) => {
  const { leftQuery, leftFrom, leftUntil, rightQuery, rightFrom, rightUntil } = sides(left, right);
  return { leftQuery, leftFrom, leftUntil, rightQuery, rightFrom, rightUntil, show: "all", limit: 10_000 };
};

async function quiet(page) {
  await page.locator("main .stale, main .skeleton, .busy").first().waitFor({ state: "detached" });
  await page.waitForFunction(() => document.querySelectorAll("main .stale, main .skeleton, .busy").length === 0);
}

async function diff(page, parameters) {
  await page.goto(at("/diff", parameters));
  await page.getByText("differences are significant").waitFor();
  await quiet(page);
}

const changes = (page) => page.getByRole("table", { name: "Changes" });
const states = (page) => page.getByRole("group", { name: "States that the table has" });

/* Rows of a table whose cells are text: only those in sight are in the document, and these tables are short. */
const cells = (table) =>
  table
    .locator("tbody tr[data-row]")
    .evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent.replaceAll("\u00a0", " ").trim())));

/* Where a bar is: what the tooltip says along the rows of the picture. Wide bars are found without looking everywhere; small steps
 * alone find the left end. */
async function barOf(page, graph, name, steps = [96, 12]) {
  const box = await graph.boundingBox();
  const tip = graph.locator(".fg-tip-title");
  for (const step of steps)
    for (let y = 10; y < Math.min(box.height, 160); y += 20)
      for (let x = step / 2; x < box.width; x += step) {
        await page.mouse.move(box.x + x, box.y + y);
        if ((await tip.isVisible()) && (await tip.textContent()) === name) return { x: box.x + x, y: box.y + y };
      }
  throw new Error(`no bar of ${name}`);
}

/* The colour of a bar, away from its text: of a picture with one pixel. */
async function colourOf(page, graph, name) {
  const { x, y } = await barOf(page, graph, name);
  await page.mouse.move(2, 2);
  await graph.locator(".fg-tip").waitFor({ state: "hidden" });
  const png = await page.screenshot({ clip: { x: Math.round(x), y: Math.round(y) + 7, width: 1, height: 1 } });
  return page.evaluate(
    async (bytes) => {
      const ctx = new OffscreenCanvas(1, 1).getContext("2d");
      ctx.drawImage(await createImageBitmap(new Blob([new Uint8Array(bytes)], { type: "image/png" })), 0, 0);
      return [...ctx.getImageData(0, 0, 1, 1).data.subarray(0, 3)];
    },
    [...png],
  );
}

const GREY = [0x7e, 0x86, 0x92]; // the middle of the ramp in the dark theme
const isGrey = (colour) => colour.every((value, i) => value === GREY[i]);

/* ---- cases ---- */

const cases = {
  /* The table is the server's; what is significant has a colour, and nothing else. */
  async diff(page) {
    const { before, after } = await times(page);
    const server = await ask(page, "/api/compare", compared(before, after));
    await diff(page, sides(before, after));
    await picture(page, "diff");

    const kind = (row) => (row.folded_into === undefined ? row.state : "folded");
    const wanted = server.changes.filter((row) => ["up", "down", "new", "gone", "moved"].includes(kind(row)));
    assert.ok(
      wanted.some((row) => row.name === "hash" && row.state === "up"),
      JSON.stringify(wanted),
    );
    assert.ok(
      wanted.some((row) => row.name === "audit" && row.state === "new"),
      JSON.stringify(wanted),
    );
    assert.ok(
      wanted.some((row) => row.name === "legacy" && row.state === "gone"),
      JSON.stringify(wanted),
    );
    const points = (row) => {
      const text = Math.abs((row.b.share - row.a.share) * 100).toFixed(2);
      return `${row.b.share > row.a.share ? "▲ +" : "▼ −"}${text} pt`;
    };
    const rows = (await cells(changes(page))).map(([name, ...rest]) => [name.replace(/self$/, "").slice(1), ...rest]);
    assert.deepEqual(rows.sort(), wanted.map((row) => [row.name, share(row.a.share, 1), share(row.b.share, 1), points(row)]).sort());
    for (const [state, text] of [
      ["up", "up"],
      ["down", "down"],
      ["new", "new"],
      ["gone", "gone"],
      ["not_significant", "not significant"],
    ]) {
      const count = server.changes.filter((row) => kind(row) === state).length;
      assert.ok(
        (await states(page)
          .getByRole("button", { name: new RegExp(`${text} ${count}$`) })
          .count()) === 1,
        `${text} is not ${count}`,
      );
    }
    const percent = `${(server.detectable.largest * 100).toFixed(server.detectable.largest >= 0.995 ? 0 : server.detectable.largest >= 0.0995 ? 1 : 2)}%`;
    assert.ok((await page.getByText("could hide here").textContent()).includes(`no change above ${percent} `), percent);
    assert.ok((await page.getByText("compared by").textContent()).includes(`${server.same_instances} values of pod that both sides have`));

    const graph = flame(page, "Flame graph of the difference");
    assert.ok(!isGrey(await colourOf(page, graph, "hash")));
    assert.ok(isGrey(await colourOf(page, graph, "sort")), "noise has a colour");
    await page.getByRole("button", { name: "Colours" }).click();
    await page.getByRole("menuitemcheckbox", { name: "Grey what is not significant" }).click();
    assert.equal(shown(page).noise, "1");
    assert.ok(!isGrey(await colourOf(page, graph, "sort")));
    await page.goBack();
    assert.ok(isGrey(await colourOf(page, graph, "sort")));

    await states(page)
      .getByRole("button", { name: /not significant/ })
      .click();
    assert.ok((await cells(changes(page))).some(([name]) => name.slice(1).replace(/self$/, "") === "sort"));
    await isAccessible(page, "diff");
    await page.reload();
    await quiet(page);
    assert.equal(
      await states(page)
        .getByRole("button", { name: /not significant/ })
        .getAttribute("aria-pressed"),
      "true",
    );
  },

  /* Two halves of one program's time: nothing is coloured, and the page says what could have been seen. */
  async "diff of nothing"(page) {
    const { before } = await times(page);
    const middle = (before.from + before.until + 1) / 2;
    await diff(page, sides({ from: before.from, until: middle - 1 }, { from: middle, until: before.until }));
    assert.ok((await page.getByText("differences are significant").textContent()).startsWith("0 of "));
    assert.equal(await page.getByText("no significant change").count(), 2);
    assert.equal((await cells(changes(page))).length, 0);
    const graph = flame(page, "Flame graph of the difference");
    for (const name of ["hash", "sort", "work"]) assert.ok(isGrey(await colourOf(page, graph, name)), name);
  },

  /* All that changes a comparison is in the address, and back is back. */
  async "diff by hand"(page) {
    const { before, after } = await times(page);
    await diff(page, sides(before, after));
    const [left, right] = [page.getByRole("region", { name: "Baseline" }), page.getByRole("region", { name: "Comparison" })];

    await page.keyboard.press("x");
    await page.waitForURL((to) => to.searchParams.get("leftFrom") === String(after.from));
    assert.equal(shown(page).rightFrom, String(before.from));
    await changes(page)
      .getByRole("button", { name: /^hash, .*down/ })
      .waitFor();
    await page.getByRole("button", { name: "Swap sides" }).click();
    await page.waitForURL((to) => to.searchParams.get("leftFrom") === String(before.from));

    await page.getByRole("button", { name: "1 h ago" }).click();
    assert.equal(shown(page).leftFrom, String(after.from - 60 * MINUTE_MS));
    assert.equal(shown(page).leftUntil, String(after.until - 60 * MINUTE_MS));
    assert.equal(shown(page).rightFrom, String(after.from));
    await page.goBack();
    assert.equal(shown(page).leftFrom, String(before.from));
    /* The version that comes in the middle is a deploy, known to a step of the timeline. */
    await page.getByRole("button", { name: "last deploy" }).click();
    await page.waitForURL((to) => to.searchParams.get("leftUntil") === to.searchParams.get("rightFrom"));
    const apart = Number(shown(page).rightFrom) - after.from;
    assert.ok(Math.abs(apart) <= 2 * MINUTE_MS, `the deploy is ${apart} ms off`);
    await page.goBack();

    /* The edges of a selection by keys: one step of the grid each. */
    const edge = right.getByRole("slider", { name: "Start of the selection" });
    await edge.focus();
    await page.keyboard.press("ArrowRight");
    await page.waitForURL((to) => to.searchParams.get("rightFrom") !== String(after.from));
    const moved = Number(shown(page).rightFrom) - after.from;
    assert.ok(moved > 0 && moved % 1000 === 0 && moved <= 5 * MINUTE_MS, `moved by ${moved} ms`);
    /* And by the pointer. */
    const plot = await left.locator(".u-over").boundingBox();
    await page.mouse.move(plot.x + plot.width * 0.55, plot.y + 30);
    await page.mouse.down();
    await page.mouse.move(plot.x + plot.width * 0.75, plot.y + 30, { steps: 5 });
    const { leftFrom } = shown(page);
    await page.mouse.up();
    await page.waitForURL((to) => to.searchParams.get("leftFrom") !== leftFrom);
    const span = Number(shown(page).leftUntil) - Number(shown(page).leftFrom);
    assert.ok(Math.abs(span - 24 * MINUTE_MS) < 2 * MINUTE_MS, `dragged over ${span} ms`);
    await quiet(page);

    await page.getByRole("button", { name: "Absolute" }).click();
    assert.equal(shown(page).mode, "abs");
    await changes(page)
      .locator("td", { hasText: /cores$/ })
      .first()
      .waitFor();
    await page.getByRole("button", { name: "Colours" }).click();
    await page.getByRole("menuitemcheckbox", { name: "Green–red" }).click();
    assert.equal(shown(page).pal, "rg");
    await page.getByRole("button", { name: "Table", exact: true }).click();
    assert.equal(shown(page).view, "table");
    await page.getByRole("columnheader", { name: "95 % interval" }).waitFor();
    await page.getByRole("searchbox").fill("^hash$");
    await page.waitForURL((to) => to.searchParams.get("q") === "^hash$");
    const address = page.url();
    const table = await cells(changes(page));
    await page.goto("about:blank");
    await page.goto(address);
    await quiet(page);
    assert.deepEqual(await cells(changes(page)), table);

    /* One side alone has its range and its filters. */
    const alone = new URL(await right.getByRole("link", { name: "Open alone" }).getAttribute("href"), address).searchParams;
    assert.deepEqual(
      [alone.get("query"), alone.get("from"), alone.get("until"), alone.get("leftQuery")],
      [QUERY, shown(page).rightFrom, shown(page).rightUntil, null],
    );
  },

  async "diff saved"(page) {
    const { before, after } = await times(page);
    const server = await ask(page, "/api/compare", compared(before, after));
    await diff(page, sides(before, after, { show: "up,down,new,gone,moved,not_significant,too_little_data,folded" }));
    const csv = await saved(page, /^Table as it is/);
    assert.match(csv.name, /^rollout_diff_.*\.csv$/);
    const [head, ...lines] = csv.bytes.toString().split("\n");
    assert.ok(head.startsWith("function,figure,state,baseline,"));
    const wanted = server.changes.map(
      (row) => `"${row.name}",${row.of},${row.state},${row.a.value},${row.a.share},${row.b.value},${row.b.share},${row.change ?? ""},`,
    );
    assert.deepEqual(lines.map((line) => line.split(",").slice(0, 8).join(",") + ",").sort(), wanted.sort());
    const json = JSON.parse((await saved(page, /^Flame graph as JSON/)).bytes);
    assert.equal(json.metadata.format, "double");
    assert.equal(json.leftTicks, server.a.total);
    const png = (await saved(page, /^Picture/)).bytes;
    assert.equal(png.toString("latin1", 1, 4), "PNG");
    assert.ok(png.readUInt32BE(16) >= 3200, `a picture of ${png.readUInt32BE(16)} pixels`); // twice 1,600
    const own = await saved(page, /^Page of one file/);
    const alone = await page.context().newPage();
    await alone.setContent(own.bytes.toString());
    await alone.getByRole("application").waitFor();
    assert.ok((await alone.getByRole("row").count()) > 3);
    await alone.close();
  },

  /* What a comparison cannot say, it does not say. */
  async "diff without enough"(page) {
    const { before, after } = await times(page);
    const one = `${CPU}{service_name="rollout",pod="a"}`;
    const short = ({ from }) => ({ from, until: from + 5 * MINUTE_MS });
    await diff(page, sides(short(before), short(after), { leftQuery: one, rightQuery: one }));
    await page.getByText("Weak evidence.").waitFor();
    assert.ok((await page.getByText("compared by").textContent()).includes("counts of samples alone"));

    await page.goto(at("/diff", sides(before, after, { rightQuery: QUERY.replace(CPU, SAMPLES) })));
    await page.getByRole("heading", { name: "Two types cannot be compared" }).waitFor();
    await isAccessible(page, "two types");
    await page.getByRole("button", { name: "CPU time" }).last().click();
    await page.getByText("differences are significant").waitFor();

    page.refused = 1; // the 400
    await page.goto(at("/diff", sides(before, after, { rightQuery: `${CPU}{service_name="rollout",pod=~"("}` })));
    await page.getByRole("heading", { name: "The query is wrong" }).first().waitFor();
    page.refused = undefined;
    await page.goto(at("/diff", sides({ from: before.from - 30 * MINUTE_MS, until: before.from - 1 }, after)));
    await page.getByRole("heading", { name: "The baseline has no profiles" }).waitFor();
    await isAccessible(page, "an empty baseline");
    await page.getByRole("button", { name: "just before" }).last().click();
    await page.getByText("differences are significant").waitFor();
    await page.goto(at("/diff", { from: "now-2h" }));
    await page.getByRole("button", { name: /^rollout/ }).click();
    await page.getByText("differences are significant").waitFor();
  },

  /* Both sides with one search and one zoom. */
  async compare(page) {
    const { before, after } = await times(page);
    await page.goto(at("/compare", sides(before, after)));
    const [left, right] = [flame(page, "Baseline"), flame(page, "Comparison")];
    await left.waitFor();
    await right.waitFor();
    await quiet(page);
    await picture(page, "compare");
    await isAccessible(page, "compare");

    /* Both of the same time, and they stay so: the time of one side is that of the other. */
    const same = page.getByRole("button", { name: "Same time" });
    await same.click();
    await page.waitForFunction(() => new URL(location.href).searchParams.get("sync") === "1");
    assert.deepEqual([shown(page).leftFrom, shown(page).leftUntil], [shown(page).rightFrom, shown(page).rightUntil]);
    const { leftFrom } = shown(page);
    await page.getByRole("region", { name: "Baseline", exact: true }).getByRole("slider").first().press("ArrowRight");
    await page.waitForFunction((from) => new URL(location.href).searchParams.get("leftFrom") !== from, leftFrom);
    assert.deepEqual([shown(page).leftFrom, shown(page).leftUntil], [shown(page).rightFrom, shown(page).rightUntil]);
    await same.click();
    await page.waitForFunction(() => !new URL(location.href).searchParams.has("sync"));
    await page.goto(at("/compare", sides(before, after)));
    await quiet(page);

    await page.getByRole("searchbox").fill("hash");
    await page
      .getByText(/found .* frames/)
      .first()
      .waitFor();
    assert.equal(await page.getByText(/found .* frames/).count(), 2);
    await page.getByRole("searchbox").fill("");
    const bar = await barOf(page, left, "work");
    await page.mouse.click(bar.x, bar.y);
    await page.waitForURL((to) => to.searchParams.has("focus"));
    assert.equal(await page.getByRole("navigation", { name: /^Zoom/ }).getByRole("button", { name: "work" }).count(), 2);
    await page.reload();
    await quiet(page);
    assert.equal(await page.getByRole("navigation", { name: /^Zoom/ }).getByRole("button", { name: "work" }).count(), 2);
    await page.keyboard.press("Escape");
    await page.waitForURL((to) => !to.searchParams.has("focus"));

    /* Half of the pods have half of the time: with one scale, there is nothing to point at in the other half. */
    await page.goto(at("/compare", sides(before, after, { rightQuery: `${CPU}{service_name="rollout",pod=~"[a-d]"}` })));
    await quiet(page);
    const box = await right.boundingBox();
    const told = async (part) => {
      await page.mouse.move(box.x + box.width * part, box.y + 9);
      await page.mouse.move(box.x + box.width * part, box.y + 10);
      return (await right.locator(".fg-tip-title").isVisible()) ? right.locator(".fg-tip-title").textContent() : null;
    };
    assert.deepEqual([await told(0.1), await told(0.9)], ["total", "total"]);
    await page.getByRole("button", { name: "Same scale" }).click();
    assert.equal(shown(page).mode, "abs");
    await page.waitForFunction(() => document.querySelector('[aria-label="Scale"] [aria-pressed="true"]').textContent === "Same scale");
    assert.deepEqual([await told(0.1), await told(0.9)], ["total", null]);
    await page.goto(at("/compare", sides(before, after)));

    await page.getByRole("button", { name: "Table", exact: true }).click();
    const table = page.getByRole("table", { name: "Functions of both sides" });
    await table.waitFor();
    const [a, b] = [
      await ask(page, "/api/functions", { query: QUERY, ...before, limit: 1000 }),
      await ask(page, "/api/functions", { query: QUERY, ...after, limit: 1000 }),
    ];
    const shares = (answer, name) => {
      const row = answer.functions.find((one) => one.name === name);
      return row === undefined ? ["0%", "0%"] : [share(row.self, answer.total), share(row.total, answer.total)];
    };
    const rows = await table
      .locator("tbody tr[data-row]")
      .evaluateAll((found) => found.map((row) => [row.title, ...[...row.querySelectorAll(".share")].map((one) => one.textContent)]));
    assert.equal(rows.length, new Set([...a.functions, ...b.functions].map((row) => row.name)).size);
    for (const [name, ...found] of rows) assert.deepEqual(found, [...shares(a, name), ...shares(b, name)], name);
    await isAccessible(page, "compare as a table");
  },

  /* Values by label, and the way from one to what is asked about it. */
  async labels(page) {
    await page.goto(at("/labels", { query: QUERY, from: "now-2h" }));
    await quiet(page);
    await page
      .getByRole("group", { name: "Label" })
      .getByRole("button", { name: /^version/ })
      .click();
    assert.equal(shown(page).by, "version");
    await quiet(page);
    await picture(page, "labels");
    const table = page.getByRole("table", { name: "Values of version" });
    const server = await ask(page, "/api/labels/version", { query: QUERY, from: "now-2h", sort: "value" });
    const rows = await table
      .locator("tbody tr")
      .evaluateAll((found) => found.map((row) => [row.cells[0].textContent, row.cells[5].textContent, row.cells[6].textContent]));
    assert.deepEqual(
      rows,
      server.values.map((row) => [row.value, share(row.share, 1), String(row.series)]),
    );
    const labels = await ask(page, "/api/labels", { query: QUERY, from: "now-2h", sort: "values" });
    const names = await page
      .getByRole("table", { name: "Labels by number of values" })
      .locator("tbody tr")
      .evaluateAll((found) => found.map((row) => [row.cells[0].textContent, row.cells[1].textContent]));
    assert.deepEqual(
      names,
      labels.labels.filter((row) => !row.name.startsWith("__")).map((row) => [row.name, String(row.values)]),
    );
    await isAccessible(page, "labels");

    await page.getByRole("button", { name: "Stacked" }).click();
    await page.getByRole("button", { name: "Grid" }).click();
    assert.equal(shown(page).chart, "grid");
    assert.equal(await page.locator(".small-charts li").count(), server.values.length);
    await page.getByRole("button", { name: "View as table" }).click();
    assert.ok((await page.getByRole("region", { name: "Values over time" }).locator("tbody tr").count()) > 10);
    await isAccessible(page, "values over time");

    /* Two clicks from here to the difference of two versions. */
    await page.getByRole("link", { name: "1.0 as baseline" }).click();
    await page.waitForURL(/\/diff\?/);
    assert.equal(shown(page).leftQuery, `${CPU}{service_name="rollout",version="1.0"}`);
    await page.goBack();
    await page.goto(
      page
        .url()
        .replace(
          "/labels?",
          `/labels?${new URLSearchParams({ leftQuery: `${CPU}{version="1.0"}`, leftFrom: "now-2h", leftUntil: "now" })}&`,
        ),
    );
    await page.getByRole("link", { name: "1.1 as comparison" }).click();
    await page.waitForURL(/\/diff\?/);
    assert.equal(shown(page).leftQuery, `${CPU}{version="1.0"}`);
    assert.equal(shown(page).rightQuery, `${CPU}{service_name="rollout",version="1.1"}`);
    await page.getByText("differences are significant").waitFor();
    await page.goBack();
    await page.getByRole("link", { name: "Exclude 1.0" }).click();
    await page.waitForURL((to) => to.searchParams.get("query").includes('version!="1.0"'));
    await page.goBack();
    await page.getByRole("link", { name: "Flame graph of 1.1" }).click();
    await page.getByRole("application").waitFor();
    assert.equal(new URL(page.url()).pathname, "/");
  },

  /* Single spans and profiles: all numbers are those of the ids that are picked. */
  async spans(page) {
    const { after } = await times(page);
    const range = { from: String(after.from), until: String(after.until) };
    await page.goto(at("/spans", { query: QUERY, ...range }));
    const exemplars = page.getByRole("table", { name: "The greatest spans" });
    await exemplars.waitFor();
    await picture(page, "spans");
    await isAccessible(page, "spans");
    const [value, , name, , id] = await exemplars
      .locator("tbody tr")
      .first()
      .evaluate((row) => [...row.cells].map((cell) => cell.textContent));
    assert.equal(name, "GET /slow"); // the one that ui_test.py has made slow
    await exemplars.getByRole("button", { name: `Flame graph of ${id}` }).click();
    assert.equal(shown(page).span, id);
    const card = page.getByRole("region", { name: `Span ${id}` });
    await card.getByRole("application").waitFor();
    assert.ok(plain(await card.getByRole("navigation", { name: "Zoom" }).textContent()).includes(`${plain(value)} · 100% of total`));
    await page.reload();
    await card.getByRole("application").waitFor();
    await isAccessible(page, "a span");

    await card.getByRole("button", { name: "Close" }).click();
    await page.getByRole("textbox", { name: "Id of a span, trace or profile" }).fill(id);
    await page.keyboard.press("Enter");
    await card.getByRole("application").waitFor();

    /* Single profiles; a box over the upper half of their values. */
    await page.getByRole("button", { name: "Profiles", exact: true }).click();
    const heat = page.getByRole("application", { name: /single profiles/ });
    const profiles = page.getByRole("table", { name: "The greatest profiles" });
    await profiles.waitFor();
    const [weight, , , own] = await profiles
      .locator("tbody tr")
      .first()
      .evaluate((row) => [...row.cells].map((cell) => cell.textContent));
    await profiles.getByRole("button", { name: `Flame graph of ${own}` }).click();
    assert.equal(shown(page).profile, own);
    const single = page.getByRole("region", { name: `Profile ${own}` });
    await single.getByRole("application").waitFor();
    assert.ok(plain(await single.getByRole("navigation", { name: "Zoom" }).textContent()).includes(`${plain(weight)} · 100% of total`));
    const download = page.waitForEvent("download");
    await single.getByRole("button", { name: "pprof" }).click();
    const wanted = await page.request.get(`${url}/api/profiles/${own}?${new URLSearchParams({ query: QUERY, ...range })}`);
    assert.deepEqual(fs.readFileSync(await (await download).path()), await wanted.body());
    await single.getByRole("button", { name: "Close" }).click();
    await profiles.waitFor();
    await page.waitForURL((to) => !to.searchParams.has("profile"));
    const box = await resting(heat);
    await page.mouse.move(box.x + 70, box.y + 8);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width - 18, box.y + 100, { steps: 6 });
    await page.mouse.up();
    await page.waitForURL((to) => to.searchParams.has("box"));
    const [from, until, low, high] = shown(page).box.split("..").map(Number);
    const listed = await ask(page, "/api/profiles", { query: QUERY, from, until, limit: 10_000 });
    const inside = listed.profiles.filter((one) => one.value >= low && one.value <= high);
    assert.ok(inside.length > 5 && inside.length < listed.profiles.length, `${inside.length} of ${listed.profiles.length} profiles`);
    const boxed = page.getByRole("region", { name: `All ${inside.length} profiles of the box` });
    await boxed.getByRole("application").waitFor();
    const total = inside.reduce((sum, one) => sum + one.value, 0);
    const rows = await boxed
      .locator("tbody tr[data-row]")
      .evaluateAll((found) => found.map((row) => [row.querySelector(".name").title, row.querySelectorAll(".share")[1].textContent]));
    assert.equal(rows.find(([of]) => of === "main")[1], share(total, total)); // every stack begins with main
    await page.getByRole("link", { name: "This time against the whole range" }).waitFor();

    /* The same without a pointer. */
    await page.keyboard.press("Tab");
    await heat.focus();
    await page.keyboard.press("Escape");
    await page.waitForURL((to) => !to.searchParams.has("box"));
    for (const key of ["ArrowRight", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowUp"]) await page.keyboard.press(key);
    assert.ok(shown(page).box !== undefined, "arrow keys with Shift select a box");
    await page.waitForFunction(() => /profiles?, /.test(document.querySelector(".fg-heat .fg-flame-live").textContent));
  },

  /* The wheel zooms around the pointer, dragging moves, and Escape is back at all. */
  async "flame graph by hand"(page) {
    const { before, after } = await times(page);
    await diff(page, sides(before, after, { view: "flame" }));
    const graph = flame(page, "Flame graph of the difference");
    const box = await graph.boundingBox();
    const { x, y } = await barOf(page, graph, "sort", [12]);
    const row = async (parts) => {
      const titles = [];
      for (const part of parts) {
        await page.mouse.move(box.x + box.width * part, y + 1);
        await page.mouse.move(box.x + box.width * part, y);
        titles.push((await graph.locator(".fg-tip").isVisible()) ? await graph.locator(".fg-tip-title").textContent() : null);
      }
      return titles;
    };
    const frame = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    assert.deepEqual(await row([0.05, 0.5]), [null, "hash"]);

    await page.mouse.move(x + 60, y);
    await page.keyboard.down("Control");
    for (let turn = 0; turn < 8; turn++) await page.mouse.wheel(0, -300);
    await page.keyboard.up("Control");
    await frame();
    assert.deepEqual(await row([0.02, 0.5, 0.98]), ["sort", "sort", "sort"]);
    assert.equal(await page.evaluate(() => devicePixelRatio), 1, "the page itself is not zoomed");

    for (let turn = 0; turn < 2; turn++) {
      await page.mouse.move(box.x + 10, y + 60);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width - 10, y + 64, { steps: 4 });
      await page.mouse.up();
    }
    await frame();
    assert.ok((await row([0.02, 0.5, 0.98])).includes("parse"), "dragging to the right shows what is left of it");
    assert.equal(shown(page).focus, undefined, "dragging is no click");

    await graph.focus();
    await page.keyboard.press("Escape");
    await page.waitForTimeout(400); // the zoom's animation
    assert.deepEqual(await row([0.05, 0.5]), [null, "hash"]);

    /* Home, down into the widest, along the level; what has the cursor is said. */
    await graph.focus();
    for (const key of ["Home", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
    await page.waitForFunction(() => document.querySelector(".fg-flame-live").textContent.startsWith("parse, level 4, baseline"));
    await page.keyboard.press("Enter");
    await page.waitForURL((to) => to.searchParams.get("focus")?.includes("parse"));
    await page.keyboard.press("m");
    await page.getByRole("menuitem", { name: "Search this" }).click();
    await page.waitForURL((to) => to.searchParams.get("q") === "^parse$");
  },

  /* Light, and as small as a phone. */
  async "comparison looks"(page) {
    const { before, after } = await times(page);
    await page.emulateMedia({ colorScheme: "light" });
    for (const [route, parameters] of [
      ["/diff", sides(before, after)],
      ["/compare", sides(before, after)],
      ["/labels", { query: QUERY, from: "now-2h" }],
      ["/spans", { query: QUERY, from: "now-2h" }],
    ]) {
      await page.setViewportSize({ width: 1440, height: 900 });
      await page.goto(at(route, parameters));
      await page.locator("main section").first().waitFor();
      await quiet(page);
      await isAccessible(page, `${route} in the light theme`);
      await picture(page, `light${route.replace("/", "-")}`);
      for (const width of [1024, 390, 320]) {
        await page.setViewportSize({ width, height: 800 });
        await isNarrow(page, `${route} at ${width} px`);
      }
      await picture(page, `phone${route.replace("/", "-")}`);
    }
  },
};

await run(cases);
