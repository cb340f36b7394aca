"""Ranks that use PyTorch, which takes seconds to import: a process imports it once, and forks the ranks of each job.

    with Jobs() as jobs:
        for status, output, errors in jobs.run("ddp_rank.py", 2, "methods"): ...

A rank runs its script as `python SCRIPT RANK SIZE PORT ARGUMENT...` would, up to the interpreter's exit.
"""
import json
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from ranks import free_port

HERE = pathlib.Path(__file__).resolve().parent


class Jobs:
    def __init__(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        self.process = subprocess.Popen([sys.executable, __file__], text=True, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.version = self.process.stdout.readline().strip()
        if not self.version:
            self.close()
            raise unittest.SkipTest(f"no PyTorch in {sys.executable}")

    def run_alike(self, script, size, *arguments, **more):
        """The same for ranks that end well and print the same, which is returned."""
        ended = self.run(script, size, *arguments, **more)
        for status, output, errors in ended:
            if status != 0 or output != ended[0][1]:
                raise AssertionError("\n".join(f"status {s}: {o}{e}" for s, o, e in ended))
        return ended[0][1]

    def run(self, script, size, *arguments, timeout=60, launcher="test"):
        """(status, output, errors) of each rank. Those that do not end in time are killed.

        launcher  "torchrun": RANK and the like are in the environment, and not among the arguments; "none": they are nowhere
        """
        with tempfile.TemporaryDirectory() as folder:
            job = {"script": str(HERE / script), "size": size, "port": str(free_port()), "arguments": arguments, "folder": folder,
                   "timeout": timeout, "launcher": launcher}
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            ended = json.loads(self.process.stdout.readline())
            read = lambda name: pathlib.Path(folder, name).read_text(errors="replace")  # noqa: E731
            return [(status, read(f"{rank}.out"), read(f"{rank}.err")) for rank, status in enumerate(ended)]

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _wait(children, timeout):
    """The status of each, as subprocess gives it."""
    ended, deadline = {}, time.monotonic() + timeout
    while len(ended) < len(children):
        for pid in children:
            if pid not in ended:
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    ended[pid] = os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            for pid in set(children) - set(ended):
                os.kill(pid, signal.SIGKILL)
            deadline += timeout
        time.sleep(0.02)
    return [ended[pid] for pid in children]


def _serve():
    """Run jobs until the end of the input; in a rank, return its script and arguments."""
    for line in sys.stdin:
        job = json.loads(line)
        children = []
        for rank in range(job["size"]):
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                for fd, name in ((1, "out"), (2, "err")):
                    os.dup2(os.open(os.path.join(job["folder"], f"{rank}.{name}"), os.O_WRONLY | os.O_CREAT), fd)
                own = {"RANK": str(rank), "WORLD_SIZE": str(job["size"]), "MASTER_PORT": job["port"]}
                if job["launcher"] == "test":
                    return [job["script"], *own.values(), *job["arguments"]]
                if job["launcher"] == "torchrun":
                    os.environ.update(own, LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1")
                return [job["script"], *job["arguments"]]
            children.append(pid)
        print(json.dumps(_wait(children, job["timeout"])), flush=True)
    return None


def main(test):
    """Run the tests of a module that use `test.jobs`. Status 77: this Python has no PyTorch."""
    try:
        test.jobs = Jobs()
    except unittest.SkipTest as error:
        print("SKIP:", error)
        sys.exit(77)
    with test.jobs:
        print("PyTorch", test.jobs.version)
        result = unittest.main(test, exit=False).result
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    try:
        import torch
        import torch.distributed
        import torch.nn.parallel  # noqa: F401
    except ImportError:
        sys.exit()
    try:
        import torch._dynamo  # noqa: F401 (which optimizers of PyTorch 2 import)
    except ImportError:
        pass
    print(torch.__version__, flush=True)
    sys.argv = _serve()
    if sys.argv is not None:
        sys.path[0] = str(HERE)
        runpy.run_path(sys.argv[0], run_name="__main__")
