"""Joining from Python: Ctrl-C ends it, the interpreter's exit, too, and wrong arguments are named."""
import gc
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref
from unittest import mock

import ranks
import telegrad
from telegrad import _network, _store

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

    def stuck(self, join):
        """Call join, whose tg_net_join does not return when it is asked to stop. Returns what lets it go."""
        go, inside = threading.Event(), threading.Event()

        def tg_net_join(config, membership):
            inside.set()
            go.wait(30)
            return telegrad._c.TG_E_STOPPED

        def interrupt():
            inside.wait(30)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        with mock.patch.object(telegrad._c, "tg_net_join", tg_net_join), mock.patch.object(_network, "_STOP_S", 0.05):
            self.assertRaises(KeyboardInterrupt, join)
        gc.collect()
        return go

    def wait_until(self, what):
        deadline = time.monotonic() + 30
        while not what() and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.01)
        self.assertTrue(what())

    def test_what_a_join_uses_lives_until_it_returns(self):
        """Whoever waits gives up while the thread is still inside the library."""
        destroyed, destroy = [], telegrad._c.tg_keys_destroy
        with mock.patch.object(telegrad._c, "tg_keys_destroy", lambda keys: (destroyed.append(keys), destroy(keys))):
            key = telegrad.Key()
            lives = weakref.ref(key)
            go = self.stuck(lambda: telegrad.Network.meet("tcp://127.0.0.1:1", 2, key=key, allow=[key.public]))
            del key
            gc.collect()
            self.assertEqual(destroyed, [])
            self.assertIsNotNone(lives())
            go.set()
            self.wait_until(lambda: destroyed and lives() is None)

    def test_what_a_store_is_asked_by_lives_until_the_join_returns(self):
        made, store = [], mock.Mock()

        def making(function):
            def make(call):
                new = function(call)
                made.append(weakref.ref(new))
                return new
            return make
        store.add.return_value = 0
        with mock.patch.object(_store, "_set_function", making(_store._set_function)), \
                mock.patch.object(_store, "_get_function", making(_store._get_function)):
            go = self.stuck(lambda: _store.Store(store, "", 0, 1, 60).join(None, None))
        self.assertEqual([function() is None for function in made], [False, False])
        go.set()
        self.wait_until(lambda: all(function() is None for function in made))

    def test_arguments(self):
        key, address = telegrad.Key(), "tcp://127.0.0.1:1"
        for words, call in (
                ("key: a str: allowed: a telegrad.Key", lambda: telegrad.Network.join(address, key="b.key", peer_key=key.public)),
                ("key: a str: allowed", lambda: telegrad.Network.meet(address, 2, key=key.public, allow=[key.public])),
                ("key: None: allowed", lambda: telegrad.Network.join(address)),
                ("allow: a str: allowed: a list", lambda: telegrad.Network.meet(address, 2, key=key, allow=key.public)),
                ("allow[0]: a Key: allowed: a public key as text", lambda: telegrad.Network.meet(address, 2, key=key, allow=[key])),
                ("allow: no keys: allowed: the public keys", lambda: telegrad.Network.meet(address, 2, key=key)),
                ("allow[1]: 'friends' is not a public key", lambda: telegrad.Network.meet(address, 2, key=key, allow=[key.public, "friends"])),
                ("is not a public key", lambda: telegrad.Network.meet(address, 2, key=key, allow=[f"{key.public}\n{key.public}"])),
                ("peer_key: a Key: allowed", lambda: telegrad.Network.join(address, key=key, peer_key=key)),
                ("peer_key: 'tgk1:x' is not a public key", lambda: telegrad.Network.join(address, key=key, peer_key="tgk1:x")),
                ("address: a int: allowed: a str", lambda: telegrad.Network.join(4242, key=key, peer_key=key.public)),
                ("rank=-1: allowed: 0 to 4095", lambda: telegrad.Network.join(address, rank=-1, insecure=True)),
                ("timeout: a str: allowed: a number of seconds", lambda: telegrad.Network.join(address, insecure=True, timeout="60")),
                ("path: a Key", lambda: telegrad.Key.load(key))):
            with self.assertRaises(telegrad.ArgumentError) as raised:
                call()
            self.assertIn(words, str(raised.exception))
        with tempfile.TemporaryDirectory() as folder:
            key.save(pathlib.Path(folder, "a.key"))
            self.assertEqual(telegrad.Key.load(os.path.join(folder, "a.key")).public, key.public)


if __name__ == "__main__":
    unittest.main()
