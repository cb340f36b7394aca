#!/usr/bin/env python3
"""What runs that differ in their seed have learned: summarise.py RUN-SEED.jsonl ...   prints a Markdown table."""
import math
import statistics
import sys
from runs import by_row


def percent(end):
    return 100 * end["test_accuracy"]


def perplexity(end):
    return math.exp(end["test_loss"])


def loss(end):
    return end["test_loss"]


def quality(start):
    """How good a run is: its name, the figure, digits behind the point."""
    if not start.get("context"):
        return "test accuracy, mean %", percent, 2
    return ("test perplexity, mean", perplexity, 1) if "wiki" in start["data"] else ("test loss, mean nats", loss, 3)


def sent(records):
    """Bytes a step of the run's second half. One that was resumed has an end for each part, which tells of the part's own second half."""
    total = weight = first = 0
    last = records[-1]["steps"]
    for record in records:
        if record["type"] == "start":
            first = record["first_step"]
        elif record["type"] == "end":
            late = record["steps"] - max(first, last // 2)
            if late > 0:
                total, weight = total + late * record["bytes_per_step"], weight + late
    return total / weight


def size(records):
    end = records[-1]
    if "ratio" not in end:
        return ["PyTorch", "", ""]
    return [f"{end['method'].split(',exchange')[0]}, {end['strategy']}", f"{end['ratio']:.0f}", f"{sent(records):,.0f}"]


def is_complete(records):
    """A run that was stopped ends without a test."""
    end = records[-1]
    return end["type"] == "end" and None not in (end.get("test_loss", 0), end.get("test_accuracy", 0))


def main():
    head = None
    for name, all_runs in by_row(sys.argv[1:]).items():
        runs = [records for records in all_runs if is_complete(records)]
        if len(runs) < len(all_runs):
            print(f"{name}: {len(all_runs) - len(runs)} of {len(all_runs)} runs are not complete", file=sys.stderr)
        if not runs:
            continue
        middle = sorted(runs, key=lambda records: records[-1].get("ratio", 0))[len(runs) // 2]
        start, end = runs[0][0], middle[-1]
        title, figure, digits = quality(start)
        if title != head:
            head = title
            print(f"| run | {title} | by seed | ratio | bytes a step and worker | lr | steps |\n|---|---|---|---|---|---|---|")
        values = [figure(records[-1]) for records in runs]
        what, ratio, size_of_step = size(middle)
        print(f"| {name}: {what} | **{statistics.mean(values):.{digits}f}** | {' / '.join(f'{v:.{digits}f}' for v in values)} | {ratio} "
              f"| {size_of_step} | {start['optimizer'].split('lr=')[1].split(',')[0]} | {end['steps']:,} |")


if __name__ == "__main__":
    main()
