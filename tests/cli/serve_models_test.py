"""telegrad serve, and workers with another model than it keeps, of as many elements, while no other worker is connected."""
import os
import re
import signal
import unittest
import net_tool
from free_port import free_port
from serve_tool import ServeTest

JOB = ["--data", "glyphs:train=512,test=128", "--method", "topk:density=0.05", "--lr", "0.01", "--no-eval"]
HERE, OTHER = "mlp:hidden=5,hidden2=175", "mlp:hidden=4,hidden2=239"  # both have 6,735 parameters


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
class Models(ServeTest):
    def worker_of(self, model, *args, servers=None):
        return self.start("train", "--server", servers or self.meeting, "--insecure", "--model", model, *JOB, *args)

    def refused(self, server=0, servers=None):
        """The other model is, at once, also with --anew."""
        for anew in ([], ["--anew"]):
            done = net_tool.Done(self.worker_of(OTHER, "--steps", "100", *anew, servers=servers))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"server {server} has disconnected this worker: it trains another model: its tensor 1 is fc1.weight 4x784, "
                          "the server has fc1.weight 5x784: a server keeps the parameters of one model", done.stderr)

    def accepted(self, server, steps, *args, began):
        done = self.fine(self.worker_of(HERE, "--steps", str(steps), *args))
        self.assertIn(f"{steps} of {steps}" + (f"; this run began at step {began}" if began else "\n"), done.stdout)
        self.told(server, "has left\n")

    def ended(self, server, how):
        server.send_signal(how)
        net_tool.Done(server)

    def test_nobody_is_connected(self):
        """While it has run, after a restart from its log, and from its snapshot."""
        for mode in ("async", "sync"):
            options = ["--mode", mode, "--journal", self.path(mode)]
            server = self.serve(*options)
            self.accepted(server, 4, began=0)
            for how, steps in ((None, 6), (signal.SIGKILL, 8), (signal.SIGTERM, 10)):
                if how is not None:
                    self.ended(server, how)
                    server = self.told(self.serve(*options), f"after step {steps - 2}")
                server.said = ""
                self.refused()
                for _ in range(2):
                    self.told(server, "has left: it trains another model")
                    server.said = server.said.partition("has left: it trains another model")[2]
                self.accepted(server, steps, began=steps - 2)
            self.refused()
            server.said = ""
            self.accepted(server, 3, "--anew", began=0)
            self.ends(server)

    def test_several_servers(self):
        """Each keeps it."""
        other = f"tcp://127.0.0.1:{free_port()}"
        both = f"{self.meeting},{other}"
        begin = [lambda: self.serve("--shard", "0/2", "--journal", self.path("0")),
                 lambda: self.serve("--shard", "1/2", "--journal", self.path("1"), listen=other)]
        servers = [one() for one in begin]
        self.fine(self.worker_of(HERE, "--steps", "4", servers=both))
        self.ended(servers[1], signal.SIGKILL)
        servers[1] = begin[1]()
        self.ended(servers[0], signal.SIGKILL)
        servers[0] = self.serve("--shard", "0/2")  # has nothing
        self.refused(1, both)
        self.ended(servers[0], signal.SIGKILL)
        servers[0] = begin[0]()
        done = self.fine(self.worker_of(HERE, "--steps", "8", servers=both))
        self.assertIn("8 of 8; this run began at step 4", done.stdout)
        for server in servers:
            self.ends(server)

    def test_damaged_snapshot(self):
        """It is refused by its name, and the error says how to go on, which works."""
        journal, weights = self.path("journal"), self.path("model.safetensors")
        server = self.serve("--journal", journal)
        self.fine(self.worker_of(HERE, "--steps", "4", "--save-weights", weights))
        self.ends(server)
        name = next(name for name in os.listdir(journal) if name.startswith("state-"))
        with open(os.path.join(journal, name), "r+b") as file:
            data = file.read()
            file.seek(data.index(b"fc1.weight"))
            file.write(b"F")
        server = self.start("serve", "--listen", self.meeting, "--insecure", "--journal", journal)
        done = net_tool.Done(server)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, re.escape(name) + r': section \d+ at byte \d+: checksum of "tensors 1" is wrong; ')
        self.assertIn("put back a copy of this folder, or begin a journal in another folder, with a first worker that has saved weights", done.stderr)
        server = self.serve("--journal", self.path("another"))
        self.fine(self.worker_of(HERE, "--steps", "2", "--init", weights))
        self.ends(server)


if __name__ == "__main__":
    unittest.main()
