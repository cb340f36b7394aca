"""What the scripts beside it share: reading the records of runs, which are named ROW-SEED.jsonl or ROW-SEED.jsonl.gz."""
import collections
import gzip
import json
import pathlib


def read(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def joined(records):
    """The start, epochs (or the tests of slow_link.py) and end of a run: of one that was resumed as if it had not been, with bytes and seconds
    that go on from part to part."""
    first = 0
    epochs, done = [], {"step": 0, "bytes_sent": 0, "seconds": 0}
    for record in records:
        if record["type"] == "start":
            first = record.get("first_step", 0)
            epochs = [epoch for epoch in epochs if epoch["step"] <= first]
            done = epochs[-1] if epochs else done
        elif record["type"] == "epoch":
            epochs = [epoch for epoch in epochs if epoch["epoch"] < record["epoch"]]
            counts = {count: done[count] + record[count] for count in ("bytes_sent", "seconds") if count in record}
            epochs.append({**record, **counts})
        elif record["type"] == "test":
            epochs.append(record)
    return [records[0], *epochs, records[-1]]


def by_row(names):
    """{row: [records of a seed, ...]} in the order given."""
    rows = collections.defaultdict(list)
    for path in map(pathlib.Path, names):
        rows[path.name.split(".jsonl")[0].rsplit("-", 1)[0]].append(read(path))
    return rows
