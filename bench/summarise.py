#!/usr/bin/env python3
"""Accuracy of runs that differ in their seed: summarise.py RUN-SEED.jsonl ...   prints a Markdown table."""
import collections
import json
import pathlib
import statistics
import sys

groups = collections.defaultdict(list)
for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    start, end = records[0], records[-1]
    groups[pathlib.Path(name).stem.rsplit("-", 1)[0]].append((start, end))
print("| run | test accuracy, mean % | by seed | ratio | bytes a step and worker | lr | steps |")
print("|---|---|---|---|---|---|---|")
for name, runs in groups.items():
    accuracies = [100 * end["test_accuracy"] for _, end in runs]
    start, end = runs[0]
    print(f"| {name}: {end['method'].split(',exchange')[0]}, {end['strategy']} | **{statistics.mean(accuracies):.2f}** "
          f"| {' / '.join(f'{a:.2f}' for a in accuracies)} | {statistics.median(e['ratio'] for _, e in runs):.0f} "
          f"| {statistics.median(e['bytes_per_step'] for _, e in runs):,.0f} "
          f"| {start['optimizer'].split('lr=')[1].split(',')[0]} | {end['steps']:,} |")
