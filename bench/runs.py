"""What the scripts beside it share: reading the records of runs, which are named ROW-SEED.jsonl or ROW-SEED.jsonl.gz."""
import collections
import gzip
import json
import pathlib


def read(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def by_row(names):
    """{row: [records of a seed, ...]} in the order given."""
    rows = collections.defaultdict(list)
    for path in map(pathlib.Path, names):
        rows[path.name.split(".jsonl")[0].rsplit("-", 1)[0]].append(read(path))
    return rows
