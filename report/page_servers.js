"use strict";
/* What a page of servers has in place of training: their table, their charts, and how stale gradients were. */

const SERVER_CHARTS = [
    {title: "Steps a second", unit: "of the fastest worker", curve: from("steps", "pace"), format: v => digits(v)},
    {title: "Gradients a second", unit: "of all workers; each bucket or slice counts", curve: from("steps", "gradients"), format: v => digits(v)},
    {title: "Workers", unit: "connected", curve: from("steps", "workers"), format: v => digits(v)},
    {title: "Mean staleness", unit: "server's steps since the worker's parameters", curve: from("steps", "staleness"), format: v => digits(v), log: 100},
    {title: "Received", unit: "MB a second", curve: from("steps", "in", 1e-6), format: v => digits(v) + " MB"},
    {title: "Sent", unit: "MB a second", curve: from("steps", "out", 1e-6), format: v => digits(v) + " MB"},
    {title: "Decoding and updating", unit: "% of the time", curve: from("steps", "busy", 100), format: v => digits(v) + " %"},
    {title: "Syncing the journal", unit: "% of the time", curve: from("steps", "sync", 100), format: v => digits(v) + " %", varying: true},
    {title: "Log of the journal", unit: "MB", curve: from("steps", "journal", 1e-6), format: v => digits(v) + " MB", varying: true},
];

function serversHeader() {
    const notes = data.notes || [];
    const title = data.title || (runs.length > 1 ? `${runs.length} parameter servers` : `Parameter server ${runs[0].label}`);
    document.title = title;
    return [el("h1", {}, title), el("p", {class: "about"}, "mode ", el("b", {}, common("mode")), ", optimizer ", el("b", {}, common("optimizer")),
        ", for up to ", el("b", {}, common("workers_most")), " workers."),
        notes.length ? el("ul", {class: "notes"}, ...notes.map(note => el("li", {}, note))) : null];
}

function serverTable() {
    const total = name => run => run.totals[name], rate = name => run => run.totals.seconds > 0 ? run.totals[name] / run.totals.seconds : null;
    const n = (head, unit, of, show) => ({head, unit, of, show, kind: "n"});
    const columns = [
        {head: "Server", of: run => run.label, show: label},
        ...differing.slice(0, 4).map(key => ({head: key, of: run => run.settings[key], kind: "spec", show: shown})),
        n("starts", "", run => run.totals.starts > 1 ? run.totals.starts : null, count),
        n("time", "it ran", total("seconds"), seconds),
        n("workers", "most", total("most_workers"), count),
        n("step", "last", total("step"), count),
        n("answers", "", total("answers"), count),
        n("gradients", "a second", rate("gradients"), v => digits(v)),
        n("staleness", "mean", total("mean_staleness"), v => digits(v)),
        n("late", "gradients", total("late"), count),
        n("unfit", "not applied", total("unfit"), count),
        n("received", "", total("bytes_in"), bytes),
        n("sent", "", total("bytes_out"), bytes),
        n("ratio", "up", total("up"), times),
        n("ratio", "down", total("down"), times),
        n("syncs", "", total("syncs"), count),
        n("sync", "mean", run => run.totals.syncs ? run.totals.sync_s / run.totals.syncs : null, seconds),
    ].filter(column => column.kind !== "n" || runs.some(run => isNumber(column.of(run)) && column.of(run) !== 0));
    return sortableTable(columns, runs, "Servers");
}

/* "0", "1", "2 to 3", "4 to 7", ... */
const binName = (i, lastBin) => i < 2 ? String(i) : i === lastBin ? `${count(2 ** (i - 1))} or more` : `${count(2 ** (i - 1))} to ${count(2 ** i - 1)}`;

function stalenessPart() {
    const some = runs.filter(run => run.totals.stale > 0);
    if (!some.length) return [];
    const lastBin = some[0].totals.staleness.length - 1;
    const used = Math.max(...some.map(run => run.totals.staleness.findLastIndex(n => n > 0)));
    const bins = [...Array(used + 1).keys()], most = Math.max(...some.flatMap(run => run.totals.staleness.map(n => n / run.totals.stale)));
    const columns = [
        {head: "Steps", unit: "since its parameters", of: i => i, show: i => binName(i, lastBin)},
        ...some.map(run => ({head: runs.length > 1 ? run.label : "Gradients", unit: "% of them", kind: "bars", of: i => run.totals.staleness[i] / run.totals.stale, show: v => {
            const bar = el("i", {});
            bar.style.width = 100 * v / most + "%";
            bar.style.background = "var(--exchange)";
            const percent = v > 0 && v < 5e-5 ? "< 0.01" : (100 * v).toFixed(2);
            return el("div", {class: "share"}, el("span", {class: "num"}, percent + " %"), el("div", {class: "track"}, bar));
        }})),
    ];
    const table = sortableTable(columns, bins, "Staleness");
    table.classList.add("stale");
    return [table];
}

/* What happened to workers and to the server, in order. */
function eventsPart() {
    const rows = runs.flatMap(run => run.events.map(event => ({run, event})));
    if (!rows.length) return [];
    const missing = runs.reduce((sum, run) => sum + run.event_count - run.events.length, 0);
    const field = name => row => row.event[name];
    const columns = [
        {head: "Time", unit: "since the first start", of: field("seconds"), show: seconds},
        ...runs.length > 1 ? [{head: "server", of: row => row.run.label, show: (_, row) => label(row.run.label, row.run)}] : [],
        {head: "event", of: field("event")},
        {head: "worker", kind: "n", of: field("worker"), show: v => isNumber(v) ? String(v) : "\u2013"},
        {head: "name", of: row => row.event.name || row.event.key || row.event.host, kind: "spec"},
        {head: "step", kind: "n", of: field("step"), show: count},
        {head: "steps", unit: "late or unfit", kind: "n", of: field("steps"), show: v => isNumber(v) ? count(v) : ""},
        {head: "why", of: row => row.event.reason || (isNumber(row.event.steps) ? row.event.text : null), show: v => v || ""},
    ].filter(column => column.head !== "steps" || rows.some(row => isNumber(row.event.steps)));
    const table = sortableTable(columns, rows, "Events");
    table.classList.add("events");
    return [missing ? el("p", {class: "about"}, `The last ${count(rows.length)} of ${count(rows.length + missing)} events.`) : null, table];
}
