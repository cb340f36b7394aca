"""--save and --resume of ranks that do not share a disk: each has a folder of its own, from which it goes on."""
import os
import shutil
import signal
import time
import unittest
import net_tool
from cli_tool import TINY, over
from net_train_test import MLP, hash_of

JOB = ["train", *TINY, *MLP, "--method", "topk:density=0.02", "--strategy", "dga:delay=2"]


def step_folder(step):
    return f"step-{step:012d}"


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
class Resume(net_tool.NetTest):
    RANKS = 3

    def setUp(self):
        super().setUp()
        self.new_keys(self.RANKS)
        self.folders = [self.path(f"disk{r}") for r in range(self.RANKS)]

    def expected(self, steps):
        return hash_of(self.ok(*JOB, "--workers", str(self.RANKS), "--steps", str(steps), "--quiet"))

    def train(self, steps, *args, resume=False, save=True, into=None):
        """Each rank saves to its folder, or resumes from it. into: other names of the folders to save to."""
        def own(rank):
            return [*(["--resume", self.folders[rank]] if resume else []), *(["--save", (into or self.folders)[rank]] if save else [])]
        return self.job(self.RANKS, *over(*JOB, "--steps", str(steps), *args), own=own)

    def test_skipped_folders_are_named_once(self):
        """Each process looks at its folder several times, and says once what it does not read."""
        self.check(self.train(6), self.expected(6))
        for folder in self.folders:
            shutil.copytree(os.path.join(folder, step_folder(6)), broken := os.path.join(folder, step_folder(7)))
            os.remove(os.path.join(broken, "COMMIT"))
            os.mkdir(os.path.join(folder, step_folder(8) + ".tmp"))
        for rank, done in enumerate(self.train(9, "--verbose", resume=True)):
            self.assertEqual(done.returncode, 0, done.stderr)
            for words in ("is skipped: it has no COMMIT", "the save of step 8 did not end"):
                self.assertEqual(done.stderr.count(words), 1, f"rank {rank}: {done.stderr}")

    def check(self, done, hash_):
        for process in done:
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertEqual(hash_of(process.stdout), hash_)

    def files(self, rank, step):
        return sorted(os.listdir(os.path.join(self.folders[rank], step_folder(step))))

    def test_a_folder_for_each_rank(self):
        done = self.train(6)
        self.check(done, self.expected(6))
        for rank in range(self.RANKS):
            self.assertEqual(sorted(set(self.files(rank, 6)) - {"FINAL", "final.safetensors"}),
                             ["COMMIT", "model.safetensors", f"rank-000{rank}.tg"])
            self.assertIn(f"saved          {self.folders[rank]}/{step_folder(6)}", done[rank].stdout)
        self.check(self.train(12, resume=True), self.expected(12))
        tested = {self.ok("eval", "--resume", folder).split("\n", 1)[1].split("time")[0] for folder in self.folders}
        self.assertEqual(len(tested), 1, tested)  # every folder has the weights

    def test_one_folder_for_all(self):
        self.folders = [self.path("shared")] * self.RANKS
        self.check(self.train(6), self.expected(6))
        self.assertEqual([n for n in self.files(0, 6) if n.startswith("rank")], ["rank-0000.tg", "rank-0001.tg", "rank-0002.tg"])
        self.check(self.train(12, resume=True), self.expected(12))
        self.assertEqual(sorted(os.listdir(self.path("shared"))), [step_folder(6), step_folder(12)])

    def test_two_of_three_share(self):
        self.folders[2] = self.folders[1]
        self.check(self.train(6), self.expected(6))
        self.assertEqual([n for n in self.files(0, 6) if n.startswith("rank")], ["rank-0000.tg"])
        self.assertEqual([n for n in self.files(1, 6) if n.startswith("rank")], ["rank-0001.tg", "rank-0002.tg"])
        self.check(self.train(12, resume=True), self.expected(12))

    def test_the_newest_that_all_have(self):
        """One was killed before its commit: all go back, with a word, and what lies beyond is replaced."""
        self.train(9, "--save-every", "3")
        shutil.rmtree(os.path.join(self.folders[1], step_folder(9)))
        saved, self.folders = self.folders, [folder + "/" for folder in self.folders]  # --save names it in another way
        done = self.train(7, resume=True, into=saved)
        self.check(done, self.expected(7))
        self.assertIn("its checkpoint of step 9 is skipped, because rank 1 lacks it; the newest one that all ranks have is of step 6",
                      done[0].stderr)
        for folder in self.folders:
            self.assertEqual(sorted(os.listdir(folder)), [step_folder(6), step_folder(7)])
        self.check(self.train(12, resume=True), self.expected(12))

    def test_a_step_left_behind_is_not_mixed(self):
        """Step 9 is reached again. One rank cannot save it, so the others' old one does not count either."""
        self.train(9, "--save-every", "3")
        shutil.rmtree(os.path.join(self.folders[1], step_folder(9)))
        blocked = os.path.join(self.folders[1], step_folder(9) + ".tmp")
        with open(blocked, "w"):
            pass
        for process in self.train(9, resume=True):
            self.assertEqual(process.returncode, 1)
            self.assertIn(blocked, process.stderr)
        for rank in (0, 2):
            self.assertNotIn("COMMIT", self.files(rank, 9))
        os.remove(blocked)
        self.check(self.train(12, resume=True), self.expected(12))

    def test_a_stale_copy_is_no_shared_folder(self):
        """Files of another rank that lie in a folder from before do not make it shared."""
        self.train(3)
        for rank in (1, 2):
            shutil.copytree(os.path.join(self.folders[0], step_folder(3)), os.path.join(self.folders[rank], step_folder(6) + ".tmp"))
        self.check(self.train(6, resume=True), self.expected(6))
        for rank in range(self.RANKS):
            self.assertEqual([n for n in self.files(rank, 6) if n.startswith("rank")], [f"rank-000{rank}.tg"])

    def test_none_in_common(self):
        self.train(3)
        self.train(6, resume=True)
        shutil.rmtree(os.path.join(self.folders[2], step_folder(6)))
        shutil.rmtree(os.path.join(self.folders[0], step_folder(3)))
        for process in self.train(9, resume=True, save=False):
            self.assertEqual(process.returncode, 1)
            self.assertIn("no checkpoint exists on all ranks: the newest on rank 0 is of step 6, on rank 2 of step 3",
                          process.stderr.splitlines()[-1])

    def test_checkpoints_of_different_runs(self):
        """The settings are the same, the weights are not."""
        self.train(3)
        others, self.folders = self.folders, [self.path(f"other{r}") for r in range(self.RANKS)]
        self.train(3, "--init", os.path.join(others[0], step_folder(3), "model.safetensors"))
        self.folders[1] = others[1]
        for process in self.train(6, resume=True, save=False):
            self.assertEqual(process.returncode, 1)
            self.assertIn("the checkpoints of step 3 of ranks 0 and 1 hold different weights: they are of different runs",
                          process.stderr.splitlines()[-1])

    def test_checkpoints_of_different_lengths(self):
        """The warm-up that a checkpoint keeps depends on the length of its run."""
        method = ["--method", "2bit", "--strategy", "cd"]
        for process in self.train(40, *method, "--save-every", "20"):
            self.assertEqual(process.returncode, 0, process.stderr)
        for folder in self.folders:
            shutil.rmtree(os.path.join(folder, step_folder(40)))
        others, self.folders = self.folders, [self.path(f"other{r}") for r in range(self.RANKS)]
        self.train(20, *method)
        self.folders[1] = others[1]
        for rank, process in enumerate(self.train(60, *method, resume=True, save=False)):
            self.assertEqual(process.returncode, 1)
            self.assertIn("the checkpoints of step 20 of ranks " + ("1 and 0" if rank == 1 else f"{rank} and 1") +
                          " are of runs of different lengths: their warm-ups differ", process.stderr.splitlines()[-1])

    def test_folders_find_their_ranks(self):
        """Processes with one key are told apart by what their folders hold."""
        self.train(6)
        processes = [self.start(*JOB, "--steps", "12", "--listen", self.meeting, "--ranks", "3", "--insecure", "--resume", self.folders[0])]
        for rank in (2, 1):
            processes.append(self.start(*JOB, "--steps", "12", "--join", self.meeting, "--insecure", "--resume", self.folders[rank]))
            time.sleep(0.3)
        done = [net_tool.Done(process) for process in processes]
        self.check(done, self.expected(12))
        self.assertIn("joined as rank 2 of 3", done[1].stderr)

    def test_the_folder_of_another_rank(self):
        self.train(3)
        done = [net_tool.Done(process, 60) for process in
                [self.start(*JOB, "--steps", "6", *self.options(rank, 3), "--resume", self.folders[(1, 0, 2)[rank]]) for rank in range(3)]]
        self.assertEqual([process.returncode for process in done], [1, 1, 1])
        self.assertIn("has no file of rank", done[0].stderr.splitlines()[-1])

    def test_one_folder_for_two_ranks(self):
        """It is that of one rank, so another cannot be the same, and has no file there."""
        self.train(3)
        base = [*JOB, "--steps", "6", "--insecure"]
        host = self.start(*base, "--listen", self.meeting, "--ranks", "3", "--resume", self.folders[0])
        first = self.start(*base, "--join", self.meeting, "--resume", self.folders[1])
        while "waiting for" not in first.stderr.readline():
            pass
        again = net_tool.Done(self.start(*base, "--join", self.meeting, "--resume", self.folders[1]))
        self.assertEqual(again.returncode, 1)
        self.assertIn(f"rank 1 is taken by another process that has joined; --resume {self.folders[1]} holds the checkpoint of rank 1 only: "
                      "give each rank the folder that it saved to, or all ranks a folder that they share", again.stderr)
        third = net_tool.Done(self.start(*base, "--join", self.meeting, "--resume", self.folders[0]))
        self.assertEqual(third.returncode, 1)
        self.assertIn("has no file of rank 2: use the folder that rank 2 saved to", third.stderr)
        for process in host, first:
            self.assertEqual(net_tool.Done(process).returncode, 1)

    def refuse_another_job(self, taken):
        """Another job may not save to a folder that is in use, whatever rank it gives it to."""
        other = ["train", *TINY, "--steps", "5", "--insecure"]
        meeting = f"tcp://127.0.0.1:{net_tool.free_port()}"
        processes = [self.start(*other, "--listen", meeting, "--ranks", "2", "--save", self.path("others")),
                     self.start(*other, "--join", meeting, "--save", taken)]
        done = [net_tool.Done(process) for process in processes]
        self.assertEqual([process.returncode for process in done], [1, 1])
        self.assertIn(f"--save {taken}: another run is saving to this folder: choose another", done[1].stderr)
        self.assertFalse(os.path.exists(self.path("others")))

    def until_saved(self, step):
        """Wait until all folders have a checkpoint of this step, or a later one."""
        until = time.monotonic() + 120
        while not all(max(self.steps_in(folder), default="") >= step_folder(step) for folder in self.folders):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)

    def steps_in(self, folder):
        return [name for name in os.listdir(folder) if len(name) == len(step_folder(0))] if os.path.exists(folder) else []

    def test_interrupted(self):
        """A run that a signal stopped saves everywhere, and goes on. No other job takes its folders meanwhile."""
        processes = [self.start(*JOB, "--steps", "100000", *self.options(rank, 3), "--save", self.folders[rank], "--save-every", "5")
                     for rank in range(3)]
        self.until_saved(5)
        self.refuse_another_job(self.folders[2])
        processes[1].send_signal(signal.SIGTERM)
        for process in processes:
            self.assertEqual(net_tool.Done(process).returncode, 143)
        newest = {max(os.listdir(folder)) for folder in self.folders}
        self.assertEqual(len(newest), 1)
        steps = int(newest.pop()[5:]) + 3
        self.check(self.train(steps, resume=True), self.expected(steps))

    def test_killed_at_any_moment(self):
        """Whatever moment a rank is killed at, the folders together hold a checkpoint to go on from."""
        processes = [self.start(*JOB, "--steps", "100000", *self.options(rank, 3), "--save", self.folders[rank], "--save-every", "1")
                     for rank in range(3)]
        self.until_saved(10)
        processes[1].kill()
        for process in processes:
            net_tool.Done(process)
        newest = min(max(self.steps_in(folder)) for folder in self.folders)
        steps = int(newest[5:]) + 2
        self.check(self.train(steps, resume=True), self.expected(steps))


if __name__ == "__main__":
    unittest.main()
