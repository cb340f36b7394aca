"""One rank of network_test.py: RANK SIZE PORT WHAT."""
import os
import signal
import sys
import threading
import time
import unittest

import torch.distributed

import telegrad
import telegrad.torch
from telegrad._store import Store

RANK, SIZE, PORT, WHAT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]


def interrupted():
    """Rank 1 does not come: Ctrl-C ends rank 0's wait, long before its timeout of 60 s."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT)
    torch.distributed.init_process_group("gloo", rank=RANK, world_size=SIZE)
    try:
        if RANK == 0:
            threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
            telegrad.torch.Network()
        time.sleep(1)
    except KeyboardInterrupt:
        print("KeyboardInterrupt", flush=True)
    os._exit(0)


class Stores(unittest.TestCase):
    """Ranks that find each other by a store, which may be one that a former start of the program has used."""

    def join(self, stores, size, timeout=20.0):
        found = [None] * size

        def run(rank):
            try:
                joins = Store(stores[rank], "telegrad/0/", rank, size, timeout)
                with telegrad.Network(joins.join(*("tcp://127.0.0.1:0", None) if rank == 0 else (None, None))) as net:
                    found[rank] = (net.rank, net.size)
                    time.sleep(0.2)
            except telegrad.Error as error:
                found[rank] = error
        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
        for thread in reversed(threads):
            thread.start()
            time.sleep(0.1)
        for thread in threads:
            thread.join()
        return found

    def test_started_again(self):
        store = torch.distributed.HashStore()
        names = set()
        for _ in range(3):
            self.assertEqual(self.join([store] * 3, 3), [(0, 3), (1, 3), (2, 3)])
            names.add(store.get("telegrad/0/name/1"))
        self.assertEqual(len(names), 3)

    def test_one_does_not_come(self):
        store = torch.distributed.HashStore()
        found = self.join([store], 1)
        self.assertEqual(found, [(0, 1)])
        with self.assertRaisesRegex(telegrad.PeerError, "rank 1 has not called it within 0.3 s"):
            Store(store, "telegrad/1/", 0, 2, 0.3).agree()

    def test_errors_of_a_store(self):
        class Breaks:
            """A store that fails once rank 0 has said where it is."""

            def __init__(self, store):
                self.store = store

            def set(self, name, value):
                self.store.set(name, value)

            def get(self, name):
                if name.endswith("/0"):
                    raise RuntimeError("Connection reset by peer")
                return self.store.get(name)

            def add(self, name, count):
                return self.store.add(name, count)
        store = torch.distributed.HashStore()
        found = self.join([store, Breaks(store)], 2, 3)
        self.assertIsInstance(found[1], telegrad.PeerError)
        self.assertEqual(str(found[1]), "telegrad.torch.Network: the store of torch.distributed: Connection reset by peer")
        self.assertIn("has not joined", str(found[0]))


if __name__ == "__main__":
    if WHAT == "interrupted":
        interrupted()
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    print(result.testsRun, "ran", "well" if result.wasSuccessful() else "badly")
