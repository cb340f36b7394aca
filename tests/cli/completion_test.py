"""Completion for bash: commands, options and names, as the command itself lists them."""
import pathlib
import re
import shutil
import subprocess
import unittest
from cli_tool import TELEGRAD, CliTest

SCRIPT = pathlib.Path(__file__).parents[2] / "command/telegrad.bash"


@unittest.skipUnless(shutil.which("bash"), "SKIP completion: no bash")
class Completion(CliTest):
    def complete(self, *words):
        """What bash would offer for the last word."""
        ask = ("source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _telegrad; printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = subprocess.run(["bash", "-c", ask, "bash", SCRIPT, TELEGRAD, *words], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_commands(self):
        self.assertEqual(self.complete("tr"), ["train"])
        offered = self.complete("")
        for name in re.findall(r"^  ([a-z]+)  ", self.ok("--help"), re.M):
            self.assertIn(name, offered)
        self.assertEqual(self.complete("help", "com"), ["compare"])

    def test_options(self):
        self.assertEqual(sorted(self.complete("train", "--lr")), ["--lr", "--lr-scale", "--lr-schedule"])
        self.assertIn("--timeline", self.complete("report", "--"))
        self.assertEqual(self.complete("train", "--no-such"), [])

    def test_names(self):
        self.assertEqual(self.complete("train", "--method", "dg"), ["dgc"])
        self.assertIn("diloco", self.complete("compare", "--strategy", ""))
        self.assertIn("adamw", self.complete("train", "--optimizer", "ad"))
        self.assertEqual(self.complete("methods", "powers"), ["powersgd"])
        self.assertNotIn("quantisation", self.complete("methods", ""))  # the heading of a family
        self.assertEqual(self.complete("bench", "ex"), ["exchange"])

    def test_files(self):
        """Nothing of ours: then bash offers files."""
        self.assertEqual(self.complete("report", "run"), [])


if __name__ == "__main__":
    unittest.main()
