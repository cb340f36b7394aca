"""bench/robust.py goes on where it was stopped, and makes a table of what bench_hostile prints."""
import os
import subprocess
import sys
import unittest
from cli_tool import CliTest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "robust.py")
# Stands for bench_hostile: fails in run number $FAIL, and drops all steps of the mean with NaN.
STUB = """#!/bin/sh
echo "$1" >>"$CALLS"
[ "$(wc -l <"$CALLS")" != "${FAIL:-0}" ] || { echo "no data" >&2; exit 1; }
case $1 in *combine=mean*attack=nan*) skipped=300 ;; *) skipped=0 ;; esac
case $1 in *seed=2*) accuracy=0.5 ;; *) accuracy=0.75 ;; esac
echo "{\\"steps\\": 300, \\"skipped\\": $skipped, \\"accuracy\\": $accuracy}"
"""


class RobustTable(CliTest):
    def table(self, *args, **env):
        return subprocess.run([sys.executable, SCRIPT, self.path("out"), *args], capture_output=True, text=True,
                              env={**os.environ, "BENCH_HOSTILE": self.path("stub"), "CALLS": self.path("calls"), **env})

    def calls(self):
        with open(self.path("calls"), encoding="utf-8") as file:
            return file.read().splitlines()

    def test_goes_on(self):
        with open(self.path("stub"), "w", encoding="utf-8") as file:
            file.write(STUB)
        os.chmod(self.path("stub"), 0o755)
        first = self.table("--set", "steps=300", FAIL="7")
        self.assertEqual(1, first.returncode)
        self.assertIn("krum,f=3", first.stderr)
        self.assertTrue(first.stderr.strip().endswith("no data"), first.stderr)
        done = self.table("--set", "steps=300")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        calls = self.calls()
        self.assertEqual(9 * 5 * 2 + 1, len(calls))  # the one that failed was repeated, and no other
        self.assertEqual(calls[6], calls[7])
        self.assertEqual(len(calls) - 1, len(set(calls)))
        self.assertIn("run:mode=[sum:combine=trimmed,f=1],attack=flip,hostile=1,seed=2,steps=300", calls)
        rows = done.stdout.splitlines()
        self.assertEqual("| hostile workers | send | mean | median | trimmed | krum | clipped |", rows[0])
        self.assertEqual("| 0 | none | 62.5 | 62.5 | 62.5 | 62.5 | 62.5 |", rows[2])
        self.assertEqual("| 3 | NaN | 62.5 (all steps dropped) | 62.5 | 62.5 | 62.5 | 62.5 |", rows[8])
        self.assertEqual(11, len(rows))
        again = self.table("--seeds", "1")
        self.assertIn("| 0 | none | 75.0 |", again.stdout)
        self.assertEqual(len(calls), len(self.calls()))


if __name__ == "__main__":
    unittest.main()
