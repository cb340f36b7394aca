"""A run that was killed and resumed ends with the hash of the run that was never stopped; checkpoints that do not fit
are refused by name, and damaged ones are never half loaded."""
import fcntl
import os
import random
import resource
import shutil
import signal
import subprocess
import time
import unittest
import mpi_tool
from cli_tool import ENVIRONMENT, TELEGRAD, CliTest, TINY, over, records, run, start
from same_hash_test import params_hash

JOBS = [["--method", "dgc:density=0.01,warmup=6"],
        ["--method", "2bit:threshold=0.01", "--strategy", "cd:k=3,warmup=4"],
        ["--method", "strom:target=0.02"],
        ["--method", "topk:density=0.02", "--strategy", "ssgd", "--lr-schedule", "cosine"],
        ["--method", "topk:density=0.02,exchange=twoway", "--servers", "2"],
        ["--method", "topk:density=0.02", "--servers", "2", "--strategy", "server"]]
COMMON = ["--model", "mlp:hidden=32", *TINY, "--workers", "2", "--no-eval"]


class Resume(CliTest):
    def newest(self, folder):
        steps = [n for n in os.listdir(folder) if n.startswith("step-") and not n.endswith(".tmp")]
        return os.path.join(folder, max(steps, default=""))

    def test_killed_and_resumed(self):
        for number, job in enumerate(JOBS):
            folder = self.path(f"ck{number}")
            job = ["train", *COMMON, *job, "--steps", "3000"]
            whole = params_hash(self.ok(*job))
            process = start(*job, "--save", folder, "--save-every", "50")
            deadline = time.time() + 60
            while time.time() < deadline and not (os.path.isdir(folder) and any(
                    n >= "step-000000000100" and not n.endswith(".tmp") for n in os.listdir(folder))):
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            self.assertNotEqual(process.returncode, 0, "it finished before it could be killed")
            self.assertEqual(params_hash(self.ok(*job, "--resume", folder)), whole, job)

    def test_killed_while_saving(self):
        """With a checkpoint after every step, killed again and again: the newest is always whole."""
        folder, dice = self.path("ck"), random.Random(1)
        job = ["train", *COMMON, "--method", "dgc:density=0.01,warmup=6", "--steps", "1500"]
        whole = params_hash(self.ok(*job))
        for number in range(4):
            process = start(*job, "--save", folder, "--save-every", "1", *(["--resume", folder] if number else []))
            before = self.newest(folder) if number else os.path.join(folder, "")
            while process.poll() is None and (not os.path.isdir(folder) or self.newest(folder) == before):
                time.sleep(0.005)
            time.sleep(dice.random() / 10)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            self.ok("eval", "--resume", folder)
        self.assertEqual(params_hash(self.ok(*job, "--resume", folder)), whole)

    def test_servers(self):
        """What servers have is saved with the rest: their residuals, centers of clipping, and optimizers."""
        for number, extra in enumerate((["--method", "topk:density=0.05,exchange=twoway"],
                                        ["--method", "2bit:exchange=twoway", "--nodes", "2", "--workers", "4"],
                                        ["--method", "topk", "--server-mode", "sum:combine=clipped"],
                                        ["--method", "dgc:density=0.05,warmup=6", "--strategy", "server"],
                                        ["--method", "dense", "--strategy", "server", "--server-mode", "sync", "--optimizer", "adam",
                                         "--overlap", "full"])):
            folder, job = self.path(f"ck{number}"), ["train", *over(*COMMON, "--servers", "2", *extra)]
            whole = params_hash(self.ok(*job, "--steps", "12"))
            saves = ["--save", folder, "--save-every", "3"]
            self.assertEqual(params_hash(self.ok(*job, "--steps", "12", *saves)), whole)
            shutil.rmtree(os.path.join(folder, "step-000000000012"))
            done = run(*job, "--steps", "12", "--resume", folder, *saves)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(params_hash(done.stdout), whole, extra)
            shutil.rmtree(os.path.join(folder, "step-000000000012"))
            process = start(*job, "--steps", "1000000", "--resume", folder, "--save", folder)  # interrupted
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130)
            for other in (["--servers", "3"], ["--servers", "1"], ["--workers", "6"]):  # they go on with it
                done = run(*over(*job, *other), "--steps", str(int(self.newest(folder)[-12:]) + 2), "--resume", folder)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotIn("start", done.stderr)

    def test_async_servers(self):
        """Workers meet to save, and a run that is interrupted stops there."""
        folder = self.path("ck")
        job = ["train", *COMMON, "--servers", "2", "--strategy", "server", "--server-mode", "async:staleness=3"]
        self.ok(*job, "--steps", "20", "--save", folder, "--save-every", "8")
        process = start(*job, "--steps", "1000000", "--resume", folder, "--save", folder, "--save-every", "25")
        deadline = time.monotonic() + 60
        while self.newest(folder)[-12:] <= "000000000100" and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        stderr = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 130, stderr)
        step = int(self.newest(folder)[-12:])
        self.assertEqual(step % 25, 0)
        self.assertIn(f"after step {step} of 1000000; saved:", stderr)
        self.ok(*job, "--steps", str(step + 5), "--resume", folder)
        alone = [*over(*job, "--workers", "1")]  # has the same bits whenever it runs
        runs = [run(*alone, *more) for more in (["--steps", "7", "--save", self.path("one"), "--save-every", "5"],
                                                ["--steps", "20", "--resume", self.path("one")], ["--steps", "20"])]
        self.assertEqual([done.returncode for done in runs], [0, 0, 0], runs[1].stderr)
        self.assertEqual(params_hash(runs[1].stdout), params_hash(runs[2].stdout))

    def test_no_room(self):
        """A file that cannot be written to its end: an error that names it; what was saved before stays, and is whole."""
        folder = self.path("ck")
        job = ["train", *COMMON, "--optimizer", "sgd:lr=0.05,momentum=0", "--save", folder]
        self.ok(*job, "--steps", "4")
        before = self.ok("eval", "--resume", folder).splitlines()[:-1]  # but for the time

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit.bytes, limit.bytes))
        # The weights have 110,000 bytes, a rank's file without residual and momentum has less than a thousand.
        for limit.bytes, name in ((20000, "model.safetensors"), (300, "rank-000")):
            done = subprocess.run([TELEGRAD, *job, "--steps", "6", "--resume", folder], capture_output=True, text=True, env=ENVIRONMENT,
                                  preexec_fn=limit, timeout=120)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f"not saved: .*{name}")
            self.assertNotIn("saved", done.stdout)
            self.assertEqual(self.ok("eval", "--resume", folder).splitlines()[:-1], before)
        self.ok(*job, "--steps", "6", "--resume", folder)  # and the next save clears up
        self.assertEqual([n for n in os.listdir(folder) if n.endswith(".tmp")], [])

    @unittest.skipIf(os.geteuid() == 0, "SKIP: root writes everywhere")
    def test_read_only(self):
        folder = self.path("ck")
        self.ok("train", *COMMON, "--steps", "2", "--save", folder)
        os.chmod(folder, 0o500)
        try:
            self.refused(1, [folder], "train", *COMMON, "--steps", "4", "--save", folder)
            self.ok("eval", "--resume", folder)
        finally:
            os.chmod(folder, 0o700)

    def test_nowhere_to_save(self):
        """Known before the first step: the older records stay, and no folder is left behind."""
        out, file, ck = self.path("run.jsonl"), self.path("file"), self.path("ck")
        job = ["train", *COMMON, "--steps", "4", "--out", out]
        self.ok(*job, "--save", ck, "--seed", "3")
        with open(file, "w", encoding="utf-8"):
            pass
        with open(out, encoding="utf-8") as lines:
            before = lines.read()
        other = self.path("other")
        self.ok(*job[:-2], "--save", other)
        others = [ck, "it holds checkpoints of another run, the newest of step 4", f"--resume {ck} to continue"]
        for status, words, *arguments in ((1, [file, "not a folder"], "--save", file),
                                          (1, [file, "Not a directory"], "--save", file + "/ck"),
                                          (1, ["/proc/ck"], "--save", "/proc/ck/here"),
                                          (2, others, "--save", ck), (2, others, "--save", ck, "--resume", other)):
            self.refused(status, words, *job, *arguments)
            with open(out, encoding="utf-8") as lines:
                self.assertEqual(lines.read(), before, words)
        self.refused(1, ["optimizer"], *job, "--save", self.path("new"), "--resume", ck, "--seed", "3", "--lr", "0.1")
        self.ok(*job, "--save", self.path("deep/er/"), "--save-every", "2")
        self.ok(*over(*job, "--steps", "6"), "--save", ck + "/", "--resume", ck, "--seed", "3")  # its own
        self.assertEqual(sorted(os.listdir(self.folder)), ["ck", "deep", "file", "other", "run.jsonl"])

    def test_refused(self):
        folder = self.path("ck")
        job = ["train", *COMMON, "--steps", "6", "--seed", "4"]
        self.ok(*job, "--save", folder)
        for workers in "1", "2":
            for other, named in (("lenet5", "lenet5:"), ("mlp:hidden=9", "mlp:hidden=9,")):
                self.refused(1, [f"{folder}: the checkpoint is of model mlp:", f"; this run has {named}"],
                             *over(*job, "--model", other, "--steps", "9", "--workers", workers, "--resume", folder))
        self.refused(1, [f"{folder}: the checkpoint is of step 6, but this run ends at step 5: use more steps"],
                     *over(*job, "--steps", "5", "--resume", folder))
        self.refused(1, ["method", "dense", "fp16"], *job, "--method", "fp16", "--resume", folder)
        self.refused(1, ["seed"], *job[:-1], "5", "--resume", folder)
        nowhere, empty = self.path("nowhere"), self.path("empty")
        os.mkdir(empty)
        for first in job, ["eval"]:
            self.refused(1, [f"telegrad: --resume {nowhere}: No such file or directory: allowed: a folder that --save wrote"], *first, "--resume", nowhere)
            self.refused(1, [f"telegrad: no finished checkpoint in {empty}: it holds nothing"], *first, "--resume", empty)

    def test_other_options_are_called_as_on_the_command_line(self):
        folder = self.path('a "quoted" name')
        self.ok("train", *COMMON, "--steps", "4", "--save", folder)
        of_another = f"{folder}/step-000000000004/rank-0000.tg is of another job: "
        for args, words in ((["--method", "fp16"], "it was saved with --method dense:exchange=direct, this job has --method fp16\n"),
                            (["--fusion", "4K"], "it was saved with --fusion 26214400, this job has --fusion 4096\n"),
                            (["--lr", "0.1"], "it was saved with --optimizer sgd:lr=0.05, this job has --optimizer sgd:lr=0.1\n"),
                            (["--holdout", "64"], "it was saved with data=glyphs:train=512, this job has data=glyphs:train=448; allowed: the same "
                                                  "--data and --holdout, and the same files\n"),
                            (["--rule", "*.bias=f32"], "this job has --rule *.bias=dense:exchange=direct, which it was not saved with\n")):
            done = run("train", *COMMON, "--steps", "5", "--resume", folder, *args)
            self.assertEqual(done.returncode, 1)
            self.assertIn(of_another + words, done.stderr)

    def test_nothing_left(self):
        folder = self.path("ck")
        self.ok("train", *COMMON, "--steps", "4", "--save", folder)
        done = run("train", *COMMON, "--steps", "4", "--resume", folder)
        self.assertEqual((done.returncode, done.stderr), (0, f"telegrad: warning: --resume {folder}: the checkpoint is of step 4, where this run "
                                                             "ends, so nothing is left to train: increase --steps or --epochs to continue\n"))
        self.assertEqual(run("train", *COMMON, "--steps", "5", "--resume", folder).stderr, "")

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_folders_of_mpi_ranks(self):
        """Each rank locks its own folder, whether or not the others see it; one for all is locked once."""
        job = [a for a in COMMON if a not in ("--workers", "2")]
        disks = [self.path("disk0"), self.path("disk1")]

        def train(steps, folders, *args):
            return mpi_tool.mpirun(*[(1, ["train", *job, "--steps", str(steps), "--save", folder, *args]) for folder in folders])
        for folders in disks, [self.path("shared")] * 2:
            done = train(2, folders)
            self.assertEqual(done.returncode, 0, done.stderr)
            for folder in folders:
                self.assertEqual(os.listdir(folder), ["step-000000000002"])
        descriptor = os.open(disks[1], os.O_RDONLY)
        self.addCleanup(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        shutil.rmtree(os.path.join(disks[1], "step-000000000002"))
        done = train(4, [self.path("other"), disks[1]])
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"--save {disks[1]}: another run is saving to this folder: choose another", done.stderr)
        self.assertEqual(os.listdir(disks[1]), [])

    def test_skipped_folders_are_named(self):
        """A newest folder without COMMIT is not read: what is skipped, and where the run goes on."""
        folder = self.path("ck")
        job = ["train", *COMMON, "--steps"]
        self.ok(*job, "6", "--save", folder, "--save-every", "3")
        broken = self.newest(folder)
        os.remove(os.path.join(broken, "COMMIT"))
        words = f"telegrad: warning: {broken} is skipped: it has no COMMIT, so it was written or copied only in part; the newest complete " \
                "checkpoint is of step 3\n"
        for arguments in ([*job, "8", "--resume", folder], ["eval", "--resume", folder],
                          [*job, "8", "--resume", folder, "--dry-run"]):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, words), arguments)
        os.rename(broken, broken + ".tmp")  # as a save leaves it that was killed
        self.ok(*job, "8", "--resume", folder)
        self.assertIn(f"{folder}: the save of step 6 did not end; the newest complete checkpoint is of step 3\n",
                      run(*job, "8", "--resume", folder, "-v").stderr)

    def test_says_where_it_began(self):
        folder, out, page = self.path("ck"), self.path("run.jsonl"), self.path("page.html")
        job = ["train", *COMMON, "--out", out, "--steps"]
        self.assertIn("\nsteps          20 of 20\n", self.ok(*job, "20", "--save", folder))
        self.assertIn("\nsteps          25 of 25; this run began at step 20, in epoch 2\n", self.ok(*job, "25", "--resume", folder))
        lines = records(out)
        begun = [(line["type"], line["first_step"], line["first_epoch"]) for line in lines if line["type"] in ("start", "end")]
        self.assertEqual(begun, [("start", 0, 0), ("end", 0, 0), ("start", 20, 1), ("end", 20, 1)])
        self.ok("report", out, "-o", page)
        with open(page, encoding="utf-8") as text:
            self.assertIn('"first_step": 20', text.read().replace('":', '": ').replace(":  ", ": "))

    def test_other_workers(self):
        """Another number of workers takes over, says so, and saves what eval and later runs take."""
        folder, out = self.path("ck"), self.path("run.jsonl")
        job = ["train", "--model", "mlp:hidden=32", *TINY, "--method", "dgc:density=0.01,warmup=6", "--no-eval"]
        self.ok(*job, "--workers", "4", "--steps", "20", "--save", folder)
        before = self.ok("eval", "--resume", folder).splitlines()[:-1]
        done = run(*job, "--workers", "3", "--steps", "20", "--save", folder, "--resume", folder, "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("resumed from 4 workers with 3: residuals and other state of single workers were redistributed\n",
                      done.stderr)
        start = records(out)[0]
        self.assertEqual((start["resumed_workers"], start["started_anew"], start["first_step"]), (4, None, 20))
        self.assertEqual(self.ok("eval", "--resume", folder).splitlines()[:-1], before)  # nothing was trained
        self.assertEqual(sorted(n for n in os.listdir(self.newest(folder)) if n.startswith("rank")),
                         [f"rank-000{n}.tg" for n in range(3)])
        again = [*job, "--workers", "3", "--steps", "40", "--resume", folder]
        self.assertEqual(params_hash(self.ok(*again)), params_hash(self.ok(*again)))  # and says nothing
        done = run(*job, "--workers", "5", "--steps", "40", "--save", folder, "--resume", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        os.remove(os.path.join(self.newest(folder), "rank-0004.tg"))
        self.refused(1, ["rank-0004.tg", "2 ranks take over from 5"], *job, "--workers", "2", "--steps", "50", "--resume",
                     folder)
        self.ok("eval", "--resume", folder)

    def test_other_workers_of_a_text(self):
        folder, text, out = self.path("ck"), self.path("a.txt"), self.path("run.jsonl")
        with open(text, "w", encoding="utf-8") as file:
            file.write("the quick brown fox jumps over the lazy dog. " * 400)
        job = ["train", "--model", "lstm:hidden=8,embed=8,layers=1", "--data", f"text:{text}", "--batch", "4",
               "--context", "8", "--optimizer", "sgd:lr=0.1", "--no-eval"]
        self.ok(*job, "--workers", "2", "--steps", "5", "--save", folder)
        done = run(*job, "--workers", "3", "--steps", "9", "--resume", folder, "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("started again: what the model carries from batch to batch", done.stderr)
        self.assertEqual(records(out)[0]["started_anew"], "what the model carries from batch to batch")

    def test_damaged_beside_an_older_one(self):
        """The error names the older one, and what to do; that works."""
        job = ["train", "--model", "mlp:hidden=8", *TINY]
        for damaged in "COMMIT", "model.safetensors", "rank-0000.tg":
            folder = self.path(damaged)
            self.ok(*job, "--steps", "4", "--save-every", "2", "--save", folder)
            newest = self.newest(folder)
            with open(os.path.join(newest, damaged), "r+b") as file:
                file.seek(30)
                file.write(b"XXXX")
            way = f"; to use the older checkpoint of step 2, remove the folder {newest}"
            self.refused(1, [damaged, way], *job, "--steps", "6", "--resume", folder)
            if damaged != "rank-0000.tg":
                self.refused(1, [damaged, way], "eval", "--resume", folder)
            shutil.rmtree(newest)
            self.ok(*job, "--steps", "6", "--resume", folder)

    def test_damaged(self):
        folder, copy = self.path("ck"), self.path("copy")
        job = ["train", *COMMON, "--steps", "6"]
        self.ok(*job, "--save", folder)
        for name in ("rank-0001.tg", "model.safetensors"):
            self.damage(folder, copy, name, job)
        os.remove(os.path.join(self.newest(folder), "COMMIT"))
        self.refused(1, [folder], *job, "--resume", folder)

    def test_damaged_on_one_rank(self):
        """A rank that cannot read its warm-ups is not said to have others than the rest. The run is longer than before."""
        for number, job in enumerate((["--method", "dgc:density=0.1"], ["--method", "2bit", "--strategy", "cd"])):
            for damaged, other in (("rank-0000.tg", "rank-0001.tg"), ("rank-0001.tg", "rank-0000.tg")):
                folder = self.path(f"ck{number}-{damaged}")
                self.ok("train", *COMMON, *job, "--steps", "20", "--save", folder)
                name = os.path.join(self.newest(folder), damaged)
                with open(name, "r+b") as file:
                    file.seek(5000)
                    file.write(b"!?")
                stderr = self.refused(1, [f"{damaged}: section ", "checksum of "], "train", *COMMON, *job, "--steps", "400", "--resume", folder)
                self.assertNotIn(other, stderr)
                self.assertNotIn("started differently", stderr)

    def damage(self, folder, copy, damaged, job):
        size = os.path.getsize(os.path.join(self.newest(folder), damaged))
        for position in [0, 5, 13, 100, size // 3, size // 2, size - 1]:
            shutil.copytree(folder, copy)
            name = os.path.join(self.newest(copy), damaged)
            with open(name, "r+b") as file:
                file.seek(position)
                byte = file.read(1)[0]
                file.seek(position)
                file.write(bytes([byte ^ 0x40]))
            self.refused(1, [damaged], *job, "--resume", copy)
            with open(name, "r+b") as file:
                file.truncate(position)
            self.refused(1, [damaged], *job, "--resume", copy)
            shutil.rmtree(copy)


if __name__ == "__main__":
    unittest.main()
