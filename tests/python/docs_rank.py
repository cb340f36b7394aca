"""One rank of package_test.py: RANK SIZE PORT WHAT. Runs the Python blocks of docs/WHAT.md one after the other, as a script that has the
usual names; or, for "help", the examples in the help of each public name."""
import atexit
import collections
import contextlib
import doctest
import importlib
import os
import pathlib
import re
import shutil
import sys
import tempfile
import textwrap

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import ranks
import served

RANK, SIZE, PORT, WHAT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
ROOT = pathlib.Path(__file__).resolve().parents[2]
FSDP = int(torch.__version__.split(".")[0]) > 1


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Embedding(20, 8), torch.nn.Linear(8, 4))


def served_here(path):
    """A server with keys, that of the workers in a file. Returns its address and its key."""
    import telegrad
    own, workers = telegrad.Key(), telegrad.Key()
    own.save("server.key")
    workers.save(path)
    descriptor = os.open("workers", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, f"{workers.public} all\n".encode())
    os.close(descriptor)
    server = served.Server("--key", "server.key", "--allow", "workers")
    atexit.register(server.kill)
    return server.address, own.public


def run_blocks(text):
    """Each block's first line and, where it made a hook, a training step with it."""
    names = {"torch": torch, "dist": dist, "DistributedDataParallel": DistributedDataParallel, "rank": RANK, "network": network(),
             "replicas": SIZE, "shards": 1, "nodes": SIZE, "gpus": 1}
    if FSDP:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        names.update(init_device_mesh=init_device_mesh, fully_shard=fully_shard)
    for block in re.findall(r"(?ms)^```python\n(.*?)^```$", text):
        line = text[:text.index(block)].count("\n") + 1
        if "init_device_mesh" in block and not FSDP:
            continue
        block = block.replace('mesh("cuda"', 'mesh("cpu"')
        if "rules=" in block or "node=" in block:  # a model has one hook
            names.update(net=names["telegrad"].torch.Network(), model=DistributedDataParallel(torch.nn.Sequential(
                collections.OrderedDict(embed=torch.nn.Embedding(20, 8), last=torch.nn.Linear(8, 4)))))
        elif "fully_shard" in block:
            names["network"] = network()
        model = names.get("model", names["network"])
        if "backward" in block and "Local(" not in block and "torch.server(" not in block:
            names["loss"] = model(torch.arange(5)).sum()
        if "optimizer.state_dict" in block:
            names["optimizer"] = torch.optim.SGD(model.parameters(), 0.1)
        names["gradient"] = torch.ones(30)
        names["gradient"].size = 30
        if "torch.server(" in block:
            if not served.AVAILABLE:
                continue
            told = [served_here(re.search(r'load\("(.*?)"\)', block)[1]) if RANK == 0 else None]
            dist.broadcast_object_list(told)
            block = block.replace("tcp://host-a:4242", told[0][0]).replace("tgk1:...", told[0][1])
        if "Local(" in block or "torch.server(" in block:  # another model, and batches of its own
            names.update(model=network(), loss=torch.nn.functional.cross_entropy, evaluate=lambda model: None,
                         data=[(torch.arange(5) + RANK, torch.arange(5) % 4)] * 3)
        if "Network.meet" in block:
            names["key"] = names["telegrad"].Key()
            told = [None] * SIZE
            dist.all_gather_object(told, (names["key"].public, ranks.free_port()))
            names.update(size=SIZE, public_key_of_rank_0=told[0][0], public_keys_of_the_others=[public for public, _ in told[1:]])
            block = block.replace("{7000 + rank}", "0").replace("first-machine:7000", "127.0.0.1:7000").replace("7000", str(told[0][1]))
        if "continue" in block:
            block = "for _ in range(1):\n" + textwrap.indent(block, "    ")
        names["ranks_before"] = SIZE
        exec(compile(block, f"docs/{WHAT}.md:{line}", "exec"), names)
        if "hook =" in block and "model = Dis" in block:
            names["model"](torch.arange(5)).sum().backward()
            assert names["hook"].stats()["steps"] == 1
        dist.barrier()  # what one rank saves, another loads
        print("line", line, flush=True)
    if "net" in names:
        names["net"].close()
    dist.barrier()


def run_help():
    """Each public name has an example, which runs: those of telegrad.integrations in integrations_test.py, because they need the
    frameworks; those of FSDP2 where PyTorch has it."""
    attempted = 0
    for place in ("telegrad.doctor", "telegrad", "telegrad.torch", "telegrad.integrations"):
        module = importlib.import_module(place)
        if place == "telegrad":  # a job of one rank, which the doctor would take part in
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT, RANK="0", WORLD_SIZE="1")
            dist.init_process_group("gloo")
        for name in module.__all__:
            public = getattr(module, name)
            if name == "__version__":
                continue
            assert public.__module__ == place, (place, public.__module__)
            tests = [test for test in doctest.DocTestFinder().find(public, name, module=False, globs={}) if test.examples]
            assert name in [test.name for test in tests], f"{place}.{name} has no example"
            if place == "telegrad.integrations" or (name.lower().startswith("fsdp") and not FSDP):
                continue
            serves = name in ("server", "Worker")
            if serves and not served.AVAILABLE:
                continue
            with served.Server("--optimizer", "sgd:lr=0.01") if serves else contextlib.nullcontext() as server:
                for test in tests:
                    test.globs["address"] = server.address if serves else None
                    result = doctest.DocTestRunner().run(test)
                    assert result.failed == 0, name
                    attempted += result.attempted
    print(attempted, "examples")


def main():
    import telegrad.torch  # noqa: F401
    if WHAT == "help":
        run_help()
        return
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT, RANK=str(RANK), WORLD_SIZE=str(SIZE))
    text = (ROOT / "docs" / f"{WHAT}.md").read_text(encoding="utf-8")
    folder = pathlib.Path(tempfile.gettempdir(), f"telegrad-docs-{os.getppid()}-{PORT}")  # of all ranks
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    if WHAT != "pytorch":  # which says how
        dist.init_process_group("gloo")
    run_blocks(text)
    os.chdir(ROOT)
    if RANK == 0:  # run_blocks ends with a barrier
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
