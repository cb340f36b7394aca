"use strict";
/* What the page is about: numbers and elements; the runs, what tells them apart, and their colours; what curves are drawn over. */

const data = JSON.parse(document.getElementById("records").textContent);
const root = document.getElementById("report");

function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
        if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
        else if (value === true) node.setAttribute(name, "");
        else if (value !== false && value != null) node.setAttribute(name, value);
    }
    node.append(...children.filter(child => child != null));
    return node;
}

const isNumber = v => typeof v === "number" && isFinite(v);
const last = list => list[list.length - 1];
const unique = list => [...new Set(list)];
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/* Three significant digits, without exponents where a person would write none. */
function digits(v, n = 3) {
    if (!isNumber(v)) return "\u2013";
    if (v === 0) return "0";
    const size = Math.abs(v);
    if (size >= 1e6 || size < 1e-4) return v.toExponential(n - 1).replace("e+", "e");
    if (size >= 1e3) return Math.round(v).toLocaleString("en-US");
    return String(+v.toPrecision(n));
}
const count = v => isNumber(v) ? Math.round(v).toLocaleString("en-US") : "\u2013";
const fixed = n => v => isNumber(v) && Math.abs(v) < 1e6 ? v.toFixed(n) : digits(v);
const plain = v => v.toLocaleString("en-US", {maximumSignificantDigits: 6});
const times = v => isNumber(v) ? digits(v) + "\u00d7" : "\u2013";
function bytes(v) {
    if (!isNumber(v)) return "\u2013";
    const units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let u = 0;
    for (; Math.abs(v) >= 999.5 && u < units.length - 1; u++) v /= 1000;
    return digits(v) + " " + units[u];
}
function seconds(v) {
    if (!isNumber(v)) return "\u2013";
    if (v < 0.9995) return digits(v * 1000) + " ms";
    if (v < 120) return digits(v) + " s";
    const s = Math.round(v), two = n => String(n).padStart(2, "0");
    const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
    return h ? `${h}:${two(m)}:${two(s % 60)} h` : `${m}:${two(s % 60)} min`;
}

/* What does not make a run another one: where files lie, when and on what it ran. */
const INCIDENTAL = new Set(["listen", "recovered", "recovered_step", "journal", "out", "save", "save_every", "resume", "first_step", "first_epoch", "joined_step", "time", "trace", "dump_gradients",
    "dump_every", "data_origin", "data_hash", "log_every", "host_threads", "version", "cpu", "workers", "tau_ms", "timeout"]);
const ORDER = ["method", "rules", "strategy", "link", "links_of", "model", "data", "world", "nodes", "batch", "accumulate",
    "epochs", "steps", "optimizer", "lr_schedule", "lr_scale", "precision", "overlap", "fusion", "shard", "clock", "tau", "slow", "jitter"];

function shown(value) {
    if (value == null || (Array.isArray(value) && !value.length)) return "none";
    if (value === true) return "yes";
    if (value === false) return "no";
    if (Array.isArray(value)) return value.map(shown).join("; ");
    if (typeof value === "object") return JSON.stringify(value);
    return isNumber(value) && Math.abs(value) >= 1e4 ? count(value) : String(value);
}

/* Ranks that compute in a step: of FedAvg those that are drawn for its round; NaN where a deadline makes them stop at will. */
function computing(settings) {
    const ranks = settings.world || 1, strategy = String(settings.strategy);
    const value = key => Number((strategy.match(new RegExp(`[:,]${key}=([^,]*)`)) || [0, NaN])[1]);
    if (!strategy.startsWith("fedavg:")) return ranks;
    return value("deadline") > 0 ? NaN : value("clients") < 1 ? Math.max(1, Math.floor(value("clients") * ranks + .5)) : ranks;
}

const runs = data.runs;
const names = runs.map(run => run.name);
for (const run of runs) {
    const s = run.settings, end = run.end || {};
    run.label = names.filter(name => name === run.name).length > 1 ? `${run.name} (${run.file})` : run.name;
    run.tokens = s.context > 0;
    run.perStep = (s.batch || 1) * computing(s) * (s.accumulate || 1) * (s.context || 1);
    run.skippedSteps = end.skipped_nonfinite || 0;
    run.on = true;
}

const keys = unique(runs.flatMap(run => Object.keys(run.settings)));
const varies = key => unique(runs.map(run => shown(run.settings[key]))).length > 1;
const rank = key => ORDER.includes(key) ? ORDER.indexOf(key) : key === "seed" ? 999 : 100;
const differing = keys.filter(key => !INCIDENTAL.has(key) && varies(key)).sort((a, b) => rank(a) - rank(b));

/* "name:key=value,key=[..]" as [name, [parts]]. */
function parseSpec(text) {
    const parts = [];
    let depth = 0, part = "";
    const colon = text.indexOf(":"), name = colon < 0 ? text : text.slice(0, colon);
    for (const c of colon < 0 ? "" : text.slice(colon + 1)) {
        depth += c === "[" ? 1 : c === "]" ? -1 : 0;
        if (c === "," && depth === 0) {
            parts.push(part);
            part = "";
        } else part += c;
    }
    return [name, part ? [...parts, part] : parts];
}

/* Of a spec string its name, and what it has beside others of that name. */
function telling(key) {
    const specs = runs.map(run => run.settings[key]).filter(v => typeof v === "string").map(parseSpec);
    return value => {
        if (typeof value !== "string") return shown(value);
        const [name, parts] = parseSpec(value);
        const others = specs.filter(spec => spec[0] === name);
        const own = parts.filter(part => !others.every(other => other[1].includes(part)));
        return own.length ? `${name}:${own.join(",")}` : name;
    };
}

/* Runs that differ in their seed alone are one group, and have one colour. */
const groups = new Map();
for (const run of runs) {
    const id = JSON.stringify(differing.filter(key => key !== "seed").map(key => shown(run.settings[key])));
    if (!groups.has(id)) groups.set(id, {runs: [], number: groups.size});
    groups.get(id).runs.push(run);
    run.group = groups.get(id);
}
function commonName(list) {
    if (list.length === 1) return list[0].label;
    let name = list[0].name;
    while (name && !list.every(run => run.name.startsWith(name))) name = name.slice(0, -1);
    name = name.replace(/[\s_-]*(seed|s)?[\s_-]*$/i, "") || list[0].name;
    const seeds = unique(list.map(run => shown(run.settings.seed))).length;
    return `${name} (${list.length} ${seeds === list.length ? "seeds" : "runs"})`;
}
for (const group of groups.values()) group.label = commonName(group.runs);

const LIGHT = ["#1f66b0", "#c8501e", "#2c8a57", "#8a4fb0", "#b3871a", "#c23b72", "#3f8f9e", "#6b5a48", "#5a6acf", "#7c8a1c"];
const DARK = ["#6cb0f5", "#f08a54", "#62c48d", "#c08ce6", "#e0b84a", "#f07fab", "#6fc5d4", "#bba48d", "#98a5ff", "#b9c85a"];
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];
const isDark = () => !document.documentElement.hasAttribute("data-print") && matchMedia("(prefers-color-scheme: dark)").matches;
const colour = group => (isDark() ? DARK : LIGHT)[group.number % LIGHT.length];
const dash = group => DASHES[Math.floor(group.number / LIGHT.length) % DASHES.length];

/* A line in the group's colour. Drawn anew with the theme. */
const keySwatches = [];
function swatch(group) {
    const ns = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(ns, "svg"), line = document.createElementNS(ns, "line");
    for (const [name, value] of [["width", 18], ["height", 8], ["class", "key"], ["aria-hidden", "true"]]) svg.setAttribute(name, value);
    for (const [name, value] of [["x1", 0], ["x2", 18], ["y1", 4], ["y2", 4], ["stroke-width", 3]]) line.setAttribute(name, value);
    line.setAttribute("stroke-dasharray", dash(group).join(" "));
    keySwatches.push(() => line.setAttribute("stroke", colour(group)));
    last(keySwatches)();
    svg.append(line);
    return svg;
}

const allTokens = runs.every(run => run.tokens);
const isSimulated = run => run.settings.clock === "virtual";
const clocks = runs.every(isSimulated) ? "simulated" : runs.some(isSimulated) ? "real and simulated" : "";
const X = data.servers ? {seconds: {label: "time", format: seconds, of: (run, at) => at}} : {
    steps: {label: "steps", format: count, of: (run, step) => step},
    samples: {label: allTokens ? "tokens" : "samples", format: v => digits(v), of: (run, step) => step * run.perStep},
    seconds: {label: clocks ? `time (${clocks})` : "time", format: seconds, of: (run, step) => between(run.marks, 1, step)},
    bytes: {label: "bytes sent", format: bytes, of: (run, step) => between(run.marks, 2, step)},
};
let xKind = Object.keys(X)[0], xLog = false;

/* The mark at `step`, or on the line between its neighbours. */
function between(marks, column, step) {
    const at = marks[0], v = marks[column];
    let low = 0, high = at.length - 1;
    if (high < 0 || step < at[0] || step > at[high]) return null;
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (at[middle] <= step) low = middle;
        else high = middle;
    }
    if (at[high] === step) return v[high];
    if (at[low] === step) return v[low];
    if (v[low] == null || v[high] == null) return null;
    return v[low] + (v[high] - v[low]) * (step - at[low]) / (at[high] - at[low]);
}

/* Whether runs' ends lie so far apart that a linear axis would show only the longest. */
function farApart(kind) {
    const ends = runs.map(run => X[kind].of(run, last(run.marks[0]))).filter(v => v > 0);
    return ends.length > 1 && Math.max(...ends) / Math.min(...ends) > 20;
}
