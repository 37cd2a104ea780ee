// One case in a browser: node pages.mjs CASE URL. Fails with a line "error: …" for what is wrong; so it does
// if the page logs an error, throws, or asks for something that it does not get.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const WAIT_MS = 30000;
const WANTED = "hash 71.43 %, sort 23.81 %, idle 4.76 %, main 100.00 %, work 95.24 %"; // of ui_test.py's stacks
const [name, url] = process.argv.slice(2);

const table = (page) => page.locator("#top tbody tr").evaluateAll(
  (rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));

const cases = {
  async "empty"(page) {
    await page.goto(`${url}/`);
    await page.locator("#empty").waitFor();
    assert.equal(await page.locator("#empty h2").textContent(), "No profiles yet");
    assert.ok((await page.locator("#how-curl").textContent()).includes(`${url}/ingest`));
    assert.equal(await page.locator("#result").isVisible(), false);
  },

  async "profiles"(page) {
    await page.goto(`${url}/`);
    await page.locator("#result").waitFor();
    assert.equal(await page.locator("#service").inputValue(), "shop");
    const rows = await table(page); // by self, then by total
    assert.equal(rows.map((row) => `${row[0]} ${row[3]}`).join(", "), WANTED);

    const box = await page.locator("#flame").boundingBox();
    assert.ok(box.width > 100 && box.height > 30, `a canvas of ${box.width} x ${box.height}`);
    await page.locator("#search").fill("WORK");
    assert.equal(await page.locator("#top tr.hit").count(), 1);
    await page.locator("#flame").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    assert.equal(await page.locator("#reset").isEnabled(), true);
    assert.ok((await page.locator("#reading").textContent()).includes("main"));
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("#reset").isEnabled(), false);

    await page.locator("th button", { hasText: "Function" }).click();
    const names = (await table(page)).map((row) => row[0]);
    assert.deepEqual(names, [...names].sort());
    await page.reload(); // the address has what was chosen
    await page.locator("#result").waitFor();
    assert.equal(await page.locator("#service").inputValue(), "shop");
  },

  async "wrong filter"(page) {
    await page.goto(`${url}/`);
    await page.locator("#result").waitFor();
    page.refused = 1; // the server's answer to it is an error, and the browser says so
    await page.locator("#filter").fill("pod=");
    await page.locator("button[type=submit]").click();
    await page.locator("#status.bad").waitFor();
    assert.equal(await page.locator("#result").isVisible(), false);
    await page.locator("#filter").fill('pod="a"');
    await page.locator("button[type=submit]").click();
    await page.locator("#result").waitFor();
  },

  async "unknown page"(page) {
    page.refused = 1;
    const answer = await page.goto(`${url}/nothing-here`);
    assert.equal(answer.status(), 404);
  },

  async "targets"(page) {
    await page.goto(`${url}/targets`);
    assert.equal(await page.locator("h1").textContent(), "Targets");
    assert.ok((await page.locator("table").first().textContent()).includes("127.0.0.1:9"));
  },
};

async function main() {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
  const page = await (await browser.newContext()).newPage();
  const complaints = [];

  page.refused = 0;
  page.setDefaultTimeout(WAIT_MS);
  page.on("console", (said) => { if (["error", "warning"].includes(said.type())) complaints.push(said.text()); });
  page.on("pageerror", (fault) => complaints.push(fault.message));
  page.on("requestfailed", (request) => complaints.push(`${request.url()}: ${request.failure().errorText}`));
  try {
    await cases[name](page);
    assert.equal(complaints.length, page.refused, `the browser complains: ${complaints.join(" / ")}`);
  } finally {
    await browser.close();
  }
}

main().catch((fault) => {
  console.log(`error: ${fault.message.replaceAll("\n", " ")}`);
  process.exitCode = 1;
});
