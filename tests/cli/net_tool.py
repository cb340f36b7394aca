"""Runs the command as processes that meet over 127.0.0.1, if it was built with libtelegrad-net."""
import os
import subprocess
import sys
from cli_tool import CliTest, ENVIRONMENT, TELEGRAD, run
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from free_port import free_port

AVAILABLE = run("key", "--help").returncode == 0
WHY = "SKIP: the command was built without OpenSSL 3"


def start(*args, prefix=(), cwd=None):
    return subprocess.Popen([*prefix, TELEGRAD, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=ENVIRONMENT, cwd=cwd)


class Done:
    """What subprocess.run would return, of a process that was started."""

    def __init__(self, process, timeout=120):
        try:
            self.stdout, self.stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            self.stdout, self.stderr = process.communicate()
            self.stderr += "killed by the test\n"
        self.returncode = process.returncode


class NetTest(CliTest):
    def setUp(self):
        super().setUp()
        self.running = []
        self.addCleanup(self.end_all)
        self.port = free_port()
        self.meeting = f"tcp://127.0.0.1:{self.port}"

    def end_all(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def start(self, *args, **more):
        self.running.append(start(*args, **more))
        return self.running[-1]

    def new_keys(self, count):
        """Makes 0.key, 1.key, ... and the list "friends" of all but the first. Returns the public keys."""
        public = [self.ok("key", "new", self.path(f"{r}.key")).strip() for r in range(count)]
        with open(self.path("friends"), "w", encoding="utf-8") as file:
            file.writelines(f"{key} rank {r}\n" for r, key in enumerate(public) if r > 0)
        self.public = public
        return public

    def options(self, rank, ranks):
        """How a rank meets the others, with the keys of new_keys."""
        if rank == 0:
            return ["--listen", self.meeting, "--ranks", str(ranks), "--key", self.path("0.key"), "--allow", self.path("friends")]
        return ["--join", self.meeting, "--peer-key", self.public[0], "--key", self.path(f"{rank}.key")]

    def job(self, ranks, *args, own=lambda rank: [], timeout=120):
        """Runs a command on several ranks. own(rank): more arguments of one."""
        if not os.path.exists(self.path(f"{ranks - 1}.key")):
            self.new_keys(ranks)
        processes = [self.start(*args, *self.options(rank, ranks), *own(rank)) for rank in range(ranks)]
        return [Done(process, timeout) for process in processes]
