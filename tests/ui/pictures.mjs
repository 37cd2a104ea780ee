// The pages look as they did: each is compared with a picture of it, much smaller, so that edges of letters do not matter.
// Data and times are fixed. If a page is meant to look different now, copy build/ui/pictures/small over tests/ui/pictures.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";

import { at, pictures, run } from "./browser.mjs";

const WIDTH = 360; // of 1440
const DIFFERS = 48; // of 255: how far a pixel may be off
const MOST = 0.01; // of all pixels may be further off; "complete in 7 ms" is never the same
const CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";
const HOUR = { from: "1768476600000", until: "1768480200000" }; // around ui_test.py's FIXED_S
const ROLLOUT = `${CPU}{service_name="rollout"}`;
const SIDES = {
  leftQuery: ROLLOUT,
  leftFrom: "1768476600000",
  leftUntil: "1768478399999",
  rightQuery: ROLLOUT,
  rightFrom: "1768478400000",
  rightUntil: "1768480200000",
};

const PAGES = [
  ["services", "/", HOUR, "dark"],
  ["single", "/", { query: `${CPU}{service_name="bench"}`, ...HOUR }, "dark"],
  ["single-light", "/", { query: `${CPU}{service_name="bench"}`, ...HOUR, sel: "1768478400000..1768479600000" }, "light"],
  ["sandwich", "/", { query: `${CPU}{service_name="bench"}`, ...HOUR, view: "sandwich", fn: "encoding/json.Marshal" }, "dark"],
  ["tree", "/", { query: `${CPU}{service_name="bench"}`, ...HOUR, view: "tree" }, "light"],
  ["labels", "/labels", { query: ROLLOUT, ...HOUR }, "dark"],
  ["compare", "/compare", { ...SIDES, ...HOUR }, "dark"],
  ["diff", "/diff", { ...SIDES, ...HOUR }, "light"],
  ["spans", "/spans", { query: ROLLOUT, ...HOUR }, "dark"],
];

/* In the browser: the picture on a canvas of that width, as a PNG, and how far it is from another one of that size. */
async function measure({ actual, reference, width }) {
  const bitmap = async (base64) => createImageBitmap(await (await fetch(`data:image/png;base64,${base64}`)).blob());
  const drawn = (image, height) => {
    const canvas = new OffscreenCanvas(width, height);
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, width, height);
    return { canvas, pixels: context.getImageData(0, 0, width, height).data };
  };
  const image = await bitmap(actual);
  const height = Math.round((image.height / image.width) * width);
  const { canvas, pixels } = drawn(image, height);
  const bytes = new Uint8Array(await (await canvas.convertToBlob({ type: "image/png" })).arrayBuffer());
  const small = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  if (reference === null) return { small, offs: null };
  const wanted = drawn(await bitmap(reference), height).pixels;
  const offs = [];
  for (let at = 0; at < pixels.length; at += 4)
    offs.push(Math.max(...[0, 1, 2].map((channel) => Math.abs(pixels[at + channel] - wanted[at + channel]))));
  return { small, offs };
}

async function settled(page) {
  await page.waitForLoadState("networkidle");
  await page.locator("main .stale, main .skeleton").first().waitFor({ state: "detached" });
  await page.evaluate(() => document.fonts.ready);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

await run({
  async pictures(page) {
    const blank = await page.context().newPage(); // without the policy of ours
    const faults = [];
    for (const [name, route, parameters, theme] of PAGES) {
      await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
      await page.goto(at(route, parameters));
      await settled(page);
      const shot = await page.screenshot();
      const file = path.join("pictures", `${name}.png`);
      const reference = fs.existsSync(file) ? fs.readFileSync(file).toString("base64") : null;
      const { small, offs } = await blank.evaluate(measure, { actual: shot.toString("base64"), reference, width: WIDTH });
      fs.mkdirSync(path.join(pictures, "small"), { recursive: true });
      fs.writeFileSync(path.join(pictures, "small", `${name}.png`), Buffer.from(small, "base64"));
      fs.writeFileSync(path.join(pictures, `fixed-${name}.png`), shot);
      const share = offs === null ? 1 : offs.filter((off) => off > DIFFERS).length / offs.length;
      if (share > MOST) faults.push(`${name}: ${offs === null ? "there is no picture of it" : `${(share * 100).toFixed(2)} % differ`}`);
    }
    assert.deepEqual(faults, [], `${faults.join(", ")}: see build/ui/pictures`);
  },
});
