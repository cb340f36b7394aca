"""Four MPI ranks over real TCP through emulated links (./dev test --full): needs root and a network laboratory, a folder
with net.sh (up N --rate R --delay D, down) and mpi.sh (N PROGRAM...), named by $TELEGRAD_LAB."""
import os
import re
import subprocess
import sys
import unittest

TELEGRAD = os.path.abspath(sys.argv.pop(1))
LAB = os.environ.get("TELEGRAD_LAB", "")
READY = os.path.exists(os.path.join(LAB, "mpi.sh")) and os.geteuid() == 0 and os.path.exists("/dev/net/tun")
JOB = ["train", "--data", "glyphs:train=6000,test=100", "--steps", "60", "--no-eval", "--method",
       "dgc:density=0.001,warmup=0"]


def figures(text):
    return (re.search(r"params hash +(\w+)", text).group(1), float(re.search(r"median step ([\d.]+) ms", text).group(1)))


@unittest.skipUnless(READY, "SKIP: no laboratory in TELEGRAD_LAB, or not root")
class Lab(unittest.TestCase):
    def lab(self, *args):
        done = subprocess.run([os.path.join(LAB, args[0]), *args[1:]], capture_output=True, text=True, timeout=200,
                              env={**os.environ, "LAB": "telegrad-test", "LIMIT": "150"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_same_parameters_over_tcp(self):
        self.lab("net.sh", "up", "4", "--rate", "20mbit", "--delay", "10ms")
        try:
            lab_hash, lab_ms = figures(self.lab("mpi.sh", "4", TELEGRAD, *JOB))
        finally:
            self.lab("net.sh", "down")
        own = subprocess.run([TELEGRAD, *JOB, "--workers", "4", "--link", "20mbit,10ms"], capture_output=True, text=True,
                             check=True, timeout=200).stdout
        own_hash, own_ms = figures(own)
        self.assertEqual(lab_hash, own_hash)
        print(f"median step: laboratory {lab_ms} ms, shaped in-process {own_ms} ms")


if __name__ == "__main__":
    unittest.main()
