"use strict";
/* Tables that sort, and what is in them. */

/* columns: {head, unit, of: run => value, show: value => text, best: "most"|"least", among: rows => those that can be best, kind: "n"|"spec"} */
function sortableTable(columns, rows, caption) {
    const body = el("tbody", {});
    const order = {column: -1, up: true};
    const heads = columns.map((column, c) => el("th", {scope: "col", class: column.kind === "n" || column.kind === "bars" ? column.kind : null, "aria-sort": "none"},
        el("button", {type: "button", onclick: () => sort(c)}, column.head),
        column.unit ? el("div", {class: "unit"}, column.unit) : null));
    const rivals = columns.map(column => column.among ? column.among(rows) : rows);
    const bests = columns.map((column, c) => {
        const values = unique(rivals[c].map(column.of).filter(isNumber));
        return column.best && values.length > 1 ? Math[column.best === "most" ? "max" : "min"](...values) : null;
    });
    const cells = rows.map(row => {
        const line = columns.map((column, c) => {
            const value = column.of(row), content = column.show ? column.show(value, row) : shown(value);
            const best = column.best && isNumber(value) && value === bests[c] && rivals[c].includes(row);
            return el(c === 0 ? "th" : "td", {scope: c === 0 ? "row" : null, class: [column.kind, best ? "best" : ""].join(" ").trim() || null}, content);
        });
        return {row, line: el("tr", {}, ...line)};
    });
    function sort(c) {
        order.up = order.column === c ? !order.up : columns[c].best !== "most";
        order.column = c;
        const of = columns[c].of, sign = order.up ? 1 : -1;
        cells.sort((a, b) => {
            const x = of(a.row), y = of(b.row);
            if (x == null || y == null || Number.isNaN(x) || Number.isNaN(y)) return (x == null || Number.isNaN(x)) - (y == null || Number.isNaN(y));
            return sign * (isNumber(x) && isNumber(y) ? x - y : shown(x).localeCompare(shown(y), "en", {numeric: true}));
        });
        heads.forEach((head, i) => head.setAttribute("aria-sort", i === c ? (order.up ? "ascending" : "descending") : "none"));
        body.append(...cells.map(cell => cell.line));
    }
    body.append(...cells.map(cell => cell.line));
    const table = el("table", {"aria-label": caption}, el("thead", {}, el("tr", {}, ...heads)), body);
    const frame = el("div", {class: "scroll", onscroll: () => mark()}, table);
    const mark = () => frame.classList.toggle("more", frame.scrollLeft + frame.clientWidth < frame.scrollWidth - 1);
    const watch = new ResizeObserver(mark);
    [frame, table].forEach(part => watch.observe(part));
    return frame;
}

const endOf = (run, name) => run.end && isNumber(run.end[name]) ? run.end[name] : null;
/* The record that tells of a run's last test, or of its last training loss: that of its end, or of an epoch where it ended untested or was cut. */
const tested = run => isNumber(run.end.test_accuracy) || (run.settings.evaluate === true && !run.settings.sim_only && !run.end.interrupted);
const lastOf = (run, name) => run.end && name in run.end && (name === "train_loss" || tested(run)) ? run.end : run.last;
const finalOf = (run, name) => isNumber(lastOf(run, name)[name]) ? lastOf(run, name)[name] : null;
const notFinite = run => lastOf(run, "test_loss").test_loss === null || ((run.steps.loss || run.epochs.train_loss) && lastOf(run, "train_loss").train_loss === null);
const bestOf = (run, name, pick) => run.epochs[name] ? Math[pick](...run.epochs[name][1]) : null;
const lastMark = (run, column) => last(run.marks[column].filter(isNumber)) ?? null;
/* Where no record of an end says it: up to the last mark that says how much was sent. */
function sentPerStep(run) {
    const [steps, , sent] = run.marks, at = sent.findLastIndex(isNumber);
    return at > 0 ? (sent[at] - sent[0]) / (steps[at] - steps[0]) : null;
}
const stepsOf = run => endOf(run, "steps") ?? last(run.marks[0]);
/* Runs whose times can be compared: that ended, after equally many steps, by one kind of clock. */
function finished(list) {
    const ended = list.filter(run => run.end && !run.end.interrupted && !(run.settings.first_step > 0));
    return unique(ended.map(stepsOf)).length === 1 && unique(ended.map(run => run.settings.clock)).length === 1 ? ended : [];
}

function label(value, run) {
    const name = el("span", {});
    name.append(swatch(run.group), " ", run.label);
    const resumed = run.settings.first_step > 0 ? null : endOf(run, "first_step");
    if (resumed > 0)
        name.append(el("span", {class: "badge", title: "resumed from a checkpoint; the records before and after are joined"}, `resumed at ${count(resumed)}`));
    if (run.settings.first_step > 0)
        name.append(el("span", {class: "badge", title: "what was before is in no record of this page: time and bytes count from there"},
            `${isNumber(run.settings.joined_step) ? "joined" : "resumed"} at ${count(run.settings.first_step)}`));
    if (!run.end) name.append(el("span", {class: "badge", title: "no record of its end: it was cut, or still runs"}, "cut"));
    else if (run.end.interrupted) name.append(el("span", {class: "badge", title: "stopped by a signal"}, "interrupted"));
    if (clocks === "real and simulated" && isSimulated(run)) name.append(el("span", {class: "badge", title: "its time is that of a virtual clock"}, "simulated"));
    if (notFinite(run)) name.append(el("span", {class: "badge", title: "its last loss was not finite: it diverged"}, "not finite"));
    if (run.skippedSteps) name.append(el("span", {class: "badge", title: "a gradient was not finite"}, `${count(run.skippedSteps)} skipped`));
    for (const remark of (run.end && run.end.remarks) || [])
        if (remark.what !== "skipped") name.append(el("span", {class: "badge", title: remark.text}, remark.what.replace("_", " ")));
    return name;
}

function runTable() {
    const percent = v => isNumber(v) ? (100 * v).toFixed(2) : "\u2013";
    const images = (run, v) => run.tokens ? null : v;
    const n = (head, unit, of, show, best, among) => ({head, unit, of, show, best, among, kind: "n"});
    const columns = [
        {head: "Run", of: run => run.label, show: label},
        ...differing.filter(key => key !== "seed").slice(0, 5).map(key => {
            const tell = telling(key);
            return {head: key, of: run => run.settings[key], kind: "spec", show: v => {
                const short = tell(v);
                return el("span", {title: short === shown(v) ? null : shown(v)}, short.replaceAll(",", ",\u200b"));
            }};
        }),
        differing.includes("seed") ? n("seed", "", run => run.settings.seed, v => shown(v)) : null,
        n("test acc.", "%", run => images(run, finalOf(run, "test_accuracy")), percent, "most"),
        n("best", "%", run => images(run, bestOf(run, "test_accuracy", "max")), percent, "most"),
        n("perplexity", "test", run => finalOf(run, "perplexity"), v => digits(v, 4), "least"),
        n("best", "perplexity", run => bestOf(run, "perplexity", "min"), v => digits(v, 4), "least"),
        n("test loss", "nats", run => finalOf(run, "test_loss"), fixed(4), "least"),
        n("train loss (epoch)", "nats", run => finalOf(run, "train_loss"), fixed(4), "least"),
        n("steps", "", stepsOf, count),
        n("time", clocks, run => lastMark(run, 1), seconds, "least", finished),
        n("step", "ms", run => endOf(run, "step_ms_mean") ?? endOf(run, "step_ms_median") ?? run.means.step_ms ?? null, v => digits(v), "least"),
        n("sent/step", "rank 0", run => endOf(run, "bytes_per_step") ?? sentPerStep(run), bytes, "least"),
        n("ratio", "coded", run => endOf(run, "ratio"), times, "most"),
        n("ratio", "all sent", run => endOf(run, "ratio_wire"), times, "most"),
    ].filter(column => column && (column.kind !== "n" || runs.some(run => isNumber(column.of(run)) && column.of(run) !== 0)));
    return sortableTable(columns, runs, "Runs");
}

const PARTS = [["compute", "compute_ms"], ["wait", "wait_ms"], ["apply", "apply_ms"], ["rest", null]];
const BESIDE = [["encode", "encode_ms"], ["exchange", "exchange_ms"]];

/* Over all steps, where the record of the end says it. */
const saysMeans = run => endOf(run, "step_ms_mean") != null;
const meanTime = (run, name) => saysMeans(run) ? endOf(run, name + "_mean") : run.means[name] ?? null;

function timeTable() {
    const rows = runs.filter(run => isNumber(meanTime(run, "step_ms")));
    if (!rows.length) return null;
    const of = (run, part) => {
        if (part[1]) return meanTime(run, part[1]) || 0;
        const step = meanTime(run, "step_ms"), rest = PARTS.reduce((left, p) => left - (p[1] ? meanTime(run, p[1]) || 0 : 0), step);
        return rest > 1e-6 * step ? rest : 0; /* less is what the sums were rounded by */
    };
    const whole = Math.max(...rows.map(run => Math.max(PARTS.reduce((sum, p) => sum + of(run, p), 0),
        BESIDE.reduce((sum, p) => sum + of(run, p), 0))));
    const track = (run, parts) => el("div", {class: "track"}, ...parts.map(part => {
        const bar = el("i", {title: `${part[0]} ${digits(of(run, part))} ms`});
        bar.style.width = 100 * of(run, part) / whole + "%";
        bar.style.background = `var(--${part[0]})`;
        return bar;
    }));
    const ms = (head, value) => ({head, unit: "ms", of: value, show: v => digits(v), kind: "n"});
    const columns = [
        {head: "Run", of: run => run.label, show: label},
        {head: "Step", unit: "above: computing thread; below: network", kind: "bars", of: run => meanTime(run, "step_ms"),
            show: (v, run) => el("div", {}, track(run, PARTS), track(run, BESIDE))},
        ...PARTS.map(part => ms(part[0], run => of(run, part))), ms("step", run => meanTime(run, "step_ms")),
        ...BESIDE.map(part => ms(part[0], run => of(run, part))), ms("of it: decode", run => meanTime(run, "decode_ms")),
    ];
    const table = sortableTable(columns, rows, "Time of a step");
    table.classList.add("times");
    const swatches = el("div", {class: "swatches"}, ...[...PARTS, ...BESIDE].map(part => {
        const box = el("i", {});
        box.style.background = `var(--${part[0]})`;
        return el("span", {}, box, part[0]);
    }));
    const older = rows.filter(run => !saysMeans(run)), over = "over the second half of the records, each of which is a median of the steps since the one before";
    const means = !older.length ? "Means over all steps" : older.length === rows.length ? `Means ${over}` :
        `Means over all steps; of ${older.map(run => run.label).join(", ")}, whose records do not say them, ${over}`;
    return [swatches, table, el("p", {class: "quiet"}, means + ". Encoding and exchanges run beside computing, those of several steps at once where a strategy delays them; what of them the computing thread waits for is in wait.")];
}

/* Who waited for whom: a row for each rank of a run, those that were waited for longest where there are many. */
function waitTable() {
    const most = 16, rows = [];
    let many = false;
    for (const run of runs) {
        const times = run.end && run.end.waited_for_s, by = run.end && run.end.waited_by_s;
        if (!Array.isArray(times) || !Array.isArray(by)) continue;
        const ranks = times.map((waited, rank) => ({run, rank, waited, by: by[rank]}));
        /* Rank 0 is not waited for by itself: what it waited less than the others shows how late it was. */
        ranks.sort((a, b) => b.waited - a.waited || a.by - b.by);
        many = many || ranks.length > most;
        rows.push(...ranks.slice(0, most).sort((a, b) => a.rank - b.rank));
    }
    if (!rows.length) return null;
    const whole = Math.max(...rows.map(row => Math.max(row.waited, row.by))) || 1;
    const bar = (part, of) => row => {
        const fill = el("i", {title: seconds(of(row))});
        fill.style.width = 100 * of(row) / whole + "%";
        fill.style.background = `var(--${part})`;
        return el("div", {class: "track"}, fill);
    };
    /* A small bar for each epoch, or for a few of them; as high as the table's longest wait. */
    const highest = Math.max(...rows.flatMap(row => (row.run.waits || []).flatMap(group => [group.for[row.rank] / group.epochs, group.by[row.rank] / group.epochs]))) || 1;
    const strip = (row, part, of) => {
        let first = 1;
        return el("div", {class: "strip"}, ...row.run.waits.map(group => {
            const bar = el("i", {}), last = first + group.epochs - 1, each = group[of][row.rank] / group.epochs;
            bar.style.height = 100 * each / highest + "%";
            bar.style.background = `var(--${part})`;
            const cell = el("span", {title: (first === last ? `epoch ${first}: ` : `epochs ${first} to ${last}, each: `) + seconds(each)}, bar);
            first = last + 1;
            return cell;
        }));
    };
    const tracks = [bar("wait", row => row.waited), bar("exchange", row => row.by)];
    const columns = [
        {head: "Run", of: row => row.run.label, show: (v, row) => label(v, row.run)},
        {head: "rank", of: row => row.rank, kind: "n"},
        {head: "Waits", unit: "above: for this rank; below: by it", kind: "bars", of: row => row.waited, show: (v, row) => el("div", {}, ...tracks.map(track => track(row)))},
        ...(rows.some(row => row.run.waits) ? [{head: "By epoch", unit: "in the same order", kind: "bars", of: row => row.waited, show: (v, row) => row.run.waits ? el("div", {}, strip(row, "wait", "for"), strip(row, "exchange", "by")) : ""}] : []),
        {head: "rank 0 waited for it", unit: "s", of: row => row.rank ? row.waited : null, show: v => digits(v), kind: "n"},
        {head: "it waited itself", unit: "s", of: row => row.by, show: v => digits(v), kind: "n"},
    ];
    const table = sortableTable(columns, rows, "Waits");
    table.classList.add("waits");
    return [table, el("p", {class: "quiet"}, "How long rank 0 waited for messages of each rank (of several at once counted for each; in a ring, and within nodes, it hears of one rank only), and how long each rank waited for exchanges in all steps. " +
        "The rank that is late waits least itself." + (many ? ` Of each run the ${most} ranks that were waited for longest.` : ""))];
}

function settingsPart() {
    const same = keys.filter(key => !varies(key)), other = differing.length ? differing : [];
    const incidental = keys.filter(key => INCIDENTAL.has(key) && varies(key));
    const parts = [];
    const matrix = (list, title) => el("details", {open: list === other}, el("summary", {}, title),
        sortableTable([{head: "Run", of: run => run.label, show: label},
            ...list.map(key => ({head: key, of: run => run.settings[key], kind: "spec"}))], runs, title));
    if (other.length) parts.push(matrix(other, "Different"));
    parts.push(el("details", {open: runs.length === 1}, el("summary", {}, runs.length > 1 ? "The same in all runs" : "All"),
        el("dl", {}, ...same.map(key => el("div", {}, el("dt", {}, key), el("dd", {class: "spec"}, shown(runs[0].settings[key])))))));
    if (incidental.length) parts.push(matrix(incidental, "Files, and what the runs ran on"));
    return parts;
}
