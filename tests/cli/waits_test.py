"""Whom a run waits for: said while it lasts, and how long in all in the records and on the report's page."""
import os
import pty
import re
import select
import signal
import subprocess
import time
import unittest
import mpi_tool
from cli_tool import CliTest, ENVIRONMENT, TELEGRAD, TINY, over, records, start

JOB = ["train", "--model", "mlp:hidden=32", *TINY, "--no-eval", "--workers", "4"]
STALLED = ["--steps", "400", "--fault", "2=fault:stall=30"]


class Waits(CliTest):
    def test_lines(self):
        """Without a terminal a line after ten seconds. In a ring all wait for each other, the rank that is cut off as well."""
        jobs = [(exchange, subprocess.Popen([TELEGRAD, *JOB, *STALLED, "--method", "dense:exchange=" + exchange, "--timeout", "12"],
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT))
                for exchange in ("allgather", "ring")]
        for exchange, job in jobs:
            errors = job.communicate(timeout=120)[1]
            self.assertEqual(job.returncode, 1, errors)
            whom = r"rank 2( and \d others?)?" if exchange == "allgather" else r"rank [123]( \(which may be waiting itself\))?"
            self.assertRegex(errors, rf"(?m)^telegrad: waiting for {whom} for 1\d s \(step \d+\)$")

    def test_interrupt_while_a_rank_hangs(self):
        """Said at once: that it came, and whom the run waits for."""
        out = self.path("run.jsonl")
        job = start(*JOB, "--steps", "400", "--fault", "2=fault:stall=300", "--method", "dense:exchange=allgather", "--timeout", "60",
                    "--log-every", "1", "--out", out)
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        self.wait_for_steps(job, out)
        time.sleep(0.5)  # it has sent its 300 messages
        job.send_signal(signal.SIGINT)
        self.assertTrue(select.select([job.stderr], [], [], 20)[0], "nothing was said")
        self.assertRegex(job.stderr.readline(), "^telegrad: interrupted by SIGINT: stopping after this step, which waits for rank [123]( and . others?)?; "
                                                "a second interrupt ends the run at once, without saving$")
        job.send_signal(signal.SIGINT)
        self.assertEqual((job.wait(20), job.stderr.read()), (130, "telegrad: interrupted again by SIGINT: ended at once, without saving\n"))

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_stopped_process(self):
        """A rank that is stopped for eleven seconds is named, and the record of the end says how long it was away."""
        job = mpi_tool.mpirun((3, [*[a for a in JOB if a not in ("--workers", "4")], "--method", "dense:exchange=allgather",
                                   "--steps", "10000000", "--timeout", "60", "--out", self.path("run.jsonl")]), start=True)
        pids, deadline = {}, time.time() + 60
        while len(pids) < 3 and time.time() < deadline:
            time.sleep(0.1)
            for pid in mpi_tool.ranks_of(job):
                with open(f"/proc/{pid}/environ", "rb") as file:
                    found = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", file.read())
                if found:
                    pids[int(found[1])] = pid
        time.sleep(4)
        try:
            os.kill(pids[2], signal.SIGSTOP)
            time.sleep(13)
            os.kill(pids[2], signal.SIGCONT)
            time.sleep(0.5)
            os.kill(pids[0], signal.SIGINT)
            output = job.communicate(timeout=60)[0]
        finally:
            if job.poll() is None:
                job.kill()
        self.assertRegex(output, r"(?m)^telegrad: waiting for rank 2( and 1 other)? for 1\d s \(step \d+\)$")
        waited = records(self.path("run.jsonl"))[-1]["waited_for_s"]
        self.assertGreater(waited[2], 10)

    def on_terminal(self, kind, *arguments):
        """The exit status, and what stands on standard error, a terminal of this kind."""
        terminal, other = pty.openpty()
        job = subprocess.Popen([TELEGRAD, *JOB, *arguments], stdout=subprocess.DEVNULL, stderr=other, env={**ENVIRONMENT, "TERM": kind})
        os.close(other)
        text = b""
        while True:
            try:
                more = os.read(terminal, 4096)
            except OSError:
                more = b""
            if not more:
                break
            text += more
        os.close(terminal)
        return job.wait(60), text.decode()

    def test_terminal(self):
        """On a terminal it stands where progress was, from a second on."""
        status, text = self.on_terminal("xterm", *STALLED, "--method", "dense:exchange=allgather", "--timeout", "4")
        self.assertEqual(status, 1)
        self.assertRegex(text, r"waiting for rank 2, [23] s")

    def test_terminals_that_cannot_erase(self):
        self.assertIn("\x1b[K", self.on_terminal("xterm", "--steps", "4")[1])
        self.assertNotIn("\x1b", self.on_terminal("dumb", "--steps", "4")[1])

    def test_records(self):
        """By the virtual clock: rank 2 computes for 20 ms, the others for 10."""
        for exchange in ("allgather", "ring"):
            out = self.path(exchange + ".jsonl")
            self.ok(*JOB, "--steps", "20", "--clock", "virtual", "--tau", "10ms", "--slow", "2:2x",
                    "--method", "dense:exchange=" + exchange, "--out", out)
            end = records(out)[-1]
            by = end["waited_by_s"]
            self.assertEqual(len(by), 4)
            self.assertEqual(min(range(4), key=by.__getitem__), 2)
            for rank in (0, 1, 3):
                self.assertAlmostEqual(by[rank], 0.2, delta=0.02)
            self.assertLess(by[2], 0.02)
            waited = end["waited_for_s"]
            self.assertEqual(waited[0], 0)
            late = 2 if exchange == "allgather" else 3 # in a ring rank 0 hears of rank 3
            self.assertEqual(max(range(4), key=waited.__getitem__), late)
            self.assertAlmostEqual(waited[late], 0.2, delta=0.02)
        alone = self.path("alone.jsonl")
        self.ok(*over(*JOB, "--workers", "1", "--steps", "2", "--out", alone))
        self.assertIsNone(records(alone)[-1]["waited_for_s"])
        self.ok("report", self.path("ring.jsonl"), "-o", self.path("page.html"))
        with open(self.path("page.html"), encoding="utf-8") as page:
            self.assertIn('"waited_for_s":[', page.read().replace(" ", ""))

    def test_records_of_epochs(self):
        """What was waited in each epoch: rank 2 is late in the second of three. They add up to the whole."""
        job = [*TINY, "--model", "mlp:hidden=16", "--workers", "4", "--epochs", "3", "--clock", "virtual", "--tau", "10ms", "--slow", "2:2x@9-16"]
        for more in ["--no-eval"], [], ["--strategy", "dga:delay=1", "--overlap", "full"]:
            out = self.path("epochs.jsonl")
            self.ok("train", *job, *more, "--out", out)
            lines = records(out)
            epochs, end = [r for r in lines if r["type"] == "epoch"], lines[-1]
            self.assertEqual(len(epochs), 3)
            for field in "waited_for_s", "waited_by_s":
                for rank in range(4):
                    self.assertAlmostEqual(sum(e[field][rank] for e in epochs), end[field][rank], delta=1e-3, msg=(field, rank, more))
            if "--strategy" in more:
                continue
            calm, late, after = (e["waited_by_s"][0] for e in epochs)
            self.assertAlmostEqual(late, 0.08, delta=0.015)
            self.assertLess(max(calm, after), 0.02)
            self.assertEqual(max(range(4), key=epochs[1]["waited_for_s"].__getitem__), 2)
            self.assertLess(epochs[1]["waited_by_s"][2], 0.02)
        self.ok("report", self.path("epochs.jsonl"), "-o", self.path("page.html"))
        with open(self.path("page.html"), encoding="utf-8") as page:
            text = page.read().replace(" ", "")
        self.assertEqual(text.count('{"epochs":1,"for":[0'), 3)
        alone = self.path("alone.jsonl")
        self.ok("train", *TINY, "--model", "mlp:hidden=16", "--workers", "1", "--epochs", "1", "--no-eval", "--out", alone)
        self.assertEqual([(r["waited_for_s"], r["waited_by_s"]) for r in records(alone) if r["type"] == "epoch"], [(None, None)])


if __name__ == "__main__":
    unittest.main()
