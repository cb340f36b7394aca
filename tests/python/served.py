"""Servers for tests: `telegrad serve` as a process, over 127.0.0.1."""
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from free_port import free_port

COMMAND = pathlib.Path(os.environ.get("TELEGRAD_LIBRARY_DIR", "."), "telegrad")
AVAILABLE = COMMAND.exists() and subprocess.run([COMMAND, "serve", "--help"], capture_output=True).returncode == 0
WHY = "SKIP: the command was built without OpenSSL 3, or not at all"


def command(*arguments):
    """What a command prints."""
    return subprocess.run([COMMAND, *map(str, arguments)], check=True, capture_output=True, text=True, timeout=60).stdout


class Server:
    """with Server("--workers", "2") as server: server.address. Without --key it is insecure."""

    def __init__(self, *arguments, port=None):
        self.port = port or free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        keys = [] if "--key" in arguments else ["--insecure"]
        self.process = subprocess.Popen([COMMAND, "serve", "--listen", self.address, *keys, *map(str, arguments)], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.said = ""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.told("listens at")

    def _read(self):
        for line in self.process.stderr:
            self.said += line

    def told(self, part, seconds=60, times=1):
        """Wait until it has said this, so many times."""
        until = time.monotonic() + seconds
        while self.said.count(part) < times:
            if time.monotonic() > until:
                raise AssertionError(f"{part!r} was not said: {self.said}")
            time.sleep(0.01)

    def kill(self):
        self.process.kill()
        self.process.wait(20)
        self.reader.join(20)
        self.process.stdout.close()
        self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
