"use strict";
(() => {
    const data = JSON.parse(document.getElementById("records").textContent);
    const root = document.getElementById("report");

    /* ---- small things ------------------------------------------------------------------------ */

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
    const fixed = n => v => isNumber(v) ? v.toFixed(n) : "\u2013";
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

    /* ---- runs -------------------------------------------------------------------------------- */

    /* What does not make a run another one: where files lie, when and on what it ran. */
    const INCIDENTAL = new Set(["out", "save", "save_every", "resume", "first_step", "time", "trace", "dump_gradients",
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

    const runs = data.runs;
    const names = runs.map(run => run.name);
    for (const run of runs) {
        const s = run.settings, end = run.end || {};
        run.label = names.filter(name => name === run.name).length > 1 ? `${run.name} (${run.file})` : run.name;
        run.tokens = s.context > 0;
        run.perStep = (s.batch || 1) * (s.world || 1) * (s.accumulate || 1) * (s.context || 1);
        run.skippedSteps = end.skipped_nonfinite || 0;
        run.on = true;
    }

    const keys = unique(runs.flatMap(run => Object.keys(run.settings)));
    const varies = key => unique(runs.map(run => JSON.stringify(run.settings[key] ?? null))).length > 1;
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
        const id = JSON.stringify(differing.filter(key => key !== "seed").map(key => run.settings[key] ?? null));
        if (!groups.has(id)) groups.set(id, {runs: [], number: groups.size});
        groups.get(id).runs.push(run);
        run.group = groups.get(id);
    }
    function commonName(list) {
        if (list.length === 1) return list[0].label;
        let name = list[0].name;
        while (name && !list.every(run => run.name.startsWith(name))) name = name.slice(0, -1);
        name = name.replace(/[\s_-]*(seed|s)?[\s_-]*$/i, "") || list[0].name;
        return `${name} (${list.length} seeds)`;
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

    /* ---- what curves are drawn over ---------------------------------------------------------- */

    const allTokens = runs.every(run => run.tokens);
    const simulated = runs.some(run => run.settings.clock === "virtual");
    const X = {
        steps: {label: "steps", format: count, of: (run, step) => step},
        samples: {label: allTokens ? "tokens" : "samples", format: v => digits(v), of: (run, step) => step * run.perStep},
        seconds: {label: simulated ? "time (simulated)" : "time", format: seconds, of: (run, step) => between(run.marks, 1, step)},
        bytes: {label: "bytes sent", format: bytes, of: (run, step) => between(run.marks, 2, step)},
    };
    let xKind = "steps", xLog = false;

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
        if (at[low] === step || v[low] == null || v[high] == null) return v[low];
        return v[low] + (v[high] - v[low]) * (step - at[low]) / (at[high] - at[low]);
    }

    /* Whether runs' ends lie so far apart that a linear axis would show only the longest. */
    function farApart(kind) {
        const ends = runs.map(run => X[kind].of(run, last(run.marks[0]))).filter(v => v > 0);
        return ends.length > 1 && Math.max(...ends) / Math.min(...ends) > 20;
    }

    /* ---- charts ------------------------------------------------------------------------------ */

    /* [steps, values] of a column, or nothing. */
    const from = (part, column, scale = 1) => run => {
        const curve = run[part][column];
        return curve ? [curve[0], scale === 1 ? curve[1] : curve[1].map(v => v * scale)] : null;
    };
    const constant = curves => unique(curves.flatMap(curve => curve ? curve[1] : [])).length < 2;
    const smoothed = curve => {
        const [steps, v] = curve, half = Math.floor(v.length / 40);
        if (half < 1) return null;
        const sums = [0];
        for (const x of v) sums.push(last(sums) + x);
        return [steps, v.map((x, i) => {
            const a = Math.max(0, i - half), b = Math.min(v.length, i + half + 1);
            return (sums[b] - sums[a]) / (b - a);
        })];
    };

    const CHARTS = [
        {title: "Test accuracy", unit: "%", curve: run => run.tokens ? null : from("epochs", "test_accuracy", 100)(run), format: fixed(2), dots: true},
        {title: "Test perplexity", curve: from("epochs", "perplexity"), format: v => digits(v, 4), log: 20, dots: true},
        {title: "Test loss", unit: "nats", curve: from("epochs", "test_loss"), format: v => digits(v, 4), log: 50, dots: true},
        {title: "Training loss", unit: "nats, of rank 0", curve: from("steps", "loss"), format: v => digits(v, 4), smooth: true, log: 1000},
        {title: "Training loss, mean of an epoch", unit: "nats, of rank 0", curve: from("epochs", "train_loss"), format: v => digits(v, 4), dots: true,
            unless: run => run.steps.loss},
        {title: "Compression", unit: "bytes of the gradient over those coded", curve: from("steps", "ratio"), format: times, log: 20, varying: true},
        {title: "Density", unit: "% of elements sent", curve: from("steps", "density_kept", 100), format: v => digits(v) + " %", log: 20, varying: true},
        {title: "Residual", unit: "2-norm of what was not sent yet", curve: from("steps", "residual_norm"), format: v => digits(v), log: 100, varying: true},
        {title: "Residual over gradient", unit: "of their 2-norms", curve: from("steps", "residual_ratio"), format: v => digits(v), log: 100, varying: true},
        {title: "Gradient", unit: "2-norm, of rank 0", curve: from("steps", "grad_norm"), format: v => digits(v), log: 50},
        {title: "Time of a step", unit: "ms, median since the record before", curve: from("steps", "step_ms"), format: v => digits(v) + " ms", log: 20},
        {title: "Learning rate", curve: from("steps", "lr"), format: v => digits(v), varying: true},
    ];

    /* Next to an axis: as many digits as its steps need. */
    const tickOf = v => Math.abs(v) < 1e-4 && v !== 0 ? v.toExponential() : plain(v);

    const drawn = []; /* {spec, place, plot} */

    /* The mean of a group's runs, where they tell of the same steps; they themselves are faint behind it then. */
    function meanOf(spec, group) {
        const shown = group.runs.filter(run => run.on), curves = shown.map(spec.curve);
        if (!spec.dots || shown.length < 2 || !curves.every(Boolean)) return null;
        const steps = curves[0][0];
        if (!curves.every(curve => curve[0].length === steps.length && curve[0].every((step, i) => step === steps[i]))) return null;
        const mean = values => values.every(isNumber) ? values.reduce((a, b) => a + b) / values.length : null;
        const x = steps.map(step => mean(shown.map(run => X[xKind].of(run, step))));
        const y = steps.map((step, i) => mean(curves.map(curve => curve[1][i])));
        const kept = steps.map((step, i) => i).filter(i => isNumber(x[i]) && isNumber(y[i]) && (!xLog || x[i] > 0));
        return kept.length ? {run: {label: group.label, group}, x: kept.map(i => x[i]), y: kept.map(i => y[i]), faint: false, mean: true} : null;
    }

    function linesOf(spec) {
        const lines = [], means = new Map([...groups.values()].map(group => [group, spec.unless && group.runs.some(spec.unless) ? null : meanOf(spec, group)]));
        for (const run of runs) {
            const curve = spec.unless && spec.unless(run) ? null : spec.curve(run);
            if (!run.on || !curve) continue;
            const smooth = spec.smooth && smoothed(curve);
            const add = (c, faint) => {
                const x = [], y = [];
                for (let i = 0; i < c[0].length; i++) {
                    const at = X[xKind].of(run, c[0][i]);
                    if (!isNumber(at) || (xLog && at <= 0) || (x.length && at < last(x))) continue;
                    if (x.length && at === last(x)) y[y.length - 1] = c[1][i];
                    else { x.push(at); y.push(c[1][i]); }
                }
                if (x.length) lines.push({run, x, y, faint});
            };
            if (smooth) add(curve, true);
            add(smooth || curve, means.get(run.group) != null);
        }
        return [...lines, ...[...means.values()].filter(Boolean)];
    }

    /* 1, 2 or 5 times a power of ten: ticks of a logarithmic axis count from where it begins. */
    function below(v) {
        const power = 10 ** Math.floor(Math.log10(v) + 1e-9), first = v / power;
        return power * (first >= 5 ? 5 : first >= 2 ? 2 : 1);
    }

    /* The nearest value of each line to where the cursor is, none if that is far away. */
    function nearest(plot, series, index) {
        const x = plot.data[0], y = plot.data[series];
        if (series === 0 || y[index] != null) return index;
        const at = plot.valToPos(x[index], "x");
        let a = index, b = index;
        while (a >= 0 && y[a] == null) a--;
        while (b < x.length && y[b] == null) b++;
        const distance = i => i >= 0 && i < x.length ? Math.abs(plot.valToPos(x[i], "x") - at) : Infinity;
        const best = distance(a) <= distance(b) ? a : b;
        return distance(best) < 48 ? best : null;
    }

    function tooltip(spec, lines) {
        const tip = el("div", {class: "tip", hidden: true});
        const place = plot => {
            const {left, top, idx, idxs} = plot.cursor;
            const rows = [];
            lines.forEach((line, i) => {
                const at = idxs[i + 1];
                if (!line.faint && at != null && plot.data[i + 1][at] != null && plot.series[i + 1].show)
                    rows.push({line, x: plot.data[0][at], y: plot.data[i + 1][at]});
            });
            tip.hidden = idx == null || left < 0 || !rows.length;
            if (tip.hidden) return;
            rows.sort((a, b) => b.y - a.y);
            const head = X[xKind].format(plot.data[0][idx]) + (xKind === "steps" || xKind === "samples" ? " " + X[xKind].label : "");
            tip.replaceChildren(el("div", {class: "quiet num"}, head), el("table", {}, ...rows.slice(0, 14).map(row => {
                const key = el("td", {});
                key.append(swatch(row.line.run.group));
                keySwatches.pop();
                return el("tr", {}, key, el("td", {class: "name"}, row.line.run.label), el("td", {class: "n"}, spec.format(row.y)));
            })), rows.length > 14 ? `and ${rows.length - 14} more` : "");
            const right = left > plot.over.clientWidth / 2;
            tip.style.left = right ? "" : left + 14 + "px";
            tip.style.right = right ? plot.over.clientWidth - left + 14 + "px" : "";
            tip.style.top = Math.max(0, Math.min(top, plot.over.clientHeight - tip.offsetHeight)) + "px";
        };
        return {hooks: {init: plot => plot.over.append(tip), setCursor: place}};
    }

    function options(spec, lines, place) {
        const values = lines.flatMap(line => line.y);
        const least = Math.min(...values), most = Math.max(...values);
        const log = spec.log && least > 0 && most / least > spec.log;
        const axis = {stroke: css("--soft"), font: "12px system-ui, sans-serif", grid: {stroke: css("--grid"), width: 1},
            ticks: {stroke: css("--line"), width: 1, size: 5}};
        const tick = (format, log) => (plot, splits) => splits.map(v => {
            const power = Math.log10(v);
            return v == null || (log && most / least > 1e3 && Math.abs(power - Math.round(power)) > 1e-6) ? "" : format(v);
        });
        const many = lines.filter(line => !line.faint).length > 12;
        return {
            width: place.clientWidth, height: place.clientHeight, legend: {show: false},
            padding: [10, 26, 0, 4],
            scales: {
                x: xLog ? {time: false, distr: 3, range: (plot, a, b) => [below(a), a < b ? b : 2 * b]} : {time: false},
                y: log ? {distr: 3, range: (plot, a, b) => [below(a), b * 1.15]} : {range: (plot, a, b) => {
                    const room = (b - a || Math.abs(b) || 1) * .06;
                    return [a >= 0 && a - room < 0 ? 0 : a - room, b + room];
                }},
            },
            axes: [
                {...axis, label: X[xKind].label, labelFont: "12px system-ui, sans-serif", labelSize: 18, size: 30, space: 84,
                    values: tick(X[xKind].format, false)},
                {...axis, size: (plot, list) => 16 + 7 * Math.max(3, ...(list || []).map(text => text.length)), space: 34,
                    values: tick(tickOf, log)},
            ],
            series: [{}, ...lines.map(line => ({
                label: line.run.label, stroke: colour(line.run.group), dash: dash(line.run.group), spanGaps: true,
                width: line.faint ? 1 : many ? 1.25 : !line.mean && line.run.group.runs.length > 1 ? 1.5 : 2,
                alpha: line.faint ? (spec.dots ? .4 : .22) : !line.mean && line.run.group.runs.length > 1 ? .75 : 1,
                points: {show: !line.faint && (line.x.length === 1 || (spec.dots && line.x.length <= 40 && !many)), size: line.x.length === 1 ? 9 : 5},
            }))],
            cursor: {dataIdx: nearest, drag: {x: true, y: false}, points: {size: 7}, y: false},
            plugins: [tooltip(spec, lines)],
        };
    }

    /* Arrow keys move the cursor from point to point. */
    function steer(event, plot) {
        const x = plot.data[0], visible = [];
        for (let i = 0; i < x.length; i++)
            if (x[i] >= plot.scales.x.min && x[i] <= plot.scales.x.max) visible.push(i);
        if (!visible.length) return;
        let at = visible.indexOf(plot.cursor.idx);
        const stride = event.shiftKey ? 10 : 1;
        if (event.key === "ArrowRight") at = Math.min(visible.length - 1, at + stride);
        else if (event.key === "ArrowLeft") at = Math.max(0, at < 0 ? visible.length - 1 : at - stride);
        else if (event.key === "Home") at = 0;
        else if (event.key === "End") at = visible.length - 1;
        else if (event.key === "Escape") at = -1;
        else return;
        event.preventDefault();
        plot.setCursor(at < 0 ? {left: -10, top: -10} : {left: plot.valToPos(x[visible[at]], "x"), top: 8});
    }

    function draw(chart) {
        const {spec, place} = chart;
        if (chart.plot) chart.plot.destroy();
        chart.plot = null;
        const lines = linesOf(spec);
        chart.figure.dataset.points = String(lines.reduce((sum, line) => sum + line.x.length, 0));
        place.setAttribute("aria-label", `${spec.title} over ${X[xKind].label}: ` + (lines.length ? lines.filter(line => !line.faint)
            .map(line => `${line.run.label} ends at ${spec.format(last(line.y))}`).join(", ") : "no run is shown"));
        if (!lines.length) return;
        const table = uPlot.join(lines.map(line => [line.x, line.y]));
        chart.plot = new uPlot(options(spec, lines, place), table, place);
    }
    const drawAll = () => drawn.forEach(draw);

    function charts(list) {
        const grid = el("div", {class: "grid"});
        for (const spec of list) {
            const curves = runs.map(run => spec.unless && spec.unless(run) ? null : spec.curve(run));
            if (!curves.some(Boolean) || (spec.varying && constant(curves))) continue;
            const place = el("div", {class: "plot", tabindex: 0, role: "img"});
            const figure = el("figure", {}, el("figcaption", {}, spec.title, spec.unit ? el("span", {class: "unit"}, spec.unit) : null), place);
            const chart = {spec, place, figure, plot: null};
            place.addEventListener("keydown", event => chart.plot && steer(event, chart.plot));
            place.addEventListener("blur", () => chart.plot && chart.plot.setCursor({left: -10, top: -10}));
            new ResizeObserver(() => {
                if (chart.plot && place.clientWidth && (chart.plot.width !== place.clientWidth || chart.plot.height !== place.clientHeight))
                    chart.plot.setSize({width: place.clientWidth, height: place.clientHeight});
            }).observe(place);
            drawn.push(chart);
            grid.append(figure);
        }
        return grid;
    }

    /* ---- tables ------------------------------------------------------------------------------ */

    /* columns: {head, unit, of: run => value, show: value => text, best: "most"|"least", kind: "n"|"spec"} */
    function sortableTable(columns, rows, caption) {
        const body = el("tbody", {});
        const order = {column: -1, up: true};
        const heads = columns.map((column, c) => el("th", {scope: "col", class: column.kind === "n" ? "n" : null, "aria-sort": "none"},
            el("button", {type: "button", onclick: () => sort(c)}, column.head),
            column.unit ? el("div", {class: "unit"}, column.unit) : null));
        const bests = columns.map(column => {
            const values = unique(rows.map(column.of).filter(isNumber));
            return column.best && values.length > 1 ? Math[column.best === "most" ? "max" : "min"](...values) : null;
        });
        const cells = rows.map(row => {
            const line = columns.map((column, c) => {
                const value = column.of(row), content = column.show ? column.show(value, row) : shown(value);
                const best = column.best && isNumber(value) && value === bests[c];
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
        return el("div", {class: "scroll"}, el("table", {"aria-label": caption}, el("thead", {}, el("tr", {}, ...heads)), body));
    }

    const endOf = (run, name) => run.end && isNumber(run.end[name]) ? run.end[name] : null;
    const finalOf = (run, name) => endOf(run, name) ?? (run.epochs[name] ? last(run.epochs[name][1]) : null);
    const bestOf = (run, name, pick) => run.epochs[name] ? Math[pick](...run.epochs[name][1]) : null;
    const lastMark = (run, column) => last(run.marks[column].filter(isNumber)) ?? null;
    const stepsOf = run => endOf(run, "steps") ?? last(run.marks[0]);

    function label(value, run) {
        const name = el("span", {});
        name.append(swatch(run.group), " ", run.label);
        if (!run.end) name.append(el("span", {class: "badge", title: "no record of its end: it was cut, or still runs"}, "cut"));
        else if (run.end.interrupted) name.append(el("span", {class: "badge", title: "stopped by a signal"}, "interrupted"));
        if (run.skippedSteps) name.append(el("span", {class: "badge", title: "a gradient was not finite"}, `${count(run.skippedSteps)} skipped`));
        return name;
    }

    function runTable() {
        const percent = v => isNumber(v) ? (100 * v).toFixed(2) : "\u2013";
        const images = (run, v) => run.tokens ? null : v;
        const n = (head, unit, of, show, best) => ({head, unit, of, show, best, kind: "n"});
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
            n("train loss", "nats", run => finalOf(run, "train_loss"), fixed(4), "least"),
            n("steps", "", stepsOf, count),
            n("time", simulated ? "simulated" : "", run => lastMark(run, 1), seconds, "least"),
            n("step", "ms", run => endOf(run, "step_ms_median") ?? run.means.step_ms ?? null, v => digits(v), "least"),
            n("sent/step", "rank 0", run => endOf(run, "bytes_per_step") ?? (stepsOf(run) ? lastMark(run, 2) / stepsOf(run) : null), bytes, "least"),
            n("ratio", "coded", run => endOf(run, "ratio"), times, "most"),
            n("ratio", "all sent", run => endOf(run, "ratio_wire"), times, "most"),
        ].filter(column => column && (column.kind !== "n" || runs.some(run => isNumber(column.of(run)) && column.of(run) !== 0)));
        return sortableTable(columns, runs, "Runs");
    }

    const PARTS = [["compute", "compute_ms"], ["wait", "wait_ms"], ["apply", "apply_ms"], ["rest", null]];
    const BESIDE = [["encode", "encode_ms"], ["exchange", "exchange_ms"]];

    function timeTable() {
        const rows = runs.filter(run => isNumber(run.means.step_ms));
        if (!rows.length) return null;
        const of = (run, part) => part[1] ? run.means[part[1]] || 0
            : Math.max(0, run.means.step_ms - PARTS.reduce((sum, p) => sum + (p[1] ? run.means[p[1]] || 0 : 0), 0));
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
            {head: "Step", unit: "above: computing thread; below: network", kind: "bars", of: run => run.means.step_ms,
                show: (v, run) => el("div", {}, track(run, PARTS), track(run, BESIDE))},
            ...PARTS.map(part => ms(part[0], run => of(run, part))), ms("step", run => run.means.step_ms),
            ...BESIDE.map(part => ms(part[0], run => of(run, part))), ms("of it: decode", run => run.means.decode_ms ?? null),
        ];
        const table = sortableTable(columns, rows, "Time of a step");
        table.classList.add("times");
        const swatches = el("div", {class: "swatches"}, ...[...PARTS, ...BESIDE].map(part => {
            const box = el("i", {});
            box.style.background = `var(--${part[0]})`;
            return el("span", {}, box, part[0]);
        }));
        return [swatches, table, el("p", {class: "quiet"}, "Means over the second half of the records, each of which is a median of the steps since " +
            "the one before. Encoding and exchanges run beside computing; what of them the computing thread waits for is in wait.")];
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

    /* ---- the page ---------------------------------------------------------------------------- */

    function common(key) {
        const values = unique(runs.map(run => shown(run.settings[key])));
        return values.length === 1 ? values[0] : values.length <= 4 ? values.join(", ") : `${values.length} different`;
    }

    function header() {
        const first = runs[0].settings, list = [];
        const say = (name, value) => list.push(list.length ? ", " : "", el("b", {}, value), name ? " " + name : "");
        say("", common("model"));
        list.push(" on ", el("b", {}, common("data")));
        list.push(` (${count(first.train_samples)} to train, ${count(first.test_samples)} to test)`);
        say(common("world") === "1" ? "worker" : "workers", common("world"));
        list.push(` (${common("transport")}), batch `, el("b", {}, common("batch")));
        list.push(", link ", el("b", {}, common("link")));
        if (simulated) list.push(", time simulated by a virtual clock");
        if (keys.includes("params")) list.push(`; ${common("params")} parameters`);
        const title = data.title || `${common("model")} on ${common("data")}` + (runs.length > 1 ? `: ${runs.length} runs` : `: ${runs[0].label}`);
        document.title = title;
        return [el("h1", {}, title), el("p", {class: "about"}, ...list, "."),
            runs.length === 1 ? el("p", {class: "about"}, el("span", {class: "spec"}, `${shown(first.method)}  \u00b7  ${shown(first.strategy)}  \u00b7  ${shown(first.optimizer)}`)) : null,
            data.notes && data.notes.length ? el("ul", {class: "notes"}, ...data.notes.map(note => el("li", {}, note))) : null];
    }

    function controls() {
        const kinds = Object.keys(X).filter(kind => runs.some(run => {
            const end = X[kind].of(run, last(run.marks[0]));
            return isNumber(end) && end > 0;
        }));
        const log = el("input", {type: "checkbox", onchange: () => { xLog = log.checked; drawAll(); }});
        const choice = el("fieldset", {class: "choice"}, el("legend", {}, "Over"), ...kinds.map(kind => {
            const input = el("input", {type: "radio", name: "x", value: kind, checked: kind === xKind, onchange: () => {
                xKind = kind;
                xLog = log.checked = farApart(kind);
                drawAll();
            }});
            return el("label", {}, input, el("span", {}, kind === "samples" ? X.samples.label : kind));
        }));
        const chips = el("div", {class: "chips", role: "group", "aria-label": "Runs shown"}, ...[...groups.values()].map(group => {
            const chip = el("button", {type: "button", class: "chip", "aria-pressed": "true", title: group.label, onclick: event => {
                const all = [...groups.values()];
                /* With a modifier: this one alone, or all again. */
                if (event.shiftKey || event.ctrlKey || event.metaKey) {
                    const alone = all.every(other => other === group ? other.runs[0].on : !other.runs[0].on);
                    all.forEach(other => other.runs.forEach(run => { run.on = alone || other === group; }));
                } else group.runs.forEach(run => { run.on = !run.on; });
                all.forEach(other => other.chip.setAttribute("aria-pressed", String(other.runs[0].on)));
                drawAll();
            }});
            group.chip = chip;
            chip.append(swatch(group), el("span", {}, group.label));
            return chip;
        }));
        return el("div", {class: "bar"}, choice, el("label", {class: "log"}, log, " logarithmic"), groups.size > 1 ? chips : null);
    }

    const section = (title, ...content) => content.length ? [el("h2", {}, title), ...content] : [];
    const files = unique(runs.map(run => run.file));
    const timesPart = timeTable();
    root.append(...header().filter(Boolean), ...section("Runs", runTable()), controls(),
        ...section("Quality", charts(CHARTS.slice(0, 5))),
        ...(timesPart ? section("Time of a step", ...timesPart) : []),
        ...section("What is sent, and what stays", charts(CHARTS.slice(5, 10))),
        ...section("Time and rate", charts(CHARTS.slice(10))),
        ...section("Settings", ...settingsPart()),
        el("footer", {}, `telegrad ${data.version}; from ${files.slice(0, 12).join(", ")}${files.length > 12 ? ` and ${files.length - 12} more` : ""}. ` +
            "Drag in a chart to zoom, double click to see all; arrow keys move the cursor. Charts by uPlot (MIT)."));
    for (const grid of root.querySelectorAll(".grid")) {
        if (grid.children.length) continue;
        grid.previousElementSibling.remove();
        grid.remove();
    }
    drawAll();

    function redraw() {
        keySwatches.forEach(paint => paint());
        drawAll();
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    window.addEventListener("beforeprint", () => { document.documentElement.setAttribute("data-print", ""); redraw(); });
    window.addEventListener("afterprint", () => { document.documentElement.removeAttribute("data-print"); redraw(); });
})();
