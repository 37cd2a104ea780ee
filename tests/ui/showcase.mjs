// Makes the pictures of README.md from a server that runs with deploy/demo for ten minutes or more:
//
//     (cd tests/ui && npm ci --ignore-scripts) && node tests/ui/showcase.mjs http://127.0.0.1:4040 querier/ui/pictures
import fs from "node:fs";
import path from "node:path";

import { chromium } from "playwright-core";

const [url, folder] = process.argv.slice(2);
const CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";
const of = (service, more = "") => `${CPU}{service_name="${service}"${more}}`;
const version = (number) => of("checkout", `,version="${number}"`);
const RANGE = { from: "now-10m", until: "now" };

const PICTURES = [
  ["services", "/", RANGE, "dark"],
  ["single", "/", { query: of("checkout"), ...RANGE }, "dark"],
  ["diff", "/diff", { leftQuery: version("1.4.0"), rightQuery: version("1.5.0"), ...RANGE }, "light"],
  ["sandwich", "/", { query: of("checkout"), view: "sandwich", fn: "runtime.mallocgc", ...RANGE }, "dark"],
  ["labels", "/labels", { query: of("checkout"), by: "version", ...RANGE }, "light"],
  ["compare", "/compare", { leftQuery: version("1.4.0"), rightQuery: version("1.5.0"), ...RANGE }, "dark"],
];

fs.mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
for (const [name, pathname, parameters, theme] of PICTURES) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: theme, locale: "en-GB" });
  const page = await context.newPage();
  await page.goto(`${url}${pathname}?${new URLSearchParams(parameters)}`);
  await page.waitForLoadState("networkidle");
  await page.waitForTimeout(500); // fonts and the last frame
  await page.screenshot({ path: path.join(folder, `${name}.png`) });
  await context.close();
}
await browser.close();
