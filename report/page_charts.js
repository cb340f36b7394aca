"use strict";
/* The charts, one canvas each, of uPlot. */

/* [steps, values] of a column, or nothing. */
const from = (part, column, scale = 1) => run => {
    const curve = run[part][column];
    return curve ? [curve[0], scale === 1 ? curve[1] : curve[1].map(v => v * scale)] : null;
};
const constant = curves => unique(curves.flatMap(curve => curve ? curve[1] : [])).length < 2;

const CHARTS = [
    {title: "Test accuracy", unit: "%", curve: run => run.tokens ? null : from("epochs", "test_accuracy", 100)(run), format: fixed(2), dots: true},
    {title: "Test perplexity", curve: from("epochs", "perplexity"), format: v => digits(v, 4), log: 20, dots: true},
    {title: "Test loss", unit: "nats", curve: from("epochs", "test_loss"), format: v => digits(v, 4), log: 50, dots: true},
    {title: "Training loss", unit: "nats, of rank 0's batches" + (runs.some(run => run.steps.loss_mean) ? "; in front its mean over a tenth of the records" : ""), curve: from("steps", "loss"), format: v => digits(v, 4), mean: from("steps", "loss_mean"), log: 1000},
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
const tickOf = v => v !== 0 && (Math.abs(v) < 1e-4 || Math.abs(v) >= 1e7) ? (+v.toPrecision(6)).toExponential().replace("e+", "e") : plain(v);

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
        const mean = spec.mean && spec.mean(run); /* of neighbours; the curve itself may be thinned to its extremes */
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
        if (mean) add(curve, true);
        add(mean || curve, means.get(run.group) != null);
    }
    return [...lines, ...[...means.values()].filter(Boolean)];
}

/* 1, 2 or 5 times a power of ten: ticks of a logarithmic axis count from where it begins. */
function below(v) {
    const power = 10 ** Math.floor(Math.log10(v) + 1e-9), first = v / power;
    return power * (first >= 5 ? 5 : first >= 2 ? 2 : 1);
}

/* Some 8 ticks at most: multiples of 1, 2 or 5 times a power of ten. */
function evenTicks(min, max) {
    const step = below((max - min) / 3), list = [];
    for (let k = Math.ceil(min / step); k * step <= max; k++) list.push(k * step);
    return list;
}

/* Powers of ten; over few decades 2 and 5 times them as well. */
function logTicks(min, max) {
    const decades = Math.log10(max / min), every = Math.ceil(decades / 8), factors = decades > 2.6 ? [1] : [1, 2, 5], list = [];
    if (decades < 1) return evenTicks(min, max);
    for (let power = Math.floor(Math.log10(min) / every) * every; power <= Math.log10(max); power += every)
        list.push(...factors.map(factor => factor * 10 ** power));
    return list.filter(v => v >= min * (1 - 1e-9) && v <= max);
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

/* What is drawn in front, if anything is. */
const front = lines => lines.some(line => !line.faint) ? lines.filter(line => !line.faint) : lines;

/* Values that lie far apart; such an axis has no 0. A single batch of a small loss makes none. */
function isLog(spec, lines) {
    const values = front(lines).flatMap(line => line.y).filter(v => v !== 0), least = Math.min(...values);
    return spec.log && least > 0 && Math.max(...values) / least > spec.log;
}

function options(spec, lines, log, place) {
    const values = lines.flatMap(line => line.y), least = Math.min(...values), most = Math.max(...values);
    const axis = {stroke: css("--soft"), font: "12px system-ui, sans-serif", grid: {stroke: css("--grid"), width: 1},
        ticks: {stroke: css("--line"), width: 1, size: 5}};
    const tick = format => (plot, splits) => splits.map(v => v == null ? "" : format(v));
    /* Ticks of our own: uPlot's are too many over many decades, and none where no increment that it knows is large enough. */
    const ticks = log ? logTicks : most - least > 1e14 ? evenTicks : null;
    const own = ticks ? {splits: (plot, axis, min, max) => ticks(min, max), filter: (plot, splits) => splits,
        incrs: (plot, axis, min, max) => [Math.max(5, max - min)]} : {};
    /* There is no step 52.5. */
    const whole = xKind === "steps" && !xLog ? {incrs: [...Array(15).keys()].flatMap(power => [1, 2, 5].map(factor => factor * 10 ** power))} : {};
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
            {...axis, ...whole, label: X[xKind].label, labelFont: "12px system-ui, sans-serif", labelSize: 18, size: 30, space: 84,
                values: tick(X[xKind].format)},
            {...axis, ...own, size: (plot, list) => 16 + 7 * Math.max(3, ...(list || []).map(text => text.length)), space: 34,
                values: tick(tickOf)},
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

/* Where each run tells of one point, as after its only epoch: a bar for each in the place of lone dots. */
function bars(spec, lines) {
    const list = front(lines), most = Math.max(...list.map(line => Math.abs(line.y[0])), spec.unit === "%" ? 100 : 0) || 1;
    const format = X[xKind].format, places = unique(list.map(line => format(line.x[0])));
    const at = place => xKind === "steps" || xKind === "samples" ? `${place} ${X[xKind].label}` : place;
    return el("div", {class: "bars"}, el("p", {class: "quiet"}, places.length === 1 ? `one value, at ${at(places[0])}` : "one value of each run"),
        ...list.map(line => {
            const bar = el("i", {});
            bar.style.width = 100 * Math.abs(line.y[0]) / most + "%";
            bar.style.background = colour(line.run.group);
            return el("div", {class: "lone", title: `${line.run.label}, at ${at(format(line.x[0]))}`},
                el("span", {class: "name"}, line.run.label), el("b", {class: "num"}, spec.format(line.y[0])), el("div", {class: "rail"}, bar));
        }));
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
    place.replaceChildren();
    const lines = linesOf(spec);
    chart.figure.dataset.points = String(lines.reduce((sum, line) => sum + line.x.length, 0));
    place.setAttribute("aria-label", `${spec.title} over ${X[xKind].label}: ` + (lines.length ? lines.filter(line => !line.faint)
        .map(line => `${line.run.label} ends at ${spec.format(last(line.y))}`).join(", ") : "no run is shown"));
    if (!lines.length) return;
    if (lines.every(line => line.x.length === 1)) {
        place.append(bars(spec, lines));
        return;
    }
    const log = isLog(spec, lines), table = uPlot.join(lines.map(line => [line.x, log ? line.y.map(v => v === 0 ? null : v) : line.y]));
    chart.plot = new uPlot(options(spec, lines, log, place), table, place);
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
