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

/* What a server with access control would say. */
const MADE = { createdMs: 1768478400000, createdBy: "token 4uJc0TqZ (admin)" };
const GOVERNED = {
  "api/whoami": { mode: "token", subject: "u-17", name: "Ada", tenancy: true, tenants: ["shop", "lab"], scopes: ["read", "admin", "tenant-admin"], csrf: "c" },
  "api/tenants": { tenants: [["lab", "suspended"], ["old", "deleting"], ["shop", "active"]].map(([id, state]) => ({ id, state, ...MADE, changedMs: MADE.createdMs })) },
  "api/tenants/shop/limits": {
    ingestion_rate_mb: { value: "8", source: "registry", meaning: "Bytes that a tenant may send each second.", used: 7.2 },
    max_query_length: { value: "0s", source: "settings", meaning: "Maximum time range of a query." },
    retention_period: { value: "30d", source: "tenants_file", meaning: "Profiles are deleted after this time." },
  },
  "api/tokens": {
    tokens: [
      { id: "mT5Msdv4", name: "agents", state: "active", tenants: ["shop"], scopes: ["push"], ...MADE, expiresMs: 1800014400000 },
      { id: "rFNqlw3J", name: "grafana", state: "active", tenants: ["shop", "lab"], scopes: ["read"], ...MADE, expiresMs: 0, matchers: '{env="prod"}' },
      { id: "x1Nqlw3J", name: "lost", state: "revoked", tenants: ["*"], scopes: ["admin"], ...MADE, expiresMs: 0, revokedMs: MADE.createdMs, revokedBy: "Ada" },
    ],
  },
  "api/bindings": {
    bindings: [{ id: "b", issuer: "https://login.example", claim: "groups", value: "developers", tenants: "team-*", role: "editor", ...MADE }],
  },
  "api/audit": {
    records: [
      { seq: 1, ms: 1768478400000, kind: "refused", who: "token rFNqlw3J (grafana)", tenant: "shop", method: "POST", route: "/ingest", detail: "needs the scope push", status: 403, source: "10.0.0.7" },
      { seq: 2, ms: 1768479000000, kind: "admin", who: "Ada", tenant: "shop", method: "POST", route: "/api/tokens", status: 200, source: "10.0.0.8" },
    ],
  },
  "api/usage": {
    from: "2026-01-01",
    until: "2026-02-01",
    by: "day",
    days: [14, 15].map((day) => ({
      tenant: "shop", day: `2026-01-${day}`, version: 1, revision: day === 14 ? 2 : 1, preliminary: day === 15, profiles: 8640 * day, unmeasured_profiles: 0, samples: 300 * 8640 * day,
      wire_bytes: 19_000 * 8640 * day, raw_bytes: 57_000 * 8640 * day, series: 20, stored_byte_days: 4_100_000 * day, stored_byte_seconds: 0, writes: 400, queries: 90, reads: 700, read_bytes: 9_000_000, cpu_ms: 3100,
    })),
    waiting: [{ tenant: "shop", profiles: 600, samples: 0, wire_bytes: 0, raw_bytes: 0 }],
  },
};

const PAGES = [
  ["services", "/", HOUR, "dark"],
  ["single", "/", { query: `${CPU}{service_name="bench"}`, ...HOUR }, "dark"],
  ["single-light", "/", { query: `${CPU}{service_name="bench"}`, ...HOUR, sel: "1768478400000..1768479600000" }, "light"],
  ["sandwich", "/", { query: `${CPU}{service_name="bench"}`, ...HOUR, view: "sandwich", fn: "encoding/json.structEncoder.encode" }, "dark"],
  ["tree", "/", { query: `${CPU}{service_name="bench"}`, ...HOUR, view: "tree" }, "light"],
  ["labels", "/labels", { query: ROLLOUT, ...HOUR }, "dark"],
  ["compare", "/compare", { ...SIDES, ...HOUR }, "dark"],
  ["diff", "/diff", { ...SIDES, ...HOUR }, "light"],
  ["spans", "/spans", { query: ROLLOUT, ...HOUR }, "dark"],
  ["tenants", "/tenants", { tenant: "shop" }, "dark", GOVERNED],
  ["limits", "/tenants", { tenant: "shop", of: "shop", form: "limits" }, "light", GOVERNED],
  ["tokens", "/tokens", { tenant: "shop", show: "all" }, "dark", GOVERNED],
  ["token-new", "/tokens", { tenant: "shop", of: "shop", form: "create" }, "light", GOVERNED],
  ["people", "/people", { tenant: "shop" }, "light", GOVERNED],
  ["audit", "/audit", { tenant: "shop", ...HOUR }, "dark", GOVERNED],
  ["usage", "/usage", { tenant: "shop", month: "2026-01" }, "light", GOVERNED],
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
    for (const [name, route, parameters, theme, answers = {}] of PAGES) {
      await page.unrouteAll();
      for (const [path, json] of Object.entries(answers)) await page.route(new RegExp(`/${path}(\\?|$)`), (asked) => asked.fulfill({ json }));
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
