"use strict";
/* The page: what stands where, and what its controls do. */

function common(key) {
    const values = unique(runs.map(run => shown(run.settings[key])));
    return values.length === 1 ? values[0] : values.length <= 4 ? values.join(", ") : `${values.length} different`;
}

function header() {
    const first = runs[0].settings, list = [], notes = [...data.notes || [], ...runs.filter(run => last(run.marks[2]) == null)
        .map(run => `${run.label}: no record says how much it has sent in the end; curves over bytes stop before.`)];
    const say = (name, value) => list.push(list.length ? ", " : "", el("b", {}, value), name ? " " + name : "");
    say("", common("model"));
    list.push(" on ", el("b", {}, common("data")));
    if (keys.includes("train_samples")) list.push(` (${common("train_samples")} to train, ${common("test_samples")} to test)`);
    say(common("world") === "1" ? "worker" : "workers", common("world"));
    list.push(` (${common("transport")}), batch `, el("b", {}, common("batch")));
    list.push(", link ", el("b", {}, common("link")));
    if (clocks) list.push(clocks === "simulated" ? ", time simulated by a virtual clock" : ", time real of some runs and simulated by a virtual clock of others");
    if (keys.includes("params")) list.push(`; ${common("params")} parameters`);
    const title = data.title || `${common("model")} on ${common("data")}` + (runs.length > 1 ? `: ${runs.length} runs` : `: ${runs[0].label}`);
    document.title = title;
    return [el("h1", {}, title), el("p", {class: "about"}, ...list, "."),
        runs.length === 1 ? el("p", {class: "about"}, el("span", {class: "spec"}, `${shown(first.method)}  \u00b7  ${shown(first.strategy)}  \u00b7  ${shown(first.optimizer)}`)) : null,
        notes.length ? el("ul", {class: "notes"}, ...notes.map(note => el("li", {}, note))) : null];
}

/* A switch for each group of runs. */
function chips() {
    if (groups.size < 2) return null;
    return el("div", {class: "chips", role: "group", "aria-label": "Runs shown"}, ...[...groups.values()].map(group => {
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
    return el("div", {class: "bar"}, choice, el("label", {class: "log"}, log, " logarithmic"), chips());
}

const section = (title, ...content) => content.length ? [el("h2", {}, title), ...content] : [];

function runsPage() {
    const timesPart = timeTable(), waitsPart = waitTable();
    return [...header(), ...section("Runs", runTable()), controls(),
        ...section("Quality", charts(CHARTS.slice(0, 5))),
        ...(timesPart ? section("Time of a step", ...timesPart) : []),
        ...(waitsPart ? section("Who waited for whom", ...waitsPart) : []),
        ...section("What is sent, and what stays", charts(CHARTS.slice(5, 10))),
        ...section("Time and rate", charts(CHARTS.slice(10)))];
}

function serversPage() {
    const shown = chips();
    return [...serversHeader(), ...section("Servers", serverTable()), shown ? el("div", {class: "bar"}, shown) : null,
        ...section("Training", charts(SERVER_CHARTS.slice(0, 4))),
        ...section("Staleness", ...stalenessPart()),
        ...section("Network and work", charts(SERVER_CHARTS.slice(4))),
        ...section("Events", ...eventsPart())];
}

const files = unique(runs.map(run => run.file));
root.append(...(data.servers ? serversPage() : runsPage()).filter(Boolean), ...section("Settings", ...settingsPart()),
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
