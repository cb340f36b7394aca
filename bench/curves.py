#!/usr/bin/env python3
"""Learning curves of runs: curves.py OUT.svg [TITLE:]FIELD[@AXIS]=RUN-SEED.jsonl,... ...   one panel each, needs matplotlib.

FIELD is test_accuracy, test_loss or perplexity (the exponential of test_loss) of the records of epochs or tests, AXIS what they are drawn
against: epoch (without one), bytes (that the first worker sent), seconds (which `over_links.py --write` makes those of a link) or time
(the same, not logarithmic). Runs that differ in their seed share a colour; a file ending in .gz is read as it is. Where the records of
the runs have a title, it stands beside the end of the line in the place of a legend, and those of one first word share a colour."""
import math
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from labels import write_titles  # noqa: E402
from runs import by_row, joined  # noqa: E402

WORDS = {"test_accuracy": "test accuracy, %", "test_loss": "test loss, nats", "perplexity": "test perplexity"}
INKS = ["#1f5fa8", "#c2480c", "#2b7a3d", "#6b4aa0"]  # dark enough for text
AXES = {"epoch": ("epoch", None), "bytes": ("bytes that a worker sent", "bytes_sent"), "seconds": ("seconds", "seconds"),
        "time": ("seconds of training", "seconds")}


def curve(records, field, axis):
    """(places on the axis, values)"""
    places, values = [], []
    for record in joined(records):
        if record["type"] in ("epoch", "test") and record.get("test_loss") is not None:
            loss = record["test_loss"]
            places.append(record[axis] if axis else record["epoch"] + 1)
            values.append({"test_accuracy": 100 * record["test_accuracy"], "test_loss": loss, "perplexity": math.exp(min(loss, 50))}[field])
    return places, values


def draw(axes, panel):
    head, files = panel.split("=", 1)
    title, _, what = head.rpartition(":")
    field, _, kind = what.partition("@")
    label, axis = AXES[kind or "epoch"]
    last, ends, groups = [], [], []
    for number, (row, runs) in enumerate(by_row(files.split(",")).items()):
        named = runs[0][0].get("title")
        if named and named.split()[0] not in groups:
            groups.append(named.split()[0])
        colour = INKS[groups.index(named.split()[0])] if named else f"C{number}"
        for i, (places, values) in enumerate(curve(records, field, axis) for records in runs):
            axes.plot(places, values, color=colour, linewidth=1.4, alpha=0.85, label=row if i == 0 else None)
            last += values[len(values) // 4:]
            if named:
                ends.append((places[-1], values[-1], named, colour))
    if field != "test_accuracy" and last:
        axes.set_ylim(top=max(last) + 0.3 * (max(last) - min(last)))
    elif last:
        axes.set_ylim(min(last) - 0.3 * (max(last) - min(last)), max(last) + 0.1 * (max(last) - min(last)))
    axes.set(title=title, xlabel=label, ylabel=WORDS[field])
    if kind == "time":
        axes.set_xlim(left=0)
    elif axis:
        axes.set_xscale("log")
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    if ends:
        write_titles(axes, ends)
        axes.spines[["top", "right"]].set_visible(False)
    else:
        axes.legend(frameon=True, framealpha=0.85, edgecolor="none", fontsize=8)


def main():
    if len(sys.argv) < 3 or any("=" not in panel for panel in sys.argv[2:]):
        sys.exit(__doc__)
    panels = sys.argv[2:]
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(5 * columns, 3.4 * lines), squeeze=False)
    for place, panel in zip(axes.flat, panels):
        draw(place, panel)
    for place in list(axes.flat)[len(panels):]:
        place.remove()
    figure.tight_layout()
    figure.savefig(sys.argv[1], metadata={"Date": None} if sys.argv[1].endswith(".svg") else None,
                   bbox_inches="tight" if any(place.texts for place in axes.flat) else None)


main()
