// Administration in a browser: node admin.mjs URL PICTURES CASE... (browser.mjs). TOKENS: texts by what they may.
import assert from "node:assert/strict";
import fs from "node:fs";

import { at, isAccessible, isNarrow, picture, run, shown, url } from "./browser.mjs";

const TOKENS = JSON.parse(process.env.TOKENS ?? "{}");
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

const dialog = (page, name) => page.getByRole("dialog", { name });
const row = (page, name) => page.getByRole("row", { name });

/* Comes with a token, as if it had been typed. */
async function come(page, token, route, parameters = {}) {
  await page.addInitScript((text) => sessionStorage.setItem("flamegrid.token", text), token);
  await page.goto(at(route, parameters));
}

async function api(page, token, method, route, data) {
  const answer = await page.request.fetch(`${url}${route}`, { method, headers: { Authorization: `Bearer ${token}` }, data });
  return { status: answer.status(), body: await answer.json() };
}

async function governed(page, route) {
  const { status, body } = await api(page, TOKENS.admin, "GET", route);
  assert.equal(status, 200, `${route}: ${JSON.stringify(body)}`);
  return body;
}

/* Until something holds; what it takes from the server may need a moment. */
async function until(what, holds) {
  for (let round = 0; !(await holds()); round++) {
    assert.ok(round < 300, what);
    await new Promise((done) => setTimeout(done, 100));
  }
}

/* The same from its address alone, with what is typed there gone. */
async function again(page, check) {
  await page.reload();
  await check();
}

const cases = {
  /* Made, suspended and served again; each step is in the address. */
  async tenants(page) {
    await come(page, TOKENS.admin, "/");
    await page.getByRole("link", { name: "Admin" }).click();
    await row(page, /^shop active/).waitFor();
    await picture(page, "tenants");
    await isAccessible(page, "tenants");
    await page.getByRole("button", { name: "New tenant" }).click();
    assert.equal(shown(page).form, "create");
    await again(page, () => dialog(page, "A new tenant").waitFor());
    await page.getByLabel("Name").fill("a b");
    await page.getByRole("button", { name: "Create" }).click();
    await dialog(page, "A new tenant").getByRole("alert").waitFor(); // the server's words, and what was typed stays
    assert.equal(await page.getByLabel("Name").inputValue(), "a b");
    await isAccessible(page, "a refusal in a dialog");
    await page.getByLabel("Name").fill("made");
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "Tenant made" }).waitFor();
    assert.deepEqual([shown(page).of, shown(page).form], ["made", undefined]);
    assert.equal((await governed(page, "/api/tenants/made")).state, "active");

    await page.getByRole("button", { name: "Suspend" }).click();
    await again(page, () => dialog(page, "Suspend made?").waitFor());
    assert.equal((await governed(page, "/api/tenants/made")).state, "active"); // an address changes nothing
    await page.keyboard.press("Escape");
    await until("the dialog is in the address", () => shown(page).form === undefined);
    await page.getByRole("button", { name: "Suspend" }).click();
    await dialog(page, "Suspend made?").getByRole("button", { name: "Suspend" }).click();
    await page.getByRole("button", { name: "Resume" }).click();
    assert.equal((await governed(page, "/api/tenants/made")).state, "suspended");
    await dialog(page, "Resume made?").getByRole("button", { name: "Resume" }).click();
    await page.getByRole("button", { name: "Suspend" }).waitFor();
    assert.equal((await governed(page, "/api/tenants/made")).state, "active");

    await page.getByRole("button", { name: "Delete" }).click();
    await again(page, () => dialog(page, "Delete made?").waitFor());
    const really = dialog(page, "Delete made?").getByRole("button", { name: "Delete for good" });
    assert.ok(await really.isDisabled()); // until its name was typed
    await page.getByLabel("Its name").fill("mad");
    assert.ok(await really.isDisabled());
    await page.getByLabel("Its name").fill("made");
    await isAccessible(page, "a deletion");
    await really.click();
    await page.getByRole("region", { name: "Deletion" }).getByText(/0 keys shredded, 0 tokens revoked/).waitFor();
    assert.match((await governed(page, "/api/tenants/made")).state, /^delet(ing|ed)$/); // it has no profiles, so it is soon over
    assert.equal(await page.getByRole("button", { name: "Suspend" }).count(), 0);
    assert.equal(await page.getByRole("region", { name: "Limits" }).count(), 0);

    await page.goto(at("/tenants", { of: "nobody" }));
    await page.getByRole("heading", { name: "There is no tenant nobody that you govern" }).waitFor();
    await page.route("**/api/tenants", (route) =>
      route.fulfill({ json: { tenants: [{ id: "going", state: "deleting", createdMs: 1, createdBy: "x", changedMs: 1 }] } }),
    );
    await page.goto(at("/tenants"));
    await row(page, /^going deleting/).waitFor();
    page.refused = undefined; // the refusal, and limits of nobody
  },

  /* Each value with its source; what is set here goes before the settings, and an empty field is none. */
  async limits(page) {
    await come(page, TOKENS.admin, "/tenants", { of: "shop", form: "limits", q: "query_length" });
    const field = page.getByLabel("max_query_length", { exact: true });
    const source = async () => {
      const { value, source: from, meaning } = (await governed(page, "/api/tenants/shop/limits")).max_query_length;
      assert.match(meaning, /time range of a query/);
      return { value, source: from };
    };
    const before = await source();
    assert.equal(before.source, "settings");
    assert.equal(await field.getAttribute("placeholder"), before.value);
    assert.ok(await page.getByRole("button", { name: "Save" }).isDisabled());
    await field.fill("nonsense");
    await page.getByText("1 changed").waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").getByText(/max_query_length/).first().waitFor();
    assert.deepEqual(await source(), before);
    await field.fill("31d");
    await picture(page, "limits");
    await isAccessible(page, "limits");
    await page.getByRole("button", { name: "Save" }).click();
    await row(page, /^max_query_length 31d – set here/).waitFor();
    assert.deepEqual(await source(), { value: "31d", source: "registry" });
    assert.equal(shown(page).form, undefined);
    await page.getByRole("button", { name: "Change limits" }).click();
    assert.equal(await field.inputValue(), "31d");
    await field.fill("");
    await page.keyboard.press("Enter");
    await row(page, /^max_query_length .* settings/).waitFor();
    assert.deepEqual(await source(), before);
    page.refused = 1;
  },

  /* A token is shown once, with lines that use it; then rotated and revoked. */
  async tokens(page) {
    const began = Date.now();
    await come(page, TOKENS.admin, "/tokens", { of: "shop" });
    await row(page, /^viewer/).waitFor();
    await picture(page, "tokens");
    await isAccessible(page, "tokens");
    await page.getByRole("button", { name: "New token" }).click();
    const form = dialog(page, "A new token");
    await form.getByLabel("Name").fill("agents");
    assert.ok(await form.getByLabel("shop", { exact: true }).isChecked()); // the tenant that the page is about
    await form.getByLabel("push", { exact: false }).first().uncheck();
    await form.getByText("Pick a scope.").waitFor();
    assert.ok(await form.getByRole("button", { name: "Create" }).isDisabled());
    await form.getByLabel("push", { exact: false }).first().check();
    await form.getByLabel("It ends").selectOption("90d");
    await isAccessible(page, "a new token");
    await picture(page, "new token");
    await form.getByRole("button", { name: "Create" }).click();
    const secret = dialog(page, "Token agents");
    const text = await secret.getByLabel("Token", { exact: true }).textContent();
    assert.match(text, /^fgt_/);
    await secret.getByRole("tab", { name: "Java" }).click();
    assert.ok((await secret.getByRole("tabpanel").textContent()).includes(`PYROSCOPE_BASIC_AUTH_PASSWORD=${text}`));
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await secret.getByRole("button", { name: "Copy the token" }).click();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), text);
    await isAccessible(page, "the text of a token");
    await picture(page, "token");
    assert.ok(!page.url().includes(text));
    const said = await page.request.post(`${url}/ingest?name=sent.cpu`, { data: "main;work 3\n", headers: { Authorization: `Bearer ${text}` } });
    assert.equal(said.status(), 200, "the token does not push");
    await secret.getByRole("button", { name: "I have it" }).click();
    await page.reload();
    await row(page, /^agents/).waitFor();
    assert.ok(!(await page.content()).includes(text), "the token is shown again");
    const lastUse = async (name) => (await row(page, name).getByRole("cell").nth(3).textContent()).trim();
    const hour = (ms) => new Date(Math.floor(ms / HOUR_MS) * HOUR_MS).toISOString().slice(0, 14);
    const used = await row(page, /^agents/).getByRole("cell").nth(3).locator("time").getAttribute("datetime");
    assert.ok([hour(began), hour(Date.now())].includes(used.slice(0, 14)), used);
    assert.ok(used.endsWith(":00:00.000Z"), used);
    assert.equal((await api(page, TOKENS.admin, "POST", "/api/tokens", { name: "idle", tenants: ["shop"], scopes: ["push"] })).status, 200);
    await page.reload();
    await row(page, /^idle/).waitFor();
    assert.equal(await lastUse(/^idle/), "never");
    await page.getByLabel("Last used").selectOption("30");
    await page.getByText("No token is like that.").waitFor(); // all are young
    assert.equal(shown(page).idle, "30");
    await again(page, () => page.getByText("No token is like that.").waitFor());
    await page.getByLabel("Last used").selectOption("");
    const made = (await governed(page, "/api/tokens?tenant=shop")).tokens.find((one) => one.name === "agents");
    assert.deepEqual([made.scopes, made.tenants], [["push"], ["shop"]]);
    assert.ok(Math.abs(made.expiresMs - made.createdMs - 90 * DAY_MS) < DAY_MS);

    await page.getByRole("button", { name: "Rotate agents" }).click();
    await again(page, () => dialog(page, "Rotate agents").waitFor());
    await page.getByLabel("The old secret ends").selectOption("0s");
    await page.getByRole("button", { name: "Make a new secret" }).click();
    const other = await dialog(page, "Token agents").getByLabel("Token", { exact: true }).textContent();
    assert.notEqual(other, text);
    await until("the old secret is valid", async () => (await api(page, text, "GET", "/api/whoami")).status === 401);
    assert.equal((await api(page, other, "GET", "/api/whoami")).status, 200);
    await page.keyboard.press("Escape");

    await page.getByRole("button", { name: "Revoke agents" }).click();
    await dialog(page, "Revoke agents?").getByRole("button", { name: "Revoke" }).click();
    await row(page, /^agents/).waitFor({ state: "detached" });
    await until("the token is valid", async () => (await api(page, other, "GET", "/api/whoami")).status === 401);
    await page.getByLabel("also expired and revoked ones").check();
    assert.equal(shown(page).show, "all");
    await again(page, () => row(page, /^agents .* revoked/).waitFor());
  },

  /* A node agent's token: a label says the tenant. What is wrong is said before, or by the server; then it is shown. */
  async "tenant by label"(page) {
    await come(page, TOKENS.admin, "/tokens", { form: "create" });
    const form = dialog(page, "A new token");
    await form.getByLabel("Name", { exact: true }).fill("nodes");
    await form.getByLabel("shop", { exact: true }).check();
    await form.getByLabel("lab", { exact: true }).check();
    await form.getByText("A tenant by label").click();
    const create = form.getByRole("button", { name: "Create" });
    await form.getByLabel("Prefix").fill("team-");
    await form.getByText("Name the label that says the tenant.").waitFor();
    assert.ok(await create.isDisabled());
    await form.getByLabel("Prefix").fill("");
    await form.getByLabel("Label", { exact: true }).fill("namespace");
    await form.getByLabel("Tenants of values").fill("kube-system");
    await form.getByText("Tenants of values are VALUE=TENANT, separated by commas.").waitFor();
    await form.getByLabel("Tenants of values").fill("kube-system=nobody, x=lab");
    await create.click();
    await form.getByRole("alert").getByText(/"nobody" is no tenant of the token/).first().waitFor(); // the server's words
    await form.getByLabel("Tenants of values").fill("kube-system=lab");
    await form.getByLabel("Series without such a tenant").selectOption("shop");
    await isAccessible(page, "a tenant by label");
    await picture(page, "tenant by label");
    await create.click();
    const text = await dialog(page, "Token nodes").getByLabel("Token", { exact: true }).textContent();
    await page.keyboard.press("Escape");
    await row(page, /^nodes .* by the label namespace: kube-system is lab, others go to shop/).waitFor();
    const made = (await governed(page, "/api/tokens")).tokens.find((one) => one.name === "nodes");
    assert.deepEqual(made.tenantLabel, { name: "namespace", tenants: [{ value: "kube-system", tenant: "lab" }], otherwise: "shop" });
    const headers = { Authorization: `Bearer ${text}`, "X-Scope-OrgID": "shop" };
    const sent = await page.request.post(`${url}/ingest?name=kubelet.cpu%7Bnamespace%3Dkube-system%7D`, { data: "main;work 3\n", headers });
    assert.equal(sent.status(), 200, await sent.text());
    const reader = (await api(page, TOKENS.admin, "POST", "/api/tokens", { name: "reader", tenants: ["lab"], scopes: ["read"] })).body.token;
    await until("it is not in the tenant of its label", async () =>
      JSON.stringify((await api(page, reader, "GET", "/api/labels/service_name?from=now-1h&until=now")).body).includes("kubelet"));
    /* A token of all tenants, or one that sends nothing, has no such label. */
    await page.goto(at("/tokens", { form: "create" }));
    await form.getByLabel("all, also those that are made later").check();
    await form.getByText("A tenant by label").waitFor({ state: "detached" });
    page.refused = undefined;
  },

  /* The first token reads no profiles: the page says so, and leads to one that does. */
  async "first token"(page) {
    await come(page, TOKENS.admin, "/");
    const said = page.getByRole("region", { name: "No right to read" });
    await said.getByText(/and may: tenant-admin, admin\. That does not include looking at profiles/).waitFor();
    await picture(page, "first token");
    await isAccessible(page, "first token");
    for (const route of ["/labels", "/usage", "/status", "/diff"]) {
      await page.goto(at(route));
      await said.waitFor();
      assert.equal(await page.getByRole("alert").count(), 0, route);
    }
    await said.getByRole("link", { name: "Make a token that reads" }).click();
    const form = dialog(page, "A new token");
    await form.waitFor();
    assert.equal(shown(page).form, "reader");
    assert.ok(await form.getByLabel("read", { exact: false }).first().isChecked());
    assert.ok(!(await form.getByLabel("push", { exact: false }).first().isChecked()));
    await form.getByLabel("Name", { exact: true }).fill("me");
    await form.getByLabel("shop", { exact: true }).check();
    await form.getByRole("button", { name: "Create" }).click();
    await dialog(page, "Token me").getByRole("button", { name: "Log in here with it" }).click();
    await page.getByRole("button", { name: /^Logged in as .*\(me\)/ }).waitFor();
    await said.waitFor({ state: "detached" });
    assert.equal(await page.getByRole("alert").count(), 0);
    assert.equal(new URL(page.url()).pathname, "/");
    /* Who may only send is told whom to ask. */
    const pushes = (await api(page, TOKENS.admin, "POST", "/api/tokens", { name: "sender", tenants: ["shop"], scopes: ["push"] })).body.token;
    await page.evaluate((text) => sessionStorage.setItem("flamegrid.token", text), pushes);
    await page.addInitScript((text) => sessionStorage.setItem("flamegrid.token", text), pushes);
    await page.goto(at("/"));
    await said.getByText("Ask whoever gave you access for a token with the scope read.").waitFor();
    assert.equal(await said.getByRole("link").count(), 0);
    page.refused = undefined; // what was asked for before the page knew who it is
  },

  /* Settings in force, for admins: what differs first, the rest by a switch, all searchable, all in the address. */
  async settings(page) {
    const { settings } = await governed(page, "/api/settings");
    await come(page, TOKENS.admin, "/status");
    const card = page.getByRole("region", { name: "Settings", exact: true });
    const names = async () => card.locator("tbody tr td:first-child").allTextContents();
    await row(page, /^access\.mode token auto/).waitFor();
    assert.deepEqual(await names(), settings.filter((one) => one.differs).map((one) => one.name));
    await picture(page, "settings");
    await isAccessible(page, "settings");
    await card.getByLabel("also those at their default").check();
    assert.equal(shown(page).show, "all");
    await again(page, async () => {
      await row(page, /^limits\.max_query_length/).waitFor();
      assert.deepEqual(await names(), settings.map((one) => one.name));
    });
    await card.getByLabel("Search settings").fill("audit FLUSH");
    await row(page, /^limits\.max_query_length/).waitFor({ state: "detached" });
    assert.ok((await names()).includes("audit.flush"));
    await until("the search is in the address", () => shown(page).q === "audit FLUSH");
    await card.getByLabel("Search settings").fill("no such words");
    await card.getByText("No setting is like that.").waitFor();
    await page.addInitScript((text) => sessionStorage.setItem("flamegrid.token", text), TOKENS.viewer);
    await page.goto(at("/status", { tenant: "shop" }));
    await page.getByRole("heading", { name: "Tenant shop" }).waitFor();
    assert.equal(await card.count(), 0); // nor was it asked for
    page.refused = undefined; // the admin's token reads no status
  },

  /* Roles by claims, and the end of sessions. */
  async people(page) {
    await come(page, TOKENS.admin, "/people");
    await page.getByText("There is no binding that you govern.").waitFor();
    await page.getByRole("button", { name: "New binding" }).click();
    await again(page, () => dialog(page, "A new binding").waitFor());
    await page.getByLabel("Issuer").fill("https://nobody.example");
    await page.getByLabel("Value").fill("developers");
    await page.getByRole("textbox", { name: "Tenants" }).fill("shop");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("alert").waitFor(); // no such issuer in the settings
    await page.getByLabel("Issuer").fill("https://login.example");
    await page.getByRole("combobox", { name: "Role" }).selectOption("editor");
    await page.getByRole("button", { name: "Create" }).click();
    await row(page, /^developers groups editor shop/).waitFor();
    await picture(page, "people");
    await isAccessible(page, "people");
    await page.getByRole("button", { name: "End sessions" }).click();
    await page.getByLabel("Subject").fill("u-17");
    await isAccessible(page, "the end of sessions");
    await page.getByRole("button", { name: "End all of them" }).click();
    await page.getByText("All sessions of u-17 have ended").waitFor();
    await page.getByRole("button", { name: "Remove developers as editor in shop" }).click();
    await again(page, () => dialog(page, "Remove this binding?").waitFor());
    await page.getByRole("button", { name: "Remove", exact: true }).click();
    await page.getByText("There is no binding that you govern.").waitFor();
    assert.deepEqual((await governed(page, "/api/bindings")).bindings, []);
    page.refused = 1;
  },

  /* Who did what, filtered; all of it as a file. */
  async audit(page) {
    assert.equal((await api(page, TOKENS.admin, "POST", "/api/tenants", { id: "audited" })).status, 200);
    const audit = async () => (await governed(page, "/api/audit?kind=admin&tenant=audited&from=now-1h&to=now")).records;
    await until("the audit does not have it", async () => (await audit()).length > 0);
    await come(page, TOKENS.admin, "/audit", { of: "audited", record: "admin" });
    await row(page, /POST \/api\/tenants/).first().waitFor();
    const rows = await page.getByRole("table").getByRole("row").count();
    assert.equal(rows - 1, (await audit()).length);
    await picture(page, "audit");
    await isAccessible(page, "audit");
    await page.getByLabel("Who (token, subject or name)").fill("nobody");
    await page.getByText("Nothing of that kind in this time range.").waitFor();
    assert.equal(shown(page).who, "nobody");
    await page.getByLabel("Who (token, subject or name)").fill("");
    await row(page, /POST \/api\/tenants/).first().waitFor();
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Save as JSON lines" }).click();
    const lines = fs.readFileSync(await (await download).path(), "utf8").trimEnd().split("\n").map(JSON.parse);
    assert.deepEqual(lines.map((one) => one.tenant), (await audit()).map(() => "audited"));
  },

  /* What the server says, by day and by service; the file is the server's. */
  async usage(page) {
    const query = { headers: { Authorization: `Bearer ${TOKENS.viewer}`, "X-Scope-OrgID": "shop" } };
    const asked = async (more) => (await page.request.get(`${url}/api/usage?${new URLSearchParams(more)}`, query)).text();
    await until("nothing is counted for a day", async () => (await asked({ format: "csv" })).includes("shop,"));
    await come(page, TOKENS.viewer, "/usage", { tenant: "shop" });
    const last = JSON.parse(await asked({})).days.at(-1);
    const day = row(page, new RegExp(`^${last.day}`));
    await day.waitFor();
    assert.ok((await day.textContent()).includes(`${last.day}shop${last.profiles}`), await day.textContent());
    assert.ok((await day.textContent()).includes(last.preliminary ? "preliminary" : "final"));
    await picture(page, "usage");
    await isAccessible(page, "usage");
    await page.getByRole("button", { name: "By service" }).click();
    await again(page, () => row(page, /^demo/).waitFor());
    assert.equal(shown(page).rows, "service");
    const { days } = JSON.parse(await asked({ by: "service" }));
    const profiles = days.flatMap((one) => one.services).reduce((sum, one) => sum + (one.service === "demo" ? one.profiles : 0), 0);
    assert.equal(await row(page, /^demo/).getByRole("cell").first().textContent(), `${profiles}`);
    await isAccessible(page, "usage by service");
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "CSV" }).click();
    const file = await download;
    assert.match(file.suggestedFilename(), /^usage_.*_by_service\.csv$/);
    assert.match(fs.readFileSync(await file.path(), "utf8"), /^tenant,day,.*\r\n(.*\r\n)*shop,/);
    const hasDemo = (one) => one.services.some((each) => each.service === "demo");
    const month = days.findLast(hasDemo).day.slice(0, 7); // that of the last day may be the next one
    await page.getByLabel("Month").selectOption(month);
    assert.equal(shown(page).month, month);
    await again(page, () => page.getByText(`${month}-01 to ${month}-`).waitFor());
    await row(page, /^demo/).waitFor();
  },

  /* Only its own tenants, and nothing that it may not do. */
  async "tenant admin"(page) {
    await come(page, TOKENS.governor, "/tenants");
    await row(page, /^shop active/).waitFor();
    assert.equal(await row(page, /^lab/).count(), 0);
    assert.equal(await page.getByRole("button", { name: "New tenant" }).count(), 0);
    await page.getByRole("link", { name: "shop", exact: true }).click();
    await page.getByText("Whoever runs the server changes them.").waitFor();
    assert.equal(await page.getByRole("button", { name: /Suspend|Change limits/ }).count(), 0);
    await page.goto(at("/tenants", { of: "shop", form: "suspend" }));
    await page.getByRole("region", { name: "Limits" }).waitFor();
    assert.equal(await page.getByRole("dialog").count(), 0);
    await page.goto(at("/tokens", { form: "create" }));
    const form = dialog(page, "A new token");
    assert.equal(await form.getByLabel("scrape /metrics").count(), 0);
    await form.getByLabel("Name").fill("of shop");
    await form.getByLabel("shop", { exact: true }).check();
    await form.getByRole("button", { name: "Create" }).click();
    await dialog(page, "Token of shop").waitFor();
    await page.goto(at("/people"));
    await page.getByRole("button", { name: "New binding" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "End sessions" }).count(), 0);
    page.refused = undefined; // it may not read /api/status
  },

  /* Without such a scope there is no entry, and the address says what is missing. */
  async "no admin"(page) {
    await come(page, TOKENS.viewer, "/status", { tenant: "shop" });
    await page.getByRole("link", { name: "Usage" }).waitFor();
    await page.getByRole("button", { name: /^Logged in as/ }).waitFor();
    assert.equal(await page.getByRole("link", { name: "Admin" }).count(), 0);
    await page.goto(at("/tokens"));
    await page.getByText(/Administration needs the scope tenant-admin of a tenant, or admin/).waitFor();
    await page.getByRole("alert").waitFor();
    assert.equal(await page.getByRole("button", { name: "New token" }).count(), 0);
    await isAccessible(page, "tokens without a right");
    page.refused = undefined;
  },

  /* By keys alone: to the page, its dialog, and back. */
  async "admin by hand"(page) {
    await come(page, TOKENS.admin, "/");
    await page.getByRole("link", { name: "Admin" }).waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("m");
    await row(page, /^shop active/).waitFor();
    const reach = async (name) => {
      for (let step = 0; step < 60; step++) {
        await page.keyboard.press("Tab");
        if ((await page.evaluate(() => document.activeElement.textContent)).trim() === name) return;
      }
      assert.fail(`no way to ${name}`);
    };
    await reach("Tokens");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Tokens" }).waitFor();
    await reach("New token");
    await page.keyboard.press("Enter");
    const form = dialog(page, "A new token");
    await form.waitFor();
    await reach("Cancel");
    await page.keyboard.press("Enter");
    await form.waitFor({ state: "detached" });
    await page.getByRole("link", { name: "Audit" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Audit" }).waitFor();
    page.refused = undefined; // the first token reads no profiles
  },

  /* Light, and as small as a phone. */
  async "admin looks"(page) {
    await page.emulateMedia({ colorScheme: "light" });
    for (const [route, parameters] of [
      ["/tenants", {}],
      ["/tenants", { of: "shop" }],
      ["/tenants", { of: "shop", form: "limits" }],
      ["/tokens", { show: "all" }],
      ["/tokens", { form: "create" }],
      ["/people", {}],
      ["/people", { form: "create" }],
      ["/audit", {}],
      ["/usage", { tenant: "shop" }],
      ["/", {}], // of a token that reads nothing
      ["/status", { show: "all" }],
    ]) {
      await page.setViewportSize({ width: 1440, height: 900 });
      await come(page, route === "/usage" ? TOKENS.viewer : TOKENS.admin, route, parameters);
      await page.locator("main h1").first().waitFor();
      await page.waitForLoadState("networkidle");
      await isAccessible(page, `${route} in the light theme`);
      for (const width of [1024, 390, 320]) {
        await page.setViewportSize({ width, height: 800 });
        await isNarrow(page, `${route} ${JSON.stringify(parameters)}`);
      }
      await page.setViewportSize({ width: 390, height: 800 });
      await isAccessible(page, `${route} on a phone`);
      await picture(page, `phone-${route.slice(1)}-${parameters.form ?? parameters.of ?? "all"}`);
    }
    page.refused = undefined; // what was asked for before the page knew who it is
  },
  /* A person with a session of a provider that others wrote: a change brings the csrf value, and leaving ends both sessions. */
  async "a person"(page) {
    page.also = process.env.PROVIDER;
    await page.route("https://**", (route) => route.abort()); // fonts of the provider's pages
    const logIn = async (name) => {
      await page.goto(at("/tenants"));
      await page.waitForURL((to) => to.origin === process.env.PROVIDER);
      await page.locator("input[name=login]").fill(name);
      await page.locator("input[name=password]").fill("x");
      await page.locator("button[type=submit]").click();
      const agree = page.locator("button[type=submit]");
      await Promise.race([agree.waitFor(), page.waitForURL((to) => to.origin === url)]);
      if (new URL(page.url()).origin !== url) await agree.click();
      await page.waitForURL((to) => to.origin === url && to.pathname === "/tenants");
    };
    const leave = async () => {
      await page.getByRole("button", { name: /^Logged in as/ }).click();
      await page.getByRole("menuitem", { name: "Log out" }).click();
      await page.waitForURL((to) => to.origin === process.env.PROVIDER && to.pathname === "/session/end");
      await page.getByRole("button", { name: /^yes/i }).click();
    };
    await logIn("nobody");
    await page.goto(at("/"));
    await page.getByText("Ask whoever governs this server for a role that may query, such as viewer.").waitFor();
    await leave();
    await logIn("root");
    await page.getByRole("button", { name: "Logged in as root the tester" }).waitFor();
    let csrf = "";
    page.on("request", (asked) => {
      if (asked.method() === "POST" && asked.url().endsWith("/api/tenants")) csrf = asked.headers()["x-flamegrid-csrf"];
    });
    await page.getByRole("button", { name: "New tenant" }).click();
    await page.getByLabel("Name").fill("of-root");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("region", { name: "Tenant of-root" }).waitFor();
    assert.match(csrf, /^[0-9a-f]{32}$/);
    await leave();
    await logIn("root"); // the name is asked for again
    page.refused = undefined; // what was refused while nobody was logged in
  },
};

await run(cases);
