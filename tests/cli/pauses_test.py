"""All ranks stopped together for longer than the timeout, as by a suspended machine or a frozen container: the run goes on."""
import os
import random
import signal
import time
import unittest
import mpi_tool
from cli_tool import CliTest, TINY, records, start

JOB = ["train", "--model", "mlp:hidden=32", *TINY, "--no-eval", "--method", "topk", "--steps", "10000000", "--timeout", "2",
       "--log-every", "1000000"]
TIMEOUT, PAUSES = 2, 5


class Pauses(CliTest):
    def survives(self, job, ranks):
        chance = random.Random(1)
        try:
            for _ in range(PAUSES):
                time.sleep(chance.uniform(0.1, 0.6))
                for rank in ranks:
                    os.kill(rank, signal.SIGSTOP)
                time.sleep(1.3 * TIMEOUT)
                for rank in chance.sample(ranks, len(ranks)):
                    os.kill(rank, signal.SIGCONT)
                    time.sleep(chance.uniform(0, 0.1))
                self.assertIsNone(job.poll())
            time.sleep(0.5)
            os.kill(ranks[0], signal.SIGINT)
            output, errors = job.communicate(timeout=60)
        finally:
            if job.poll() is None:
                job.kill()
        self.assertNotIn("sent nothing", output + (errors or ""))
        end = records(self.path("run.jsonl"))[-1]
        self.assertEqual((end["type"], end["interrupted"]), ("end", True))

    def test_threads(self):
        for driver in ("thread", "inline"):
            with self.subTest(driver=driver):
                job = start(*JOB, "--workers", "3", "--driver", driver, "--out", self.path("run.jsonl"))
                self.survives(job, [job.pid])

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_processes(self):
        job = mpi_tool.mpirun((3, [*JOB, "--out", self.path("run.jsonl")]), start=True)
        ranks, deadline = [], time.time() + 60
        while len(ranks) < 3 and time.time() < deadline:
            time.sleep(0.05)
            ranks = mpi_tool.ranks_of(job)
        time.sleep(2)
        self.survives(job, ranks)


if __name__ == "__main__":
    unittest.main()
