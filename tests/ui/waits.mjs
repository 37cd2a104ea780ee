// How long people wait for the page of a running server: node waits.mjs URL QUERY [ROUNDS]. Prints figures and judges none, as
// speed.mjs. The CPU time of the page's main thread is there for machines that do other work, too: it is what the page itself
// costs, where the wall time has the server, the network, the drawing of the browser, and whatever else runs.
import { chromium } from "playwright-core";

const [url, query, rounds = "15"] = process.argv.slice(2);
const at = (values, part) => [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))];
const line = (name, walls, cpus) =>
  console.log(
    `${name.padEnd(30)} wall ms least ${at(walls, 0).toFixed(0)} median ${at(walls, 0.5).toFixed(0)}   CPU ms least ${at(cpus, 0).toFixed(0)} median ${at(cpus, 0.5).toFixed(0)}`,
  );

/* In the page: runs a step, and waits until the flame graph of another answer is painted. Returns how long it took. */
async function painted(key) {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const answers = () => performance.getEntriesByType("resource").filter((one) => one.name.includes("/pyroscope/render")).length;
  const before = key === null ? 0 : answers();
  const since = key === null ? 0 : performance.now();
  if (key !== null) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  while (answers() === before || document.querySelector("main .stale, main .skeleton, .flame-box canvas") === null) await frame();
  while (document.querySelector("main .stale, main .skeleton") !== null || !/complete/.test(document.querySelector(".summary")?.textContent))
    await frame();
  await frame();
  return performance.now() - since;
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell",
  args: ["--no-sandbox", "--disable-gpu"],
});
try {
  const [first, ranges] = [
    { walls: [], cpus: [] },
    { walls: [], cpus: [] },
  ];
  for (let round = 0; round < 3; round++) {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    const tools = await context.newCDPSession(page);
    await tools.send("Performance.enable", { timeDomain: "threadTicks" });
    const cpu = async () =>
      1000 * (await tools.send("Performance.getMetrics")).metrics.find((metric) => metric.name === "TaskDuration").value;
    await page.goto(`${url}/?${new URLSearchParams({ query })}`);
    first.walls.push(await page.evaluate(painted, null));
    first.cpus.push(await cpu());
    for (let step = 0; step < Number(rounds); step++) {
      await page.waitForTimeout(1100); // the same range a second later is another one
      const before = await cpu();
      ranges.walls.push(await page.evaluate(painted, step % 2 === 0 ? "-" : "="));
      ranges.cpus.push((await cpu()) - before);
    }
    await context.close();
  }
  line("first load to the picture", first.walls, first.cpus);
  line("new range to the picture", ranges.walls, ranges.cpus);
} finally {
  await browser.close();
}
