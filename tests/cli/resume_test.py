"""A run that was killed and resumed ends with the hash of the run that was never stopped; checkpoints that do not fit
are refused by name, and damaged ones are never half loaded."""
import os
import shutil
import signal
import time
import unittest
from cli_tool import CliTest, TINY, start
from same_hash_test import params_hash

JOBS = [["--method", "dgc:density=0.01,warmup=6"],
        ["--method", "2bit:threshold=0.01", "--strategy", "cd:k=3,warmup=4"],
        ["--method", "strom:target=0.02"],
        ["--method", "topk:density=0.02", "--strategy", "ssgd", "--lr-schedule", "cosine"]]
COMMON = ["--model", "mlp:hidden=32", *TINY, "--workers", "2", "--no-eval"]


class Resume(CliTest):
    def newest(self, folder):
        steps = [n for n in os.listdir(folder) if n.startswith("step-") and not n.endswith(".tmp")]
        return os.path.join(folder, max(steps))

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

    def test_refused(self):
        folder = self.path("ck")
        job = ["train", *COMMON, "--steps", "6", "--seed", "4"]
        self.ok(*job, "--save", folder)
        self.refused(1, ["tensor"], *job[:1], "--model", "lenet5", *COMMON[2:], "--steps", "9", "--seed", "4",
                     "--resume", folder)
        self.refused(1, ["method", "dense", "fp16"], *job, "--method", "fp16", "--resume", folder)
        self.refused(1, ["seed"], *job[:-1], "5", "--resume", folder)
        self.refused(1, ["2", "3"], *job[:-2], "--workers", "3", "--seed", "4", "--resume", folder)
        self.refused(1, ["nowhere"], *job, "--resume", self.path("nowhere"))

    def test_damaged(self):
        folder, copy = self.path("ck"), self.path("copy")
        job = ["train", *COMMON, "--steps", "6"]
        self.ok(*job, "--save", folder)
        size = os.path.getsize(os.path.join(self.newest(folder), "rank-0001.tg"))
        for position in [0, 5, 13, 100, size // 3, size // 2, size - 1]:
            shutil.copytree(folder, copy)
            name = os.path.join(self.newest(copy), "rank-0001.tg")
            with open(name, "r+b") as file:
                file.seek(position)
                byte = file.read(1)[0]
                file.seek(position)
                file.write(bytes([byte ^ 0x40]))
            self.refused(1, ["rank-0001.tg"], *job, "--resume", copy)
            with open(name, "r+b") as file:
                file.truncate(position)
            self.refused(1, ["rank-0001.tg"], *job, "--resume", copy)
            shutil.rmtree(copy)
        os.remove(os.path.join(self.newest(folder), "COMMIT"))
        self.refused(1, [folder], *job, "--resume", folder)


if __name__ == "__main__":
    unittest.main()
