"""Ranks that stall, die, or are started differently: every other rank ends with an error that names them, within the
deadline, and checkpoints stay whole."""
import contextlib
import os
import re
import signal
import socket
import time
import unittest
import mpi_tool
from cli_tool import CliTest, TINY, over, records, run, start

JOB = ["train", "--model", "mlp:hidden=32", *TINY, "--no-eval", "--method", "topk"]
STRATEGIES = ("ssgd", "dga:delay=3", "local:every=4")
ENDLESS = ["--steps", "10000000", "--timeout", "2"]


def last_saved(folder):
    return max(int(n[5:]) for n in os.listdir(folder) if n[5:].isdigit())


def hash_of(output):
    return re.search(r"params hash +(\w{16})", output)[1]


class Faults(CliTest):
    def test_in_process(self):
        # the one that stalls may be the first to give up, and hear from who it waited for that it is itself to blame
        stalled = r"rank 2 sent nothing for 1\.0 s|this rank \(2\) may be cut off|because of rank 2, this one"
        for fault, words in (("stall=30", stalled), ("kill=30", "kill"),
                             ("corrupt=0.2", "rank 2"), ("truncate=0.2", "rank 2"), ("garbage=0.2", "rank 2"),
                             ("oversize=0.2", "rank 2"), ("drop=0.3", "sent nothing for 1.0 s")):
            begin = time.time()
            done = run(*JOB, "--workers", "4", "--steps", "400", "--timeout", "1", "--fault", "2=fault:" + fault,
                       "--out", self.path("run.jsonl"))
            self.assertEqual(done.returncode, 1, fault)
            self.assertRegex(done.stderr.splitlines()[0], words, fault)
            self.assertLess(time.time() - begin, 30)
            for name in os.listdir(self.folder):
                self.assertEqual((name, records(self.path(name))[-1]["type"]), ("run.jsonl", "failed"), fault)

    def test_link_too_slow_for_the_timeout(self):
        """A message takes longer than ranks wait, which the error says."""
        said = self.refused(1, [" nothing for 1.0 s", "if a message takes longer than 1 s over the link 30kbit, allow more time with --timeout"],
                            *JOB, "--workers", "2", "--steps", "1", "--timeout", "1", "--link", "30kbit")
        self.assertNotIn("because of this rank", said)  # it was this rank's own wait that failed

    def test_dead_rank(self):
        """The others end long before their deadline, and what they have saved leads where nobody has died."""
        for strategy in STRATEGIES:
            args = [*JOB, "--workers", "3", "--strategy", strategy, "--steps", "150"]
            begin = time.time()
            died = run(*args, "--save", self.path(strategy), "--save-every", "10", "--timeout", "50",
                       "--fault", "2=fault:kill=150")
            self.assertEqual(died.returncode, 1, strategy)
            self.assertIn("rank 2: killed by fault", died.stderr.splitlines()[0], strategy)
            self.assertLess(time.time() - begin, 40, strategy)
            resumed = self.ok(*args, "--resume", self.path(strategy))
            self.assertEqual(hash_of(resumed), hash_of(self.ok(*args)), strategy)

    def test_replay(self):
        """What comes again, long after the set-up, is known to be of a step before. (Which message comes again is drawn: with
        some seeds it is one of the set-up.)"""
        for strategy in STRATEGIES:
            told = None
            for seed in range(1, 9):
                done = run(*JOB, "--workers", "4", "--steps", "400", "--timeout", "1", "--strategy", strategy,
                           "--fault", f"2=fault:replay=0.005,seed={seed}")
                self.assertEqual(done.returncode, 1, (strategy, seed))
                self.assertIn("rank 2", done.stderr.splitlines()[0], (strategy, seed))
                told = re.match(r"telegrad: message from rank 2: step=(\d+): expected (\d+)", done.stderr)
                if told:
                    self.assertLess(int(told[1]), int(told[2]), strategy)
                    break
            self.assertTrue(told, strategy)

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_started_differently(self):
        for other, words in ((["--method", "topk:density=0.5"], ["--method topk:density=0.5", "rank 2"]),
                             (["--batch", "8"], ["rank 0 has --batch 16, rank 2 has --batch 8"]), (["--seed", "9"], ["seed"]),
                             (["--optimizer", "sgd:lr=0.1"], ["lr=0.1"]),
                             (["--resume", self.folder], ["rank 2 has --resume, rank 0 does not have it"]),
                             (["--steps", "6"], ["rank 0 has 5 steps, rank 2 has 6 steps"]),
                             (["--save", self.path("other"), "--save-every", "2"], ["rank 0 does not have --save, rank 2 has --save"])):
            begin = time.time()
            done = mpi_tool.mpirun((2, [*JOB, "--steps", "5"]), (1, over(*JOB, "--steps", "5", *other)))
            self.assertNotEqual(done.returncode, 0)
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertLess(time.time() - begin, 60)

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_other_commands(self):
        """Ranks that could not even talk to each other end at once."""
        compare = ["compare", *JOB[1:], "--steps", "5"]
        for mine, other, words in (([*JOB, "--steps", "5"], ["--link", "1gbit"], ['rank 0 for "train"', 'rank 1 for "train over --link 1gbit"']),
                                   ([*JOB, "--link", "1gbit"], ["--link-of", "1=1mbit"], ['"train over --link 1gbit"', '"train over --link 1gbit --link-of 1=1mbit"']),
                                   ([*JOB, "--steps", "5"], ["--dry-run"], ['"train"', '"train --dry-run"']),
                                   ([*JOB, "--steps", "5"], ["--init", "none"], ['"train"', '"train --init"']),
                                   ([*JOB, "--steps", "5"], ["--out", self.path("own.jsonl")], ['"train"', '"train --out"']),
                                   (["bench", "exchange", "dense", "--elements", "2000"], ["topk"], ['elements by dense"', 'elements by dense, topk"']),
                                   (["bench", "exchange", "dense", "--elements", "2000"], ["--behind", "9"], ['elements --behind 9 by dense"']),
                                   (["advise", "--measure", "--model", "mlp:hidden=8"], ["--link", "1gbit"], ['"advise"', '"advise over --link 1gbit"']),
                                   ([*compare, "--run", "method=dense"], ["--run", "method=dgc"], ['"compare of 1 run"', '"compare of 2 runs"'])):
            done = mpi_tool.mpirun((1, mine), (1, [*mine, *other]))
            self.assertNotEqual(done.returncode, 0)
            for word in ["ranks were started differently: ", *words]:
                self.assertIn(word, done.stderr)
        served = [*JOB, "--servers", "1", "--steps", "5"]
        keeps = [*served, "--strategy", "server"]
        for mine, other, words in ((served, [*JOB, "--steps", "5"], ['"train --servers 1 --server-mode sum"', '"train"']),
                                   (served, [*served[:-4], "--servers", "2", "--steps", "5"], ["--servers 1", "--servers 2"]),
                                   ([*served, "--server-mode", "sum:combine=trimmed,f=0"], served, ["sum:combine=trimmed,f=0", "mode sum"]),
                                   (keeps, [*keeps, "--server-mode", "async"], ["--server-mode sync", "--server-mode async"]),
                                   ([*keeps, "--server-deadline", "1s"], keeps, ["--server-deadline 1s"]),
                                   (keeps, [*keeps, "--optimizer", "adam"], ["--optimizer sgd", "--optimizer adam"])):
            done = mpi_tool.mpirun((2, mine), (1, other))
            self.assertNotEqual(done.returncode, 0)
            for word in ["ranks were started differently: ", *words]:
                self.assertIn(word, done.stderr)
        runs = [[*compare, "--run", "name=a", "--run", f"name=b;method=topk:density={d}"] for d in ("1%", "0.01", "0.02")]
        done = mpi_tool.mpirun((1, runs[0]), (1, runs[2]))
        self.assertEqual((done.returncode != 0, done.stdout), (True, ""))
        self.assertIn('ranks were started differently: run 2, "b", does not have the same settings on all ranks', done.stderr)
        self.assertEqual(mpi_tool.mpirun((1, runs[0]), (1, runs[1])).returncode, 0)
        done = mpi_tool.mpirun((2, [*JOB, "--steps", "5", "--fault", "2=fault:drop=0.1"]))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--fault 2=fault:drop=0.1: allowed: ranks 0 to 1", done.stderr)

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_who_speaks(self):
        """An error of one rank names it and its machine; one of all is rank 0's, and names none."""
        job = [*JOB, "--steps", "5"]
        for other, words in ((["--trace", self.path("no/where.json")], "--trace"), (["--save-every", "3"], "--save-every 3 requires --save")):
            done = mpi_tool.mpirun((1, job), (1, [*job, *other]))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"telegrad: rank 1 ({socket.gethostname()}): {words}", done.stderr)
            done = mpi_tool.mpirun((2, [*job, *other]))
            self.assertIn(f"telegrad: {words}", done.stderr)
            self.assertNotIn("telegrad: rank 1", done.stderr)
            self.assertNotIn("interrupted", done.stderr)

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_only_some_evaluate(self):
        job = [a for a in JOB if a != "--no-eval"] + ["--steps", "5"]
        done = mpi_tool.mpirun((1, job), (1, [*job, "--no-eval"]))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--no-eval", done.stderr)

    def test_interrupt_without_exchange(self):
        """No message carries the wish to stop when nothing is exchanged."""
        job = start(*JOB[:-1], "topk:exchange=none", "--workers", "3", "--steps", "100000000", "--timeout", "20", "--out",
                    self.path("run.jsonl"))
        time.sleep(1.5)
        job.send_signal(signal.SIGINT)
        errors = job.communicate(timeout=30)[1]
        self.assertEqual(job.returncode, 130, errors)
        self.assertTrue(records(self.path("run.jsonl"))[-1]["interrupted"])

    def job_under_way(self, folder, *args):
        job = mpi_tool.mpirun((3, over(*JOB, *args, "--save", folder, "--save-every", "100")), start=True)
        deadline = time.time() + 60
        while time.time() < deadline and not (os.path.isdir(folder) and any(
                n.startswith("step-") and not n.endswith(".tmp") for n in os.listdir(folder))):
            time.sleep(0.01)
        return job, mpi_tool.ranks_of(job)

    def outcome(self, job, ranks):
        """Exit status and output; nothing is left of it."""
        try:
            output = job.communicate(timeout=30)[0]
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
            for rank in ranks:
                try:
                    os.kill(rank, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        return job.returncode, output

    def resumes(self, folder):
        done = mpi_tool.mpirun((3, [*JOB, "--steps", str(last_saved(folder) + 3), "--resume", folder]))
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_stopped_rank(self):
        folder = self.path("ck")
        job, ranks = self.job_under_way(folder, *ENDLESS)
        self.assertEqual(len(ranks), 3)
        os.kill(ranks[1], signal.SIGSTOP)
        status, output = self.outcome(job, ranks)
        self.assertNotEqual(status, 0)
        self.assertRegex(output, r"rank [012] (sent|took) nothing for")
        self.resumes(folder)

    def away_for_a_second(self, folder, args):
        """The last step saved while a rank of a job with such arguments was away, and the job's exit status and output."""
        job, ranks = self.job_under_way(folder, *args)
        with contextlib.suppress(IndexError, ProcessLookupError):  # over already
            os.kill(ranks[1], signal.SIGSTOP)
            time.sleep(1)
        saved = last_saved(folder)
        with contextlib.suppress(IndexError, ProcessLookupError):
            os.kill(ranks[1], signal.SIGCONT)
        return saved, *self.outcome(job, ranks)

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_rank_that_returns_in_time(self):
        """Nothing but time is lost: the hash is that of a run in which nobody was away."""
        for strategy in (*STRATEGIES, "gossip:mean=10"):
            for steps in (400, 3200, 25600):  # where the job was over before its rank was stopped, a longer one
                args = ["--strategy", strategy, "--steps", str(steps), "--timeout", "10",
                        *(["--method", "dense"] if "gossip" in strategy else [])]
                saved, status, output = self.away_for_a_second(self.path("%s-%d" % (strategy, steps)), args)
                self.assertEqual(status, 0, (strategy, output))
                if saved < steps:
                    break
            self.assertLess(saved, steps, "over before the rank was stopped")
            self.assertEqual(hash_of(output), hash_of(self.ok(*over(*JOB, *args, "--workers", "3"))), strategy)

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_signal_at_mpirun(self):
        """Open MPI sends SIGTERM to the ranks; they save and say so, though its own status is 1 then."""
        folder, out = self.path("ck"), self.path("run.jsonl")
        patience = "OMPI_MCA_odls_base_sigkill_timeout"
        mpi_tool.MPI_ENVIRONMENT[patience] = "5"
        self.addCleanup(mpi_tool.MPI_ENVIRONMENT.pop, patience)
        job, ranks = self.job_under_way(folder, *ENDLESS, "--out", out)
        job.send_signal(signal.SIGINT)
        status, output = self.outcome(job, ranks)
        self.assertNotEqual(status, 0)
        self.assertIn("interrupted by SIGTERM after step", output)
        self.assertIn("; saved: ", output)
        end = records(out)[-1]
        self.assertTrue(end["interrupted"])
        self.assertEqual(end["saved"], os.path.join(folder, "step-%012d" % last_saved(folder)))
        self.resumes(folder)

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_signal_at_one_rank(self):
        """All ranks save and end with its status, so mpirun has it whichever rank is over first."""
        folder = self.path("ck")
        job, ranks = self.job_under_way(folder, *ENDLESS)
        self.assertEqual(len(ranks), 3)
        os.kill(ranks[2], signal.SIGTERM)
        status, output = self.outcome(job, ranks)
        self.assertEqual(status, 143, output)
        self.assertNotIn("Exit code:    130", output)
        self.resumes(folder)

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_killed_rank(self):
        folder = self.path("ck")
        job, ranks = self.job_under_way(folder, *ENDLESS)
        self.assertEqual(len(ranks), 3)
        os.kill(ranks[2], signal.SIGKILL)
        self.assertNotEqual(self.outcome(job, ranks)[0], 0)
        self.resumes(folder)


if __name__ == "__main__":
    unittest.main()
