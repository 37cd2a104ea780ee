// How fast the flame graph is in a browser without a GPU: node speed.mjs [NODES …]. Prints figures and judges none, since other
// work on the machine makes them worse; querier/ui/README.md has what they should be. Needs npm ci in querier/ui and here.
// Each size is measured in RUNS new pages. What happens once (decoding, the first picture) is the least of them, what happens in
// each frame is of all frames.
import http from "node:http";
import path from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

const sources = fileURLToPath(new URL("../../querier/ui/", import.meta.url));
const sizes = process.argv.length > 2 ? process.argv.slice(2).map(Number) : [1_000, 16_384, 100_000];
const RUNS = 5;
const at = (values, part) => [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))];
const ms = (value) => value.toFixed(1).padStart(8);

/* The engine and what measures it, as one script. */
async function script() {
  const { build } = await import(pathToFileURL(createRequire(path.join(sources, "package.json")).resolve("vite")).href);
  const [built] = await build({
    configFile: false,
    root: sources,
    logLevel: "error",
    build: {
      write: false,
      target: "es2022",
      lib: {
        entry: path.join(sources, "src/flame/test/speed.ts"),
        formats: ["iife"],
        name: "speed",
        fileName: "speed",
        cssFileName: "speed",
      },
    },
  });
  return built.output.find((file) => file.type === "chunk").code;
}

async function main() {
  const code = await script();
  const server = http.createServer((request, answer) => {
    const [type, text] =
      request.url === "/speed.js"
        ? ["text/javascript", code]
        : [
            "text/html",
            '<!doctype html><title>speed</title><body style="margin:0"><div id="place" style="height:100vh"></div><script src="speed.js"></script>',
          ];
    answer.writeHead(200, { "Content-Type": type }).end(text);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell",
    args: ["--no-sandbox", "--disable-gpu"],
  });
  console.log("   nodes decode ms  first draw    both   table  search |draw p50     p95 | frame gap p50     p95");
  try {
    for (const nodes of sizes) {
      const all = [];
      for (let run = 0; run < RUNS; run++) {
        const page = await browser.newPage({ viewport: { width: 1440, height: 900 } }); // nothing is warm in it
        await page.goto(`http://127.0.0.1:${server.address().port}/`);
        all.push(await page.evaluate((count) => window.speed.measure(count, document.getElementById("place")), nodes));
        await page.close();
      }
      const least = (of) => ms(Math.min(...all.map(of)));
      const [draws, gaps] = [all.flatMap((one) => one.draws), all.flatMap((one) => one.gaps)];
      console.log(
        `${String(all[0].nodes).padStart(8)}  ${least((one) => one.decodeMs)}    ${least((one) => one.firstDrawMs)}${least((one) => one.decodeMs + one.firstDrawMs)}${least((one) => one.tableMs)}${least((one) => one.searchMs)} |${ms(at(draws, 0.5))}${ms(at(draws, 0.95))} |      ${ms(at(gaps, 0.5))}${ms(at(gaps, 0.95))}`,
      );
    }
  } finally {
    await browser.close();
    server.closeAllConnections();
    server.close();
  }
}

await main();
