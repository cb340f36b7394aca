"""telegrad serve, and its workers, when something fails: servers that die, journals, disks, rates."""
import array
import math
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import time
import unittest
import urllib.request
import net_tool
from cli_tool import run
from free_port import free_port
from serve_tool import MLP, ServeTest


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
class Faults(ServeTest):
    def test_stopped_while_another_program_has_the_port(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            server = self.start("serve", "--listen", f"tcp://127.0.0.1:{taken.getsockname()[1]}", "--insecure")
            self.told(server, "trying again for")
            server.send_signal(signal.SIGTERM)
            done = net_tool.Done(server)
        self.assertEqual((done.returncode, done.stdout), (143, ""), done.stderr)
        self.assertIn("interrupted by SIGTERM", done.stderr)

    def test_rate_too_high(self):
        """Parameters stay finite; the worker is told, and the server's log says which one it was."""
        weights = self.path("model.safetensors")
        optimizer = ["--optimizer", "sgd:weight_decay=1e30,momentum=0.9"]
        server = self.serve(*optimizer, "--out", self.path("server.jsonl"))
        options = [*optimizer, "--lr", "1e30", "--steps", "4", "--no-eval", "--save-weights", weights]
        done = net_tool.Done(self.start("train", "--server", self.meeting, "--insecure", *MLP[:-2], *options))
        self.assertIn("the server does not apply this gradient, because the update would make parameters not finite: use a lower", done.stderr)
        bytes_of = pathlib.Path(weights).read_bytes()
        head = 8 + int.from_bytes(bytes_of[:8], "little")
        values = array.array("f", bytes_of[head:])
        self.assertTrue(all(map(math.isfinite, values)))
        said = self.ends(server)
        self.assertEqual(said.count("worker 0 (step"), 1, said)
        self.assertIn("the update by its gradient would make parameters not finite (the learning rate may be too high): it is not applied", said)
        self.assertGreaterEqual(self.records("server.jsonl", "server_end")[0]["unfit"], 4)

    def test_lost_server(self):
        """A worker whose server is away for good, or that is interrupted meanwhile, has the weights of its last step."""
        for signalled in (True, False):
            weights = pathlib.Path(self.path(f"{signalled}.safetensors"))
            server = self.serve("--journal", self.path(f"journal {signalled}"))
            worker = self.worker("--steps", "1000000", "--save-weights", weights, "--out", self.path(f"{signalled}.jsonl"),
                                 "--log-every", "1", "--timeout", "60" if signalled else "1")
            self.until(lambda name=f"{signalled}.jsonl": len(self.records(name, "step")) > 5)
            server.kill()
            server.communicate()
            if signalled:
                self.told(worker, "calling it again")
                worker.send_signal(signal.SIGTERM)
            done = net_tool.Done(worker)
            said = getattr(worker, "said", "") + done.stderr
            self.assertEqual(done.returncode, 143 if signalled else 1, said)
            if signalled:
                self.assertRegex(said, rf"interrupted by SIGTERM after step \d+ of 1000000; weights: {re.escape(str(weights))}\n")
                self.assertRegex(done.stdout, r"steps          \d+ of 1000000, interrupted\n")
                self.assertIn(f"weights        {weights}\n", done.stdout)
                self.assertIsNone(self.records(f"{signalled}.jsonl", "end")[0]["test_loss"])
            else:
                self.assertRegex(said, rf"it was called for 1 s.*; the weights after step \d+ are in {re.escape(str(weights))}\n")
            self.assertGreater(weights.stat().st_size, 4 * 27882)

    def test_killed_server(self):
        """A server that is killed and started again has the bits of one that never was."""
        hashes = []
        for killed in (True, False):
            journal = self.path(f"journal {killed}")
            server = self.serve("--journal", journal, "--optimizer", "adam:lr=0.01")
            self.fine(self.worker("--steps", "20", "--no-eval", "--optimizer", "adam"))
            if killed:
                self.told(server, "has left")
                server.kill()
                server.communicate()
                server = self.serve("--journal", journal, "--optimizer", "adam:lr=0.01")
            done = self.fine(self.worker("--steps", "40", "--no-eval", "--optimizer", "adam"))
            self.assertIn("joined at step 20 of 40", done.stderr)
            hashes.append(re.search(r"params hash +(\w+)", done.stdout).group(1))
            self.ends(server)
            self.assertEqual(sorted(os.listdir(journal)), ["lock", "log-000000000001", "state-000000000001.tg"])
        self.assertEqual(*hashes)

    def test_worker_goes_on(self):
        """A worker whose server is killed goes on when the server is there again, and has the bits of one undisturbed."""
        hashes = []
        for killed in (True, False):
            journal = self.path(f"journal {killed}")
            mode = ["--optimizer", "adam:lr=0.01", "--mode", "async:compensate=100"]
            server = self.serve("--journal", journal, *mode)
            worker = self.worker("--steps", "4000", "--no-eval", "--optimizer", "adam")
            self.told(server, "has come")
            for _ in range(3 if killed else 0):
                time.sleep(0.2)
                server.kill()
                server.communicate()
                server = self.told(self.serve("--journal", journal, *mode), "has come")
            done = self.fine(worker)
            self.assertEqual(done.stderr.count("reconnected to server 0 after"), 3 if killed else 0, done.stderr)
            hashes.append(re.search(r"params hash +(\w+)", done.stdout).group(1))
            self.ends(server)
        self.assertEqual(*hashes)

    def test_damaged_journal(self):
        journal = self.path("journal")
        server = self.serve("--journal", journal)
        self.fine(self.worker("--steps", "20", "--no-eval"))
        self.told(server, "has left")
        server.kill()
        server.communicate()
        with open(os.path.join(journal, "log-000000000000"), "r+b") as file:
            file.seek(1000)
            file.write(b"damage")
        done = run("serve", "--listen", self.meeting, "--insecure", "--journal", journal)
        self.assertEqual(done.returncode, 1)
        self.assertIn("log-000000000000 is damaged at byte", done.stderr)
        self.assertIn("after step 0, move that log to another folder", done.stderr)
        os.remove(os.path.join(journal, "log-000000000000"))
        server = self.serve("--journal", journal)
        self.assertIn("log-000000000000 is not there: what came after the snapshot is lost", server.said)
        for steps in ("10", "20"):
            self.fine(self.worker("--steps", steps, "--no-eval"))
            self.told(server, "has left\n")
            if steps == "10":
                self.ends(server)
                server = self.told(self.serve("--journal", journal), "after step 10")
        server.kill()
        server.communicate()
        with open(os.path.join(journal, "log-000000000001"), "wb"):
            pass
        done = run("serve", "--listen", self.meeting, "--insecure", "--journal", journal)
        self.assertEqual(done.returncode, 1)
        self.assertIn("log-000000000001 is damaged: it has 0 bytes, but its head 32", done.stderr)
        self.assertIn("after step 10, move that log to another folder", done.stderr)

    def test_deleted_journal(self):
        """The server does not go on without the folder of its journal."""
        journal = self.path("journal")
        server = self.serve("--journal", journal)
        worker = self.worker("--steps", "1000000", "--no-eval", "--timeout", "1")
        self.told(server, "has come")
        shutil.rmtree(journal)
        done = net_tool.Done(server)
        self.assertEqual(done.returncode, 1)
        self.assertIn("was deleted while the server was using it", done.stderr)
        self.assertEqual(net_tool.Done(worker).returncode, 1)

    def test_folder_of_others(self):
        """Files of others stay as they are; a journal is that of one shard of so many."""
        folder = self.path("other")
        os.mkdir(folder)
        with open(os.path.join(folder, "thesis.txt"), "w", encoding="utf-8") as file:
            file.write("mine")
        done = run("serve", "--listen", self.meeting, "--insecure", "--journal", folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("this folder holds other files: allowed: a new or empty folder", done.stderr)
        self.assertEqual(os.listdir(folder), ["thesis.txt"])
        done = run("serve", "--listen", self.meeting, "--insecure", "--journal", os.path.join(folder, "thesis.txt"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("it is not a folder", done.stderr)
        journal = self.path("journal")
        server = self.told(self.serve("--journal", journal), "new; the first worker brings the parameters")
        self.fine(self.worker("--steps", "7", "--no-eval"))
        self.ends(server)
        self.ends(self.told(self.serve("--journal", journal), "continues with 27,882 parameters, after step 7"))
        done = run("serve", "--listen", self.meeting, "--insecure", "--journal", journal, "--shard", "0/2")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"journal {journal} is of another server: it was written with \"shards=1\", this server has \"shards=2\"", done.stderr)
        done = run("serve", "--listen", self.meeting, "--insecure", "--journal", journal, "--mode", "async:compensate=0.1")
        self.assertIn("it was written with \"compensate=0\", this server has \"compensate=0.1\"", done.stderr)
        os.remove(next(os.path.join(journal, name) for name in os.listdir(journal) if name.startswith("log-")))
        self.ends(self.told(self.serve("--journal", journal), "is not there: what came after the snapshot is lost"))

    def test_records_on_a_full_disk(self):
        """Records are lost while the disk is full, and written again after it; only the last one must be written."""
        for full in (False, True):
            out = self.path(f"{full}.jsonl")
            port = free_port()
            server = self.serve("--out", out, "--log-every", "0.1", "--status", f":{port}")
            self.until(lambda name=f"{full}.jsonl": len(self.records(name, "server")) > 1)
            hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)[1]
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (os.path.getsize(out) + 100, hard))
            self.told(server, f"{out}: cannot be written: File too large: records are lost until it can be written again")
            time.sleep(1)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
                lost = int(re.search(r"^telegrad_records_lost_total (\d+)$", answer.read().decode(), re.M).group(1))
            self.assertGreater(lost, 1)
            if full:
                server.send_signal(signal.SIGTERM)
                done = net_tool.Done(server)
                self.assertEqual(done.returncode, 1)
                self.assertIn("cannot be written: File too large", done.stderr)
                continue
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (hard, hard))
            self.told(server, "--out: records are written again; ")
            self.until(lambda: self.records("False.jsonl", "server")[-1]["records_lost"] >= lost)
            self.assertRegex(self.ends(server), r"--out: \d+ records? could not be written\n")
            counts = [record["records_lost"] for record in self.records("False.jsonl", "server")]
            self.assertEqual((counts, counts[0]), (sorted(counts), 0))
            end = self.records("False.jsonl", "server_end")[0]
            self.assertEqual((end["records_lost"], end["error"]), (counts[-1], None))

    def test_full_disk(self):
        """Nothing more is answered; what was stays."""
        journal = self.path("journal")
        limited = ["bash", "-c", 'ulimit -f 400; exec "$@"', "bash"]
        server = self.start("serve", "--listen", self.meeting, "--insecure", "--journal", journal, prefix=limited)
        self.told(server, "listens at")
        done = net_tool.Done(self.worker("--steps", "2000", "--no-eval", "--timeout", "2"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("server 0 has left: cannot write log 0 of journal", done.stderr)
        self.assertIn("it was called for 2 s: server 0 at ", done.stderr)
        done = net_tool.Done(server)
        self.assertEqual(done.returncode, 1)
        self.assertIn("File too large", done.stderr)
        server = self.serve("--journal", journal)
        self.fine(self.worker("--steps", "4", "--no-eval", "--anew"))
        self.ends(server)


if __name__ == "__main__":
    unittest.main()
