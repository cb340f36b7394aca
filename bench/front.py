#!/usr/bin/env python3
"""What compression and delay cost in accuracy, against what they send, and how long training takes over links: docs/results/front.md.

    bench/front.py OUT_DIR           needs matplotlib, tiny Shakespeare and CIFAR-10 (TELEGRAD_DATA or data/); some minutes

front.svg has a point for each row below, from the records in docs/results: bytes that a worker sends per step in the run's second half, and the accuracy or loss
at the end, of several seeds the mean. A line joins the runs that no other run beats in both. times.svg has the seconds until a test first
reaches the panel's goal, over each link: steps are simulated (`train --clock virtual --sim-only`), computing takes as long as the panel
says, and coding no time. A simulation has the final density in all steps; what a warm-up of the density sends in addition is added, at
the rate of the link. Prints these times as Markdown tables.
TELEGRAD=build/release/telegrad"""
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
from summarise import sent  # noqa: E402

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "docs" / "results"
LINKS = {"1 Gbit/s, 0.1 ms": "1gbit,100us", "100 Mbit/s, 5 ms": "100mbit,5ms", "20 Mbit/s, 20 ms": "20mbit,20ms", "5 Mbit/s, 50 ms": "5mbit,50ms"}
ADAPTING = ("adacomp", "strom")  # what they send depends on the gradients, which a simulation does not have
COMPRESSION, DELAY, BOTH, NONE = "#1f5fa8", "#c2480c", "#6b4aa0", "#222222"
# Rows: file, title, what it does.
IMAGES = [
    ("defaults/resnet20-dense", "dense", NONE), ("compression/resnet20-2bit-ahead", "2bit", COMPRESSION),
    ("defaults/resnet20-1bit", "1bit", COMPRESSION), ("defaults/resnet20-efsign", "efsign", COMPRESSION),
    ("compression/resnet20-topk-ahead", "topk 1 %", COMPRESSION), ("compression/resnet20-dgc-ahead", "dgc 0.1 %", COMPRESSION),
    ("compression/resnet20-adacomp-updates", "adacomp", COMPRESSION), ("defaults/resnet20-powersgd", "powersgd", COMPRESSION),
    ("compression/resnet20-cd5-updates", "cd k=5, 2bit", BOTH), ("compression/resnet20-dga4-2bit", "dga 4 late, 2bit", BOTH),
    ("defaults/resnet20-od", "od", DELAY), ("defaults/resnet20-local8", "local, 8 steps", DELAY),
]
TEXT = [
    ("delays/gpt-ssgd", "dense", NONE), ("updates/updates12-1bit", "1bit", COMPRESSION), ("updates/cd12", "cd k=5, 2bit", BOTH),
    ("updates/updates12-2bit-ahead", "2bit", COMPRESSION), ("updates/updates12-topk-ahead", "topk 1 %", COMPRESSION),
    ("updates/updates12-adacomp", "adacomp", COMPRESSION),
    ("delays/gpt-demo", "demo", COMPRESSION), ("delays/gpt-local", "local, 30 steps", DELAY),
    ("delays/gpt-diloco", "diloco, 30 steps", DELAY), ("delays/gpt-streaming", "streaming, 30 steps, 4 bits", BOTH),
    ("delays/gpt-sparseloco", "sparseloco, 30 steps", BOTH), ("delays/gpt-fedavg5-iid", "fedavg, 5 steps", DELAY),
    ("delays/gpt-fedavg20-iid", "fedavg, 20 steps", DELAY), ("delays/gpt-dga20-5-iid", "dga 20 late, 5 steps", DELAY),
]
# Title, rows, field, name of the axis, whether more is better, goal, computing of a step.
PANELS = [
    ("ResNet-20 on CIFAR-10, 4 epochs", IMAGES, "test_accuracy", "test accuracy, %", True, 70, "85ms"),
    ("GPT on tiny Shakespeare, 12 epochs", TEXT, "test_loss", "test loss, nats", False, 1.7, "43ms"),
]


def value(record, field):
    return 100 * record[field] if field == "test_accuracy" else record[field]


def load(rows):
    """[(title, colour, runs of the row's seeds)] of the rows that there are."""
    found = []
    for name, title, colour in rows:
        files = sorted(RESULTS.glob(f"{name}-[0-9].jsonl*"))
        if files:
            found.append((title, colour, next(iter(by_row(files).values()))))
    return found


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
    points = [(sent(runs[0]), statistics.mean(value(r[-1], field) for r in runs), title, colour) for title, colour, runs in load(rows)]
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
    """The step of the first test that is as good as the goal; None: none is."""
    for record in joined(records):
        if record["type"] == "epoch" and record.get(field) is not None:
            if value(record, field) >= goal if more else value(record, field) <= goal:
                return record["step"]
    return None


def rate(link):
    """Bytes a second of "20mbit,20ms"."""
    text = link.split(",")[0]
    return float(text[:-4]) * {"g": 1e9, "m": 1e6}[text[-4]] / 8


def warm_up(records, step):
    """Bytes that a warm-up of the density has added until the step."""
    if not re.search(r"warmup=[1-9]", records[0]["method"]):
        return 0
    done = next(record for record in joined(records) if record["type"] == "epoch" and record["step"] == step)
    return max(0, done["bytes_sent"] - sent(records) * step)


def measure(panel, answer):
    """[(title, colour, value at the end, step of the goal or None, seconds until then over each link)]"""
    _, rows, field, _, more, goal, tau = panel
    found = []
    for title, colour, runs in load(rows):
        start, end = runs[0][0], runs[0][-1]
        step = reaches(runs[0], field, more, goal)
        seconds = []
        for link in LINKS.values() if step and not start["method"].startswith(ADAPTING) else ():
            total = simulate(answer, start, start["steps"], "--tau", tau, "--link", link)
            seconds.append(total * step / start["steps"] + warm_up(runs[0], step) / rate(link))
        found.append((title, colour, value(end, field), step, seconds))
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
        print(f"| {title} | {f'{last:.2f} %' if panel[4] else f'{last:.3f}'} | {f'{step:,}' if step else 'never'} | {' | '.join(cells)} |")


def picture(path, draw_panel, arguments):
    figure, axes = plt.subplots(1, len(arguments), figsize=(6.2 * len(arguments), 4.2))
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
        found = [(panel, measure(panel, f"{folder}/answer.jsonl")) for panel in PANELS]
    picture(out / "times.svg", draw_times, found)
    for each in found:
        print_times(*each)


if __name__ == "__main__":
    main()
