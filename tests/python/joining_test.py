"""Joining from Python: Ctrl-C ends it, the interpreter's exit, too, and wrong arguments are named."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import ranks
import telegrad

WAITS = {
    "meet": "telegrad.Network.meet('tcp://127.0.0.1:{port}', 2, key=key, allow=[telegrad.Key().public])",
    "join": "telegrad.Network.join('tcp://127.0.0.1:{port}', key=key, peer_key=key.public)",
}
INTERRUPTED = """
import telegrad, time
key = telegrad.Key()
print("begins", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
"""
EXITS = """
import telegrad, threading, time
key = telegrad.Key()
def wait():
    {call}
threading.Thread(target=wait, daemon=True).start()
time.sleep(0.5)
print("exits", flush=True)
"""


class Joining(unittest.TestCase):
    def start(self, script, name):
        script = script.replace("{call}", WAITS[name].replace("{port}", str(ranks.free_port())))
        process = subprocess.Popen([sys.executable, "-c", script], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        return process

    def test_interrupted(self):
        started = {name: self.start(INTERRUPTED, name) for name in WAITS}
        for process in started.values():
            self.assertEqual(process.stdout.readline(), "begins\n")
        time.sleep(0.7)
        for name, process in started.items():
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=30)
            self.assertEqual((process.returncode, output, errors), (0, "KeyboardInterrupt\n", ""), name)
            self.assertLess(time.monotonic() - begun, 10)  # not after the timeout, which is 60 s

    def test_exit_while_a_thread_waits(self):
        started = {name: self.start(EXITS, name) for name in WAITS}
        for name, process in started.items():
            output, errors = process.communicate(timeout=30)
            self.assertEqual((process.returncode, output), (0, "exits\n"), errors)
            self.assertNotIn("Fatal", errors)

    def test_a_meeting_that_was_interrupted_is_repeated(self):
        """The port is free again, and others join the second time."""
        port = ranks.free_port()
        script = f"""
import os, signal, threading, telegrad
address = "tcp://127.0.0.1:{port}"
timer = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT])
timer.start()
try:
    telegrad.Network.meet(address, 2, insecure=True)
except KeyboardInterrupt:
    threading.Thread(target=lambda: telegrad.Network.join(address, insecure=True), daemon=True).start()
    with telegrad.Network.meet(address, 2, insecure=True) as net:
        print(net)
"""
        done = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, timeout=60)
        self.assertEqual(done.stdout, "<telegrad.Network: rank 0 of 2>\n", done.stderr)

    def test_arguments(self):
        key, address = telegrad.Key(), "tcp://127.0.0.1:1"
        for words, call in (
                ("key: a str: allowed: a telegrad.Key", lambda: telegrad.Network.join(address, key="b.key", peer_key=key.public)),
                ("key: a str: allowed", lambda: telegrad.Network.meet(address, 2, key=key.public, allow=[key.public])),
                ("key: None: allowed", lambda: telegrad.Network.join(address)),
                ("allow: a str: allowed: a list", lambda: telegrad.Network.meet(address, 2, key=key, allow=key.public)),
                ("allow[0]: a Key: allowed: a public key as text", lambda: telegrad.Network.meet(address, 2, key=key, allow=[key])),
                ("allow[1]: 'friends' is no public key", lambda: telegrad.Network.meet(address, 2, key=key, allow=[key.public, "friends"])),
                ("is no public key", lambda: telegrad.Network.meet(address, 2, key=key, allow=[f"{key.public}\n{key.public}"])),
                ("peer_key: a Key: allowed", lambda: telegrad.Network.join(address, key=key, peer_key=key)),
                ("peer_key: 'tgk1:x' is no public key", lambda: telegrad.Network.join(address, key=key, peer_key="tgk1:x")),
                ("address: a int: allowed: a str", lambda: telegrad.Network.join(4242, key=key, peer_key=key.public)),
                ("path: a Key", lambda: telegrad.Key.load(key))):
            with self.assertRaises(telegrad.ArgumentError) as raised:
                call()
            self.assertIn(words, str(raised.exception))
        with tempfile.TemporaryDirectory() as folder:
            key.save(pathlib.Path(folder, "a.key"))
            self.assertEqual(telegrad.Key.load(os.path.join(folder, "a.key")).public, key.public)


if __name__ == "__main__":
    unittest.main()
