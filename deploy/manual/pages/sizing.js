/*
 * How many machines a load takes. The figures are those of tests/bench/README.md, measured with real Go profiles of 19 kB;
 * sizing.md says which. Also a module for tests.
 */
"use strict";

const SIZING = {
    distributorMs: 0.27, // processor time of a profile, with three replicas
    ingesterMs: 0.09, // of a profile, on each of its owners
    singleMs: 0.3,
    compactorMs: 0.19,
    headroom: 2, // processors are half idle on average, for peaks, queries and restarts
    headBytes: 1500, // of a profile in the head, on each of its owners
    bucketBytes: 450, // of a profile in blocks of a day
    headLogBytes: 256 * 1024 * 1024,
    segmentRequests: 12, // an hour, of each ingester: a segment and a manifest each ten minutes
    tenantRequests: 2, // an hour, of the compactor for each tenant: a block and a manifest
    // Profiles a second for one ingester (or a single server) of each size of the chart.
    sizes: [
        { name: "small", rate: 500 },
        { name: "medium", rate: 2500 },
        { name: "large", rate: 8000 },
    ],
    hoursOfMonth: 730,
};

/*
 * load: instances, types (profiles of one upload), intervalSeconds, retentionDays, outageHours (the bucket is away that long and nothing
 * is lost), tenants, single (true: one server), storageUsd (a GB and month), writeUsd (1,000 requests).
 */
function sizeLoad(load) {
    const rate = (load.instances * load.types) / load.intervalSeconds;
    const cores = (ms) => (rate * ms * SIZING.headroom) / 1000;
    const replicas = load.single ? 1 : 3;
    const largest = SIZING.sizes[SIZING.sizes.length - 1];
    const ingesters = load.single ? 1 : Math.max(3, Math.ceil((rate * replicas) / largest.rate));
    const rateOfOne = (rate * replicas) / ingesters;
    const size = SIZING.sizes.find((each) => rateOfOne <= each.rate);
    const headBytes = rateOfOne * 3600 * load.outageHours * SIZING.headBytes + SIZING.headLogBytes;
    const bucketBytes = rate * 86400 * load.retentionDays * SIZING.bucketBytes;
    const writes = SIZING.hoursOfMonth * (ingesters * SIZING.segmentRequests + load.tenants * SIZING.tenantRequests);
    return {
        rate,
        // A single server that would need more than the largest size has to be a cluster.
        size: size ? size.name : null,
        ingesters,
        distributorCores: load.single ? 0 : cores(SIZING.distributorMs),
        ingesterCores: load.single ? cores(SIZING.singleMs) : cores(SIZING.ingesterMs) * replicas,
        compactorCores: cores(SIZING.compactorMs),
        headBytes,
        bucketBytes,
        writesPerMonth: writes,
        bucketUsdPerMonth: (bucketBytes / 1e9) * load.storageUsd + (writes / 1000) * load.writeUsd,
    };
}

const FIELDS = ["instances", "types", "intervalSeconds", "retentionDays", "outageHours", "tenants", "storageUsd", "writeUsd"];

function bytesText(bytes) {
    const units = ["B", "kB", "MB", "GB", "TB", "PB"];
    const step = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(bytes, 1)) / 3));
    return (bytes / 1000 ** step).toPrecision(3) + " " + units[step];
}

function answerRows(load) {
    const sizes = sizeLoad(load);
    if (sizes.size === null) {
        return [["One server is not enough", "use a cluster"]];
    }
    const cores = (value) => value.toFixed(1) + " processors";
    const rows = [["Profiles a second", sizes.rate.toFixed(0)]];
    if (load.single) {
        rows.push(["Server", "size " + sizes.size + ", " + cores(sizes.ingesterCores + sizes.compactorCores)]);
    } else {
        rows.push(["Ingesters", sizes.ingesters + " of size " + sizes.size + ", together " + cores(sizes.ingesterCores)]);
        rows.push(["Distributors", "together " + cores(sizes.distributorCores) + ", at least 2 pods"]);
        rows.push(["Compactor", cores(sizes.compactorCores)]);
    }
    rows.push(["Disk of each head", bytesText(sizes.headBytes)]);
    rows.push(["Bucket at the end of the retention", bytesText(sizes.bucketBytes)]);
    rows.push(["Write requests a month", sizes.writesPerMonth.toLocaleString("en")]);
    rows.push(["Bucket, a month at the end of the retention", "$" + sizes.bucketUsdPerMonth.toFixed(2)]);
    return rows;
}

function showAnswer(form, table) {
    const load = { single: form.elements.single.checked };
    for (const field of FIELDS) {
        const value = Number(form.elements[field].value);
        if (!Number.isFinite(value) || value < 0 || (field === "intervalSeconds" && value === 0)) {
            table.replaceChildren();
            return;
        }
        load[field] = value;
    }
    table.replaceChildren(
        ...answerRows(load).map((cells) => {
            const row = document.createElement("tr");
            row.append(
                ...cells.map((text) => {
                    const cell = document.createElement("td");
                    cell.textContent = text;
                    return cell;
                }),
            );
            return row;
        }),
    );
}

if (typeof document !== "undefined") {
    const form = document.getElementById("sizing-load");
    const table = document.getElementById("sizing-answer");
    form.addEventListener("input", () => showAnswer(form, table));
    showAnswer(form, table);
} else {
    module.exports = { SIZING, sizeLoad, answerRows };
}
