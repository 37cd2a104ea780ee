// What cases in a browser share. A file of cases is run as node FILE URL PICTURES CASE..., and says of each case in a line of JSON
// how long it took and what is wrong, if anything is: also if the page logs an error, throws, asks for something that it does not get,
// or asks another server. All cases share a browser, and each has a profile of its own. PICTURES: a folder for people to look at.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

import { chromium } from "playwright-core";

const WAIT_MS = 30000;
const [url, pictures, ...names] = process.argv.slice(2);
const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export { pictures, url };

export const at = (pathname, parameters = {}) => `${url}${pathname}?${new URLSearchParams(parameters)}`;
export const shown = (page) => Object.fromEntries(new URL(page.url()).searchParams);
export const flame = (page, label = "Flame graph") => page.getByRole("application", { name: new RegExp(`^${label}`) });

export async function ask(page, route, parameters) {
  const answer = await page.request.get(`${url}${route}?${new URLSearchParams(parameters)}`);
  assert.equal(answer.status(), 200, `${route}: ${answer.status()} ${await answer.text()}`);
  return answer.json();
}

export function share(value, total) {
  const percent = total === 0 ? 0 : (value / total) * 100;
  if (percent > 0 && percent < 0.01) return "<0.01%";
  return `${percent.toFixed(percent >= 99.995 || percent === 0 ? 0 : 2)}%`;
}

/* A box that became wider than its place takes the focus a frame later, when its observer has seen that. */
const scrollable = () =>
  [...document.querySelectorAll(".scroll-x")].every((box) => box.scrollWidth > box.clientWidth === (box.tabIndex === 0));

export async function isAccessible(page, what) {
  await page.waitForFunction(scrollable);
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const found = await page.evaluate(() =>
    window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }),
  );
  const faults = found.violations.map(
    (fault) =>
      `${fault.id}: ${fault.nodes
        .slice(0, 3)
        .map((node) => `${node.target} ${node.any.map((one) => one.message).join("; ")}`)
        .join(" | ")}`,
  );
  assert.deepEqual(faults, [], `${what}: ${faults.join(" / ")}`);
}

export async function picture(page, of) {
  fs.mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: path.join(pictures, `${of}.png`) });
}

/* What a click saves. */
export async function saved(page, item) {
  await page.getByRole("button", { name: "Export" }).click();
  const download = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: item }).click();
  const file = await download;
  return { name: file.suggestedFilename(), bytes: fs.readFileSync(await file.path()) };
}

export async function isNarrow(page, what) {
  const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok(content <= window, `${what} is ${content} px wide in a window of ${window}`);
}

async function runCase(browser, name, run) {
  const context = await browser.newContext({
    viewport: { width: 1440, height: 900 },
    locale: "en-GB",
    timezoneId: "UTC",
    colorScheme: "dark",
    acceptDownloads: true,
  });
  const page = await context.newPage();
  const complaints = [];
  const elsewhere = [];

  page.refused = 0; // how many complaints a case expects; undefined: any
  page.also = null; // an origin of the case's own; what its pages ask for is theirs
  page.setDefaultTimeout(WAIT_MS);
  page.on("console", (said) => {
    /* A server without access control has no such route; the browser complains of every 404. */
    if (said.location().url?.endsWith("/api/whoami") && said.text().includes("404")) return;
    if (["error", "warning"].includes(said.type())) complaints.push(said.text());
  });
  page.on("pageerror", (fault) => elsewhere.push(`the page throws: ${fault.message}`));
  page.on("request", (request) => {
    const to = new URL(request.url());
    if (page.also !== null && !request.isNavigationRequest() && request.frame().url().startsWith(page.also)) return;
    if (to.protocol.startsWith("http") && to.origin !== url && to.origin !== page.also) elsewhere.push(`a request to ${request.url()}`);
  });
  try {
    await run(page);
    if (page.refused !== undefined) assert.equal(complaints.length, page.refused, `the browser complains: ${complaints.join(" / ")}`);
    const policy = complaints.filter((text) => text.includes("Content Security Policy"));
    assert.deepEqual([...elsewhere, ...policy], []);
  } catch (fault) {
    await picture(page, `failed ${name}`);
    throw fault;
  } finally {
    await context.close();
  }
}

/* Runs the cases that the command line names. alone: cases that need no browser; they get what stands in the place of URL. */
export async function run(cases, alone = {}) {
  let browser = null;
  for (const name of names) {
    const begun = performance.now();
    let fault = null;
    try {
      if (name in alone) {
        await alone[name](url);
      } else {
        if (!browser?.isConnected())
          browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
        await runCase(browser, name, cases[name]);
      }
    } catch (found) {
      fault = found.message.replaceAll("\n", " ").slice(0, 900);
    }
    console.log(JSON.stringify({ name, fault, took_s: (performance.now() - begun) / 1000 }));
  }
  await browser?.close();
}
