#!/usr/bin/env python3
"""What compression and delay cost in accuracy, against what they send, and how long training takes over links: docs/results/front.md.

    bench/front.py OUT_DIR           needs matplotlib, tiny Shakespeare and CIFAR-10 (TELEGRAD_DATA or data/); some minutes

front.svg has a point for each row below, from the records in docs/results: bytes that a worker sends per step in the run's second half (in
the whole run of post-local SGD, which begins with dense steps), and the accuracy or loss at the end, of several seeds the mean. A line joins
the runs that no other run beats in both. times.svg has the seconds until the panel's goal, over each link, for panels that have one: the step
is interpolated between two tests, of several seeds the mean, and put off to the end of its round. Steps are simulated
(`train --clock virtual --sim-only`), computing takes as long as the panel says, and coding no time. A simulation has the final density in all
steps; what a warm-up of the density sends in addition is added, at the rate of the link. Prints these times as Markdown tables, and of the other panels
the values and bytes.
TELEGRAD=build/release/telegrad"""
import math
import pathlib
import re
import statistics
import sys
import tempfile

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from labels import write_titles  # noqa: E402
from over_links import clock, simulate  # noqa: E402
from runs import by_row, joined  # noqa: E402
from summarise import is_complete, sent  # noqa: E402

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "docs" / "results"
LINKS = {"1 Gbit/s, 0.1 ms": "1gbit,100us", "100 Mbit/s, 5 ms": "100mbit,5ms", "20 Mbit/s, 20 ms": "20mbit,20ms", "5 Mbit/s, 50 ms": "5mbit,50ms"}
ADAPTING = ("adacomp", "strom")  # what they send depends on the gradients, which a simulation does not have
COMPRESSION, DELAY, BOTH, NONE = "#1f5fa8", "#c2480c", "#6b4aa0", "#222222"
# Rows: file, title, what it does.
IMAGES = [
    ("defaults/resnet20-dense", "dense", NONE), ("compression/resnet20-2bit-ahead", "2bit", COMPRESSION),
    ("defaults/resnet20-1bit", "1bit", COMPRESSION), ("defaults/resnet20-efsign", "efsign", COMPRESSION),
    ("defaults/resnet20-qsgd", "qsgd", COMPRESSION), ("compression/resnet20-topk-ahead", "topk 1 %", COMPRESSION),
    ("compression/resnet20-dgc-ahead", "dgc 0.1 %", COMPRESSION), ("compression/resnet20-adacomp-updates", "adacomp", COMPRESSION),
    ("defaults/resnet20-cltk", "cltk 1 %", COMPRESSION), ("defaults/resnet20-powersgd", "powersgd", COMPRESSION),
    ("compression/resnet20-cd5-updates", "cd k=5, 2bit", BOTH), ("compression/resnet20-dga4-2bit", "dga 4 late, 2bit", BOTH),
    ("defaults/resnet20-od", "od", DELAY), ("defaults/resnet20-dga4", "dga, 4 late", DELAY),
    ("defaults/resnet20-local8", "local, 8 steps", DELAY), ("defaults/resnet20-post-local", "post-local", DELAY),
    ("defaults/resnet20-diloco", "diloco, 100 steps", DELAY), ("defaults/resnet20-streaming", "streaming", DELAY),
]
TEXT = [
    ("updates/ssgd12-dense", "dense", NONE), ("defaults/gpt12-1bit", "1bit", COMPRESSION), ("updates/cd12", "cd k=5, 2bit", BOTH),
    ("updates/updates12-2bit-ahead", "2bit", COMPRESSION), ("updates/updates12-topk-ahead", "topk 1 %", COMPRESSION),
    ("updates/updates12-adacomp", "adacomp", COMPRESSION), ("defaults/gpt12-diloco", "diloco, 100 steps", DELAY),
    ("delays/gpt-demo", "demo", COMPRESSION), ("delays/gpt-local", "local, 30 steps *", DELAY),
    ("delays/gpt-diloco", "diloco, 30 steps *", DELAY), ("delays/gpt-streaming", "streaming, 30 steps, 4 bits *", BOTH),
    ("delays/gpt-sparseloco", "sparseloco, 30 steps *", BOTH), ("delays/gpt-fedavg5-iid", "fedavg, 5 steps *", DELAY),
    ("delays/gpt-fedavg20-iid", "fedavg, 20 steps *", DELAY), ("delays/gpt-dga20-5-iid", "dga 20 late, 5 steps *", DELAY),
]
SHORT_TEXT = [
    ("updates/ssgd-dense", "dense", NONE), ("updates/updates-2bit-ahead", "2bit", COMPRESSION), ("defaults/gpt-1bit", "1bit", COMPRESSION),
    ("defaults/gpt-efsign", "efsign", COMPRESSION), ("defaults/gpt-qsgd", "qsgd", COMPRESSION),
    ("updates/updates-topk-ahead", "topk 1 %", COMPRESSION), ("defaults/gpt-adacomp", "adacomp", COMPRESSION),
    ("defaults/gpt-cltk", "cltk 1 %", COMPRESSION), ("defaults/gpt-powersgd", "powersgd", COMPRESSION),
    ("defaults/gpt-powersgd-rank", "powersgd:rank=16", COMPRESSION), ("updates/cd5-ahead", "cd k=5, 2bit", BOTH), ("updates/od", "od", DELAY),
    ("updates/dga4", "dga, 4 late", DELAY), ("updates/local8", "local, 8 steps", DELAY), ("defaults/gpt-post-local", "post-local", DELAY),
    ("defaults/gpt-diloco", "diloco, 100 steps", DELAY), ("updates/diloco20", "diloco, 20 steps", DELAY),
    ("defaults/gpt-streaming", "streaming", DELAY), ("defaults/gpt-sparseloco", "sparseloco, 30 steps", BOTH),
]
CHARACTERS = [
    (f"defaults/charlstm-{row}", title, colour) for row, title, colour in (
        ("dense", "dense", NONE), ("2bit", "2bit", COMPRESSION), ("1bit", "1bit", COMPRESSION), ("efsign", "efsign", COMPRESSION),
        ("qsgd", "qsgd", COMPRESSION), ("topk", "topk 1 %", COMPRESSION), ("adacomp", "adacomp", COMPRESSION), ("cltk", "cltk 1 %", COMPRESSION),
        ("powersgd", "powersgd", COMPRESSION), ("cd", "cd k=5, 2bit", BOTH), ("od", "od", DELAY), ("dga4", "dga, 4 late", DELAY),
        ("local8", "local, 8 steps", DELAY), ("post-local", "post-local", DELAY), ("diloco", "diloco, 100 steps", DELAY),
        ("streaming", "streaming", DELAY))
]
# Title, rows, field, name of the axis, whether more is better, goal, computing of a step; goal None: only in front.svg.
PANELS = [
    ("ResNet-20 on CIFAR-10, 4 epochs", IMAGES, "test_accuracy", "test accuracy, %", True, 70, "85ms"),
    ("GPT on tiny Shakespeare, 12 epochs", TEXT, "test_loss", "test loss, nats", False, 1.7, "43ms"),
    ("GPT on tiny Shakespeare, 4 epochs", SHORT_TEXT, "test_loss", "test loss, nats", False, None, None),
    ("LSTM on tiny Shakespeare, 3 epochs", CHARACTERS, "test_loss", "test loss, nats", False, None, None),
]


def value(record, field):
    return 100 * record[field] if field == "test_accuracy" else record[field]


def load(rows):
    """[(title, colour, complete runs of the row's seeds)] of the rows that there are; dense training, the first, is needed."""
    found = []
    for name, title, colour in rows:
        runs = [run for each in by_row(sorted(RESULTS.glob(f"{name}-[0-9].jsonl*"))).values() for run in each if is_complete(run)]
        if runs:
            found.append((title, colour, runs))
        elif name == rows[0][0]:
            sys.exit(f"front.py: {name}: no complete run")
        else:
            print(f"front.py: {name}: no complete run", file=sys.stderr)
    return found


def bytes_per_step(records):
    begins_dense = re.search(r"after=[0.]*[1-9]", records[0]["strategy"])
    return joined(records)[-2]["bytes_sent"] / records[-1]["steps"] if begins_dense else sent(records)


def front(points, more):
    """Those that no other beats in both: fewer bytes, better value."""
    best, kept = None, []
    for x, y in sorted(points, key=lambda p: (p[0], -p[1] if more else p[1])):
        if best is None or (y > best if more else y < best):
            best = y
            kept.append((x, y))
    return kept


def draw(axes, panel):
    name, rows, field, label, more, _, _ = panel
    points = [(bytes_per_step(runs[0]), statistics.mean(value(r[-1], field) for r in runs), title, colour) for title, colour, runs in load(rows)]
    for x, y, _, colour in points:
        axes.plot(x, y, "o", color=colour, markersize=5)
    line = front([p[:2] for p in points], more)
    axes.plot([x for x, _ in line], [y for _, y in line], color="#888888", linewidth=1, zorder=0)
    axes.set(title=name, xlabel="bytes that a worker sends per step", ylabel=label, xscale="log")
    ys = [p[1] for p in points]
    room = 0.06 * (max(ys) - min(ys))
    axes.set_ylim(*((min(ys) - room, max(ys) + room) if more else (max(ys) + room, min(ys) - room)))  # better is up
    axes.set_xlim(left=0.5 * min(p[0] for p in points), right=3 * max(p[0] for p in points))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    write_titles(axes, points)


def reaches(records, field, more, goal):
    """(step, bytes sent until then) where a line between two tests meets the goal; None: it is not met."""
    before = None
    for record in joined(records):
        if record["type"] == "epoch" and record.get(field) is not None:
            reached, step, bytes_sent = test = value(record, field), record["step"], record["bytes_sent"]
            if reached >= goal if more else reached <= goal:
                if before is None:
                    return step, bytes_sent
                share = (goal - before[0]) / (reached - before[0])
                return before[1] + share * (step - before[1]), before[2] + share * (bytes_sent - before[2])
            before = test
    return None


def rate(link):
    """Bytes a second of "20mbit,20ms"."""
    text = link.split(",")[0]
    return float(text[:-4]) * {"g": 1e9, "m": 1e6}[text[-4]] / 8


def warm_up(records, step, bytes_sent):
    """Bytes that a warm-up of the density has added until the step, beside the initial parameters, which the first worker sends to the others."""
    parameters = 4 * records[0]["params"] * (records[0]["workers"] - 1)
    return max(0, bytes_sent - parameters - sent(records) * step) if re.search(r"warmup=[1-9]", records[0]["method"]) else 0


def end_of_round(start, step):
    """The end of the round of this step: averages count from there on."""
    every = re.search(r"every=(\d+)", start["strategy"])
    return min(start["steps"], int(every[1]) * math.ceil(step / int(every[1]))) if every else round(step)


def measure(panel, answer):
    """[(title, colour, value at the end, step of the goal or None, seconds until then over each link)]"""
    _, rows, field, _, more, goal, tau = panel
    found = []
    for title, colour, runs in load(rows):
        start = runs[0][0]
        met = [reaches(run, field, more, goal) for run in runs]
        step, bytes_sent = (statistics.mean(each) for each in zip(*met)) if all(met) else (None, None)
        seconds = []
        for link in LINKS.values() if step and not start["method"].startswith(ADAPTING) else ():
            total = simulate(answer, start, end_of_round(start, step), "--tau", tau, "--link", link)
            seconds.append(total + warm_up(runs[0], step, bytes_sent) / rate(link))
        found.append((title, colour, statistics.mean(value(r[-1], field) for r in runs), step, seconds))
    return found


def goal_of(panel):
    _, _, _, label, more, goal, _ = panel
    return f"{label.split(',')[0]} of {goal:g} {'%' if more else 'nats'}"


def draw_times(axes, panel, found):
    ends = []
    for title, colour, _, _, seconds in found:
        if seconds:
            axes.plot(range(len(LINKS)), seconds, "o-", color=colour, markersize=3.5, linewidth=1)
            ends.append((len(LINKS) - 1, seconds[-1], title, colour))
    axes.set(title=f"{panel[0].split(' on')[0]}: until a {goal_of(panel)}", ylabel="seconds", yscale="log", xticks=range(len(LINKS)))
    axes.set_xticklabels([link.replace(", ", "\n") for link in LINKS])
    axes.set_xlim(-0.2, len(LINKS) - 0.8)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    write_titles(axes, ends)


def print_times(panel, found):
    print(f"\n{panel[0]}: until a {goal_of(panel)}; a step computes for {panel[6]}\n")
    print("| run | at the end | steps until then |" + "".join(f" {link} |" for link in LINKS) + "\n|---|---|---|" + "---|" * len(LINKS))
    for title, _, last, step, seconds in found:
        cells = [clock(s) for s in seconds] or ["-"] * len(LINKS)
        print(f"| {title} | {f'{last:.2f} %' if panel[4] else f'{last:.3f}'} | {f'{step:,.0f}' if step else 'never'} | {' | '.join(cells)} |")


def print_bytes(panel):
    print(f"\n{panel[0]}: at the end, and the bytes that a worker sends per step\n")
    print("| run | at the end | bytes per step |\n|---|---|---|")
    for title, _, runs in load(panel[1]):
        print(f"| {title} | {statistics.mean(value(r[-1], panel[2]) for r in runs):.3f} | {bytes_per_step(runs[0]):,.0f} |")


def picture(path, draw_panel, arguments):
    """Two panels a line."""
    lines = (len(arguments) + 1) // 2
    figure, axes = plt.subplots(lines, 2, figsize=(12.4, 4.2 * lines))
    for place, each in zip(axes.flat, arguments):
        draw_panel(place, *each)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, bbox_inches="tight")


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    picture(out / "front.svg", draw, [(panel,) for panel in PANELS])
    with tempfile.TemporaryDirectory() as folder:
        found = [(panel, measure(panel, f"{folder}/answer.jsonl")) for panel in PANELS if panel[5] is not None]
    picture(out / "times.svg", draw_times, found)
    for each in found:
        print_times(*each)
    for panel in PANELS:
        if panel[5] is None:
            print_bytes(panel)


if __name__ == "__main__":
    main()
