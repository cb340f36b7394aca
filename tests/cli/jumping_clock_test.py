"""The system's time jumps, by days, while servers and workers run: nothing else changes, because they measure by the
monotonic clock, and certificates have no dates. tests/jumping_clock.c, preloaded into all of them, makes it jump."""
import calendar
import json
import os
import re
import time
import unittest
import net_tool
from serve_tool import MLP, ServeTest

JUMPS = ["env", f"LD_PRELOAD={os.environ['JUMPING_CLOCK_SHIM']}"]
HALF_A_DAY = 12 * 3600


def hash_of(text):
    return re.search(r"params hash +(\w+)", text).group(1)


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
class JumpingClock(ServeTest):
    def setUp(self):
        super().setUp()
        self.server_key = self.new_keys(3)[0]

    def server_of(self, jumps, *args):
        server = self.start("serve", "--listen", self.meeting, "--key", self.path("0.key"), "--allow", self.path("friends"), *args,
                            prefix=JUMPS if jumps else [])
        return self.told(server, "listens at")

    def worker_of(self, jumps, number, *args):
        return self.start("train", "--server", self.meeting, "--server-key", self.server_key, "--key", self.path(f"{number}.key"), *MLP,
                          "--no-eval", *args, prefix=JUMPS if jumps else [])

    def jumped(self, path):
        """Whether the time in the first record is another than that of this process."""
        with open(path, encoding="utf-8") as file:
            told = json.loads(file.readline())["time"]
        return abs(calendar.timegm(time.strptime(told, "%Y-%m-%dT%H:%M:%SZ")) - time.time()) > HALF_A_DAY

    def test_async(self):
        """A server that is killed on the way; its worker calls it again."""
        hashes = []
        for jumps in (False, True):
            options = ["--mode", "async", "--journal", self.path(f"journal {jumps}"), "--workers", "1"]
            outs = [self.path(f"{name} {jumps}.jsonl") for name in ("server", "worker")]
            server = self.server_of(jumps, *options, "--out", outs[0], "--log-every", "0.1")
            worker = self.worker_of(jumps, 1, "--steps", "3000", "--out", outs[1])
            self.told(server, "has come")
            time.sleep(0.3)
            server.kill()
            server.communicate()
            server = self.told(self.server_of(jumps, *options), "has come")
            done = self.fine(worker)
            self.assertEqual(done.stderr.count("reconnected to server 0 after"), 1, done.stderr)
            self.assertEqual([self.jumped(out) for out in outs], [jumps, jumps])
            hashes.append(hash_of(done.stdout))
            self.ends(server)
        self.assertEqual(*hashes)

    def test_sync(self):
        """Workers in step, with a deadline that no gradient misses, have the bits of ranks that never change."""
        job = ["--steps", "200"]
        expected = hash_of(self.ok("train", *MLP, *job, "--no-eval", "--workers", "2", "--servers", "1", "--strategy", "server",
                                   "--server-mode", "sync"))
        server = self.server_of(True, "--mode", "sync", "--min", "2", "--workers", "2", "--deadline", "40s", "--journal", self.path("journal"))
        workers = []
        for i in range(2):  # seats are given in the order of coming
            workers.append(self.worker_of(True, i + 1, *job))
            self.told(server, f"worker {i} (rank {i + 1}, 127.0.0.1) has come")
        done = [self.fine(worker) for worker in workers]
        self.assertEqual([hash_of(one.stdout) for one in done], [expected] * 2)
        for one in done:
            self.assertNotIn("late", one.stdout + one.stderr)
            self.assertNotIn("reconnected", one.stderr)
        self.assertNotIn("after the deadline", self.ends(server))

    def test_ranks(self):
        """Ranks that meet over TCP."""
        job = ["train", *MLP, "--no-eval", "--steps", "20"]
        expected = hash_of(self.ok(*job, "--workers", "2"))
        ranks = [self.start(*job, *self.options(rank, 2), prefix=JUMPS) for rank in range(2)]
        self.assertEqual([hash_of(self.fine(rank).stdout) for rank in ranks], [expected, expected])


if __name__ == "__main__":
    unittest.main()
