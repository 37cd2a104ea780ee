// Makes the pictures of README.md from a server that runs with deploy/demo for ten minutes or more:
//
//     (cd tests/ui && npm ci --ignore-scripts) && node tests/ui/showcase.mjs http://127.0.0.1:4040 querier/ui/pictures
import fs from "node:fs";
import path from "node:path";
import zlib from "node:zlib";

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

/* ---- as small files ---- */

const COLOURS = 256; // of a palette
const ALIKE = 18; // squared distance of colours that share a place, as long as there are others to have one

const distance = (a, b) => ((a >> 16) - (b >> 16)) ** 2 + (((a >> 8) & 255) - ((b >> 8) & 255)) ** 2 + ((a & 255) - (b & 255)) ** 2;

/* The most frequent colours that are not alike. */
function paletteOf(counts) {
  const palette = [];
  for (const [colour] of [...counts].sort((a, b) => b[1] - a[1])) {
    if (palette.length === COLOURS) break;
    if (palette.every((one) => distance(one, colour) > ALIKE)) palette.push(colour);
  }
  return palette;
}

function chunk(type, content) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), content]);
  const ends = Buffer.alloc(8);
  ends.writeUInt32BE(content.length, 0);
  ends.writeUInt32BE(zlib.crc32(body), 4);
  return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)]);
}

/* A PNG of a byte a pixel. The page has few colours, and README.md is shown with all of its pictures. */
function indexed({ width, height, pixels }) {
  const colours = Uint32Array.from({ length: width * height }, (_, i) => (pixels[4 * i] << 16) | (pixels[4 * i + 1] << 8) | pixels[4 * i + 2]);
  const counts = new Map();
  for (const colour of colours) counts.set(colour, (counts.get(colour) ?? 0) + 1);
  const palette = paletteOf(counts);
  const place = new Map();
  for (const colour of counts.keys())
    place.set(
      colour,
      palette.reduce((best, one, at) => (distance(one, colour) < distance(palette[best], colour) ? at : best), 0),
    );
  const rows = Buffer.alloc(height * (width + 1)); // each begins with its filter: none
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) rows[y * (width + 1) + 1 + x] = place.get(colours[y * width + x]);
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8); // bits, palette
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk("IHDR", head),
    chunk("PLTE", Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]))),
    chunk("IDAT", zlib.deflateSync(rows, { level: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

/* The browser reads its own picture. */
async function pixelsOf(page, png) {
  const read = await page.evaluate(async (base64) => {
    const bitmap = await createImageBitmap(new Blob([Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))]));
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const context = canvas.getContext("2d");
    context.drawImage(bitmap, 0, 0);
    const { data, width, height } = context.getImageData(0, 0, bitmap.width, bitmap.height);
    let text = "";
    for (let i = 0; i < data.length; i += 0x8000) text += String.fromCharCode(...data.subarray(i, i + 0x8000));
    return { width, height, base64: btoa(text) };
  }, png.toString("base64"));
  return { width: read.width, height: read.height, pixels: Buffer.from(read.base64, "base64") };
}

fs.mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell",
  args: ["--no-sandbox", "--disable-gpu"],
});
for (const [name, pathname, parameters, theme] of PICTURES) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: theme, locale: "en-GB" });
  const page = await context.newPage();
  await page.goto(`${url}${pathname}?${new URLSearchParams(parameters)}`);
  await page.waitForLoadState("networkidle");
  await page.locator(".skeleton, .stale").first().waitFor({ state: "detached" });
  await page.waitForTimeout(500); // fonts and the last frame
  fs.writeFileSync(path.join(folder, `${name}.png`), indexed(await pixelsOf(page, await page.screenshot())));
  await context.close();
}
await browser.close();
