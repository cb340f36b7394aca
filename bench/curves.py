#!/usr/bin/env python3
"""Learning curves of runs: curves.py OUT.svg [TITLE:]FIELD=RUN-SEED.jsonl,... ...   one panel each, needs matplotlib.

FIELD is test_accuracy, test_loss or perplexity (the exponential of test_loss) of the records of epochs. Runs that differ in their
seed share a colour; a file ending in .gz is read as it is."""
import math
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from runs import by_row  # noqa: E402

WORDS = {"test_accuracy": "test accuracy, %", "test_loss": "test loss, nats", "perplexity": "test perplexity"}


def curve(records, field):
    """{epoch: value}: a record of a resumed run replaces that of the stopped one."""
    values = {}
    for record in records:
        if record["type"] == "epoch" and record.get("test_loss") is not None:
            loss = record["test_loss"]
            value = {"test_accuracy": 100 * record["test_accuracy"], "test_loss": loss, "perplexity": math.exp(min(loss, 50))}[field]
            values[record["epoch"] + 1] = value
    return values


def draw(axes, panel):
    head, files = panel.split("=", 1)
    title, _, field = head.rpartition(":")
    last = []
    for number, (row, runs) in enumerate(by_row(files.split(",")).items()):
        for i, values in enumerate(curve(records, field) for records in runs):
            axes.plot(list(values), list(values.values()), color=f"C{number}", linewidth=1.4, alpha=0.85,
                      label=row if i == 0 else None)
            last += list(values.values())[len(values) // 4:]
    if field != "test_accuracy" and last:
        axes.set_ylim(top=max(last) + 0.3 * (max(last) - min(last)))
    elif last:
        axes.set_ylim(min(last) - 0.3 * (max(last) - min(last)), max(last) + 0.1 * (max(last) - min(last)))
    axes.set(title=title, xlabel="epoch", ylabel=WORDS[field])
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)


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
    figure.savefig(sys.argv[1], metadata={"Date": None} if sys.argv[1].endswith(".svg") else None)


main()
