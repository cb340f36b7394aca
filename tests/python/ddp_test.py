"""telegrad.torch.ddp between processes over 127.0.0.1, with Gloo as the default group. Status 77: no PyTorch here."""
import os
import pathlib
import signal
import sys
import unittest

import ranks

try:
    import torch
    import torch.distributed
except ImportError:
    print("SKIP: no PyTorch in", sys.executable)
    sys.exit(77)

SCRIPT = str(pathlib.Path(__file__).resolve().parent / "ddp_rank.py")
CASES = ("dense_is_ddp", "methods", "rebuild", "unused", "unused_and_nan", "loaded_after_nan", "no_sync", "scaler", "nan_without_scaler",
         "resumed", "half", "refused", "different_specs")


class Ddp(unittest.TestCase):
    def start(self, size, what):
        return ranks.start(SCRIPT, size, what, environment={**os.environ, "OMP_NUM_THREADS": "1"})

    def test_cases(self):
        ended = ranks.finish(self.start(2, "all"), 150)
        for status, output, errors in ended:
            self.assertEqual(status, 0, output + errors)
            self.assertEqual(output, ended[0][1])
        for case in CASES:
            self.assertIn(f"case_{case} ", ended[0][1])

    def test_four_ranks(self):
        ended = ranks.finish(self.start(4, "methods"), 150)
        for status, output, errors in ended:
            self.assertEqual(status, 0, output + errors)
            self.assertEqual(output, ended[0][1])
        self.assertEqual(ended[0][1].count("case_methods"), 5)

    def test_killed_rank_is_named(self):
        (status, output, errors), (other, _, _) = ranks.finish(self.start(2, "killed"))
        self.assertEqual((status, other), (0, -signal.SIGKILL), output + errors)
        self.assertIn("PeerError: rank 1", output)

    def test_exit_with_an_operation_in_flight(self):
        (status, output, errors), _ = ranks.finish(self.start(2, "exit"))
        self.assertEqual((status, output), (0, "exits\n"), errors)
        self.assertNotIn("Fatal", errors)


if __name__ == "__main__":
    print("PyTorch", torch.__version__)
    unittest.main()
