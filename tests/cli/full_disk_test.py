"""Standard output that cannot be written: every command says so, and why, and ends with status 1."""
import os
import subprocess
import unittest
from cli_tool import CliTest, ENVIRONMENT, TELEGRAD, TINY, records

JOB = ["--model", "mlp:hidden=16", *TINY, "--workers", "2", "--steps", "2"]
EXCHANGE = ["bench", "exchange", "--elements", "2000", "--workers", "2", "--seconds", "0.001"]
CODEC = ["bench", "codec", "--elements", "2000", "--seconds", "0.001", "--filter", "fp16 encode"]
TRAIN = ["bench", "train", "--model", "mlp:hidden=16", "--batch", "8", "--seconds", "0.01"]
ADVISE = ["advise", "--model", "mlp:hidden=16", "--workers", "2", "--link", "1gbit,1ms", "--tau", "10ms"]
KINDS = ["methods", "strategies", "exchanges", "codecs", "feedbacks", "optimizers", "lr-schedules", "models", "data"]
COMMANDS = [
    ["--help"], ["--usage"], ["--version"], ["help"], ["help", "train"], ["help", "--man"], ["help", "--completion", "bash"],
    ["help", "--completion", "zsh"], ["help", "--names", "methods"],
    *([name, "--help"] for name in ("train", "compare", "eval", "bench", "advise", "report", *KINDS)),
    ["bench", "train", "--help"], ["bench", "exchange", "--help"],
    *([name] for name in KINDS), *([name, "--json"] for name in KINDS),
    ["methods", "topk"], ["methods", "--markdown"], ["models", "lenet5"], ["models", "--markdown"],
    ["data", "glyphs:train=64,test=32"],
    ["train", *JOB], ["train", *JOB, "--dry-run"],
    ["train", *JOB, "--clock", "virtual", "--tau", "10ms", "--sim-only"],
    ["compare", *JOB, "--run", "name=a;method=dense"], ["compare", *JOB, "--run", "name=a;method=dense", "--json"],
    EXCHANGE + ["dense"], EXCHANGE + ["--json", "dense"], CODEC, CODEC + ["--json"], TRAIN, TRAIN + ["--json"],
    ADVISE, ADVISE + ["--json"],
]


def run_into(out, command, before=""):
    return subprocess.run(["sh", "-c", before + 'exec "$0" "$@"', TELEGRAD, *command], stdout=out, stderr=subprocess.PIPE,
                          text=True, timeout=600, env=ENVIRONMENT)


class FullDiskTest(CliTest):
    def fails(self, command, why="No space left on device", out="/dev/full", before=""):
        with self.subTest(command=command), open(out, "w", encoding="utf-8") as file:
            done = run_into(file, command, before)
            said = [line for line in done.stderr.splitlines() if "standard output" in line]
            self.assertEqual((done.returncode, said), (1, ["telegrad: cannot write to standard output: " + why]), done.stderr)

    def test_every_command_says_it(self):
        for command in COMMANDS:
            self.fails(command)

    def test_files_stand(self):
        out, page, folder = self.path("run.jsonl"), self.path("run.html"), self.path("run")
        self.fails(["train", *JOB, "--out", out, "--save", folder])
        self.assertEqual([r["type"] for r in records(out)][-1], "end")
        self.fails(["report", out, "-o", page])
        with open(page, encoding="utf-8") as file:
            self.assertIn("</html>", file.read())
        self.fails(["eval", "--resume", folder, "--data", TINY[1]])
        self.fails(["eval", "--resume", folder, "--data", TINY[1], "--json"])
        self.refused(1, ["--logits: cannot write /dev/full: No space left on device"], "eval", "--resume", folder, "--data", TINY[1],
                     "--logits", "/dev/full")

    def test_closed(self):
        """No file that is opened later takes its place."""
        out = self.path("run.jsonl")
        self.fails(["train", *JOB, "--out", out], "Bad file descriptor", os.devnull, "exec >&-; ")
        self.assertEqual([r["type"] for r in records(out)][-1], "end")

    def test_nobody_reads_any_more(self):
        """As other commands: ended by SIGPIPE, or, where that is ignored, with an error."""
        for before, expected in (("trap '' PIPE; ", (1, "telegrad: cannot write to standard output: Broken pipe\n")), ("", (-13, ""))):
            reading, writing = os.pipe()
            os.close(reading)
            done = run_into(writing, ["methods"], before)
            os.close(writing)
            self.assertEqual((done.returncode, done.stderr), expected)


if __name__ == "__main__":
    unittest.main()
