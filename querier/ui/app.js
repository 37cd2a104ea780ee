// The page: what to query, and the result as a flame graph and as a table. The choices are in the
// URL, so that a link shows the same. Names and labels come from outside and reach the page as text only.
import { Flame, decode, top } from "./flame.js";

const TABLE_ROWS = 200;
const RANGES = { "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800 };
const id = (name) => document.getElementById(name);
const state = { services: new Map(), levels: [], unit: "", sort: "self", down: true, asked: 0 };

// --- the server ---

async function call(method, message) {
  const answer = await fetch(`querier.v1.QuerierService/${method}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Connect-Protocol-Version": "1" },
    body: JSON.stringify(message),
  });
  const body = await answer.json().catch(() => ({}));

  if (!answer.ok) throw new Error(body.message || `${answer.status} ${answer.statusText}`);
  return body;
}

function range() {
  const chosen = id("range").value;

  if (chosen === "custom")
    return { start: new Date(id("from").value).getTime() || 0, end: new Date(id("until").value).getTime() || 0 };
  const end = Date.now();
  return { start: end - RANGES[chosen] * 1000, end };
}

// A selector as the server reads it; the service is quoted, the rest is the user's own text.
function selector() {
  const parts = [`service_name=${JSON.stringify(id("service").value)}`];
  const filter = id("filter").value.trim().replace(/^\{|\}$/g, "").trim();

  if (filter !== "") parts.push(filter);
  return `{${parts.join(", ")}}`;
}

// --- numbers ---

function scaled(value, steps) {
  let unit = steps[0];

  for (const step of steps) if (Math.abs(value) >= step[0]) unit = step;
  const number = value / unit[0];
  return `${number.toLocaleString(undefined, { maximumFractionDigits: Math.abs(number) < 100 ? 2 : 0 })}${unit[1]}`;
}

function format(value) {
  if (value === 0) return "0";
  if (state.unit === "nanoseconds")
    return scaled(value, [[1, " ns"], [1e3, " µs"], [1e6, " ms"], [1e9, " s"], [6e10, " min"], [3.6e12, " h"]]);
  if (state.unit === "bytes")
    return scaled(value, [[1, " B"], [1024, " KiB"], [1024 ** 2, " MiB"], [1024 ** 3, " GiB"], [1024 ** 4, " TiB"]]);
  return value.toLocaleString();
}

function share(value) {
  const total = state.levels[0]?.[0]?.total || 0;

  return total === 0 ? "0 %" : `${((100 * value) / total).toFixed(2)} %`;
}

const describe = (bar) =>
  `${bar.name}\ntotal ${format(bar.total)} (${share(bar.total)})\nself ${format(bar.self)} (${share(bar.self)})`;

const flame = new Flame(id("flame"), id("tip"), {
  describe,
  onRead: (bar) => { id("reading").textContent = describe(bar).replaceAll("\n", ", "); },
  onZoom: (zoomed) => { id("reset").disabled = !zoomed; },
});

// --- what there is to choose from ---

function fill(select, values, wanted) {
  select.replaceChildren(...values.map((value) => new Option(value, value)));
  if (values.includes(wanted)) select.value = wanted;
}

const favourite = (types) => types.find((type) => type.startsWith("process_cpu:cpu:")) || types[0];

function fillTypes(wanted) {
  const types = [...(state.services.get(id("service").value) || [])].sort();

  fill(id("type"), types, types.includes(wanted) ? wanted : favourite(types));
}

async function loadServices(service, type) {
  const answer = await call("Series", {
    ...range(), labelNames: ["service_name", "__profile_type__"], matchers: [],
  });

  state.services = new Map();
  for (const set of answer.labelsSet || []) {
    const labels = Object.fromEntries((set.labels || []).map((label) => [label.name, label.value]));
    const name = labels.service_name;

    if (!name || !labels.__profile_type__) continue;
    if (!state.services.has(name)) state.services.set(name, new Set());
    state.services.get(name).add(labels.__profile_type__);
  }
  fill(id("service"), [...state.services.keys()].sort(), service);
  fillTypes(type);
}

// --- the result ---

function showTop() {
  const rows = top(state.levels);
  const sign = state.down ? -1 : 1;
  const search = id("search").value.toLowerCase();

  rows.sort((a, b) => (state.sort === "name" ? a.name.localeCompare(b.name) * sign
                                             : (a[state.sort] - b[state.sort]) * sign || b.total - a.total));
  id("top").tBodies[0].replaceChildren(...rows.slice(0, TABLE_ROWS).map((row) => {
    const line = document.createElement("tr");

    for (const text of [row.name, format(row.self), format(row.total), share(row.total)])
      line.insertCell().textContent = text;
    line.className = search !== "" && row.name.toLowerCase().includes(search) ? "hit" : "";
    return line;
  }));
  id("more").hidden = rows.length <= TABLE_ROWS;
  id("more").textContent = `${TABLE_ROWS} of ${rows.length} functions`;
}

function showResult(graph) {
  state.levels = decode(graph);
  const total = state.levels[0]?.[0]?.total || 0;

  id("result").hidden = total === 0;
  say(total === 0 ? "Nothing was recorded for this choice." : "");
  if (total === 0) return;
  id("summary").textContent = `total ${format(total)}`;
  flame.show(state.levels);
  flame.find(id("search").value);
  showTop();
}

function showEmpty() {
  const url = location.origin + location.pathname.replace(/\/$/, "");

  id("how-curl").textContent =
    `printf 'main;work 30\\nmain;idle 10\\n' |\n` +
    `  curl --data-binary @- '${url}/ingest?name=demo&format=folded&from=now-10s&until=now'`;
  id("how-go").textContent =
    `// go get github.com/grafana/pyroscope-go\n` +
    `pyroscope.Start(pyroscope.Config{\n\tApplicationName: "my.service",\n\tServerAddress:   "${url}",\n})`;
  id("how-python").textContent =
    `# pip install pyroscope-io\nimport pyroscope\n` +
    `pyroscope.configure(application_name="my.service", server_address="${url}")`;
  id("empty").hidden = false;
  id("result").hidden = true;
}

// Nothing in this time is one thing, nothing ever another.
async function showNothing() {
  const stats = await call("GetProfileStats", {});
  const day = (ms) => new Date(Number(ms)).toLocaleString();

  id("result").hidden = true;
  if (!stats.dataIngested) {
    say("");
    showEmpty();
  } else {
    say(`Nothing was received in this time. There are profiles from ${day(stats.oldestProfileTime)} ` +
        `until ${day(stats.newestProfileTime)}.`);
  }
}

function say(text, bad = false) {
  id("status").textContent = text;
  id("status").className = bad ? "bad" : "";
}

async function show() {
  const ticket = ++state.asked; // a response that a later query has overtaken is dropped

  say("Loading…");
  id("empty").hidden = true;
  try {
    await loadServices(id("service").value || wanted("service"), id("type").value || wanted("type"));
    if (ticket !== state.asked) return;
    if (state.services.size === 0) {
      await showNothing();
      return;
    }
    keep();
    state.unit = id("type").value.split(":")[2] || "";
    const answer = await call("SelectMergeStacktraces", {
      profileTypeID: id("type").value, labelSelector: selector(), ...range(),
    });
    if (ticket === state.asked) showResult(answer.flamegraph || {});
  } catch (error) {
    if (ticket !== state.asked) return;
    id("result").hidden = true;
    say(error.message, true);
  }
}

// --- the URL ---

const FIELDS = ["service", "type", "range", "from", "until", "filter", "search"];
const wanted = (name) => new URLSearchParams(location.search).get(name) || "";

function keep() {
  const params = new URLSearchParams();

  for (const name of FIELDS)
    if (id(name).value !== "" && (id("range").value === "custom" || (name !== "from" && name !== "until")))
      params.set(name, id(name).value);
  history.replaceState(null, "", `?${params}`);
}

function restore() {
  for (const name of FIELDS) if (wanted(name) !== "") id(name).value = wanted(name);
  if (!id("range").value) id("range").value = "1h";
  id("custom").hidden = id("range").value !== "custom";
}

// --- what the user does ---

function local(ms) { // the form of <input type=datetime-local>
  const date = new Date(ms - new Date(ms).getTimezoneOffset() * 60000);

  return date.toISOString().slice(0, 19);
}

function chooseRange() {
  const custom = id("range").value === "custom";

  id("custom").hidden = !custom;
  if (custom && id("from").value === "") {
    id("from").value = local(Date.now() - 3600000);
    id("until").value = local(Date.now());
  }
  show();
}

function sortBy(button) {
  const cell = button.parentElement;

  state.down = state.sort === button.dataset.sort ? !state.down : button.dataset.sort !== "name";
  state.sort = button.dataset.sort;
  for (const other of cell.parentElement.children) other.setAttribute("aria-sort", "none");
  cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
  showTop();
}

id("query").addEventListener("submit", (event) => { event.preventDefault(); show(); });
id("service").addEventListener("change", () => { fillTypes(id("type").value); show(); });
id("type").addEventListener("change", show);
id("range").addEventListener("change", chooseRange);
id("reset").addEventListener("click", () => flame.zoom(null));
id("search").addEventListener("input", () => { keep(); flame.find(id("search").value); showTop(); });
for (const button of document.querySelectorAll("th button"))
  button.addEventListener("click", () => sortBy(button));

restore();
show();
