"""One signal ends a run whose parameters are still on their way to all workers."""
import os
import signal
import subprocess
import time
import unittest
import mpi_tool
from cli_tool import CliTest, ENVIRONMENT, TELEGRAD, TINY

# The parameters take more than a minute over this link.
JOB = ["train", "--model", "mlp", *TINY, "--no-eval", "--steps", "1000000", "--link", "100kbit"]


def catches(pid, number):
    with open(f"/proc/{pid}/status") as file:
        caught = next(line for line in file if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (number - 1) & 1


class SetupStop(CliTest):
    def begun(self, job, ranks, number):
        """When all processes that `ranks` finds catch the signal, and have had a second to begin."""
        end = time.monotonic() + 60
        pids = []
        while not (pids and all(catches(pid, number) for pid in pids)):
            self.assertTrue(job.poll() is None and time.monotonic() < end)
            time.sleep(0.05)
            pids = ranks()
        time.sleep(1)
        return pids

    def stops(self, number, status, words, *args):
        job = subprocess.Popen([TELEGRAD, *args, "--workers", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=ENVIRONMENT)
        self.begun(job, lambda: [job.pid], number)
        job.send_signal(number)
        stdout, stderr = job.communicate(timeout=30)
        self.assertEqual((job.returncode, stdout), (status, ""))
        self.assertIn(f"telegrad: interrupted by {number.name}{words}\n", stderr)

    def test_threads(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            self.stops(number, status, " before the first step", *JOB)

    def test_while_the_best_buckets_are_measured(self):
        self.stops(signal.SIGINT, 130, " before the first step", *JOB, "--fusion", "auto")

    def test_compare(self):
        self.stops(signal.SIGINT, 130, "; finished: 0 of 2 runs", "compare", *JOB[1:], "--run", "name=a", "--run", "name=b")

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_processes(self):
        """A signal to all, as a terminal sends it, or to one; its status is the job's."""
        for world, number, status, ranks in ((2, signal.SIGINT, 130, (0, 1)), (2, signal.SIGTERM, 143, (1,)),
                                             (4, signal.SIGTERM, 143, (3, 2, 1, 0))):
            job = mpi_tool.mpirun((world, JOB), start=True)
            pids = self.begun(job, lambda: mpi_tool.ranks_of(job) if len(mpi_tool.ranks_of(job)) == world else [], number)
            for rank in ranks: # one of them is the first to leave
                os.kill(pids[rank], number)
                time.sleep(0.05)
            output = job.communicate(timeout=30)[0]
            self.assertEqual(job.returncode, status, output)
            self.assertIn(f"telegrad: interrupted by {number.name} before the first step\n", output)

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_absent_process(self):
        """A rank that has started MPI and then does nothing: it is named, and waited for as long as --timeout says."""
        for rank in (0, 1):
            begin = time.monotonic()
            job = mpi_tool.beside_a_sleeper(rank, [*JOB, "--timeout", "11"])
            output = job.communicate(timeout=50)[0]
            self.assertLess(time.monotonic() - begin, 45)
            self.assertEqual(job.returncode, 1, output)
            speaker = "rank 1: " if rank else ""
            self.assertIn(f"telegrad: {speaker}waiting for rank {1 - rank} for 10 s (set-up)\n", output)
            self.assertIn(f"telegrad: rank {1 - rank} sent nothing for 11.0 s (set-up)\n", output)

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_signal_while_a_process_is_absent(self):
        for args in ([], ["--nodes", "auto"]):
            job = mpi_tool.beside_a_sleeper(0, [*JOB[:-2], *args])
            pids = self.begun(job, lambda: mpi_tool.ranks_of(job), signal.SIGTERM)
            begin = time.monotonic()
            os.kill(pids[0], signal.SIGTERM)
            output = job.communicate(timeout=30)[0]
            self.assertLess(time.monotonic() - begin, 15)
            self.assertEqual(job.returncode, 143, output)
            self.assertIn("telegrad: interrupted by SIGTERM before the first step\n", output)

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_ranks_that_meet_for_different_things(self):
        job = ["train", *TINY, "--model", "mlp:hidden=8", "--steps", "2", "--no-eval"]
        done = mpi_tool.mpirun((1, job), (1, [*job, "--nodes", "auto"]), timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ranks were started differently: rank 0 waits to connect a run, rank 1 to find the machines", done.stderr)


if __name__ == "__main__":
    unittest.main()
