"""telegrad.torch.ddp between processes over 127.0.0.1, with Gloo as the default group. Status 77: no PyTorch here."""
import signal
import sys
import unittest

import torch_jobs

CASES = ("dense_is_ddp", "methods", "no_copy", "waits_asleep", "rebuild", "unused", "unused_and_nan", "loaded_after_nan",
         "no_sync", "scaler", "nan_without_scaler", "resumed", "saved_before_the_first_step", "half",
         "different_specs")


class Ddp(unittest.TestCase):
    def test_cases(self):
        output = jobs.run_alike("ddp_rank.py", 2, "all", timeout=150)
        for case in CASES:
            self.assertIn(f"case_{case} ", output)

    def test_inputs(self):
        output = jobs.run_alike("ddp_inputs.py", 2, "all", timeout=150)
        for case in ("join", "static_graph", "scaler_off", "scaler_units", "fetchsgd", "checkpoint", "two_models", "rules", "one_nan", "without_numpy", "refused", "frameworks", "warned"):
            self.assertIn(f"case_{case} ", output)

    def test_four_ranks(self):
        self.assertEqual(jobs.run_alike("ddp_rank.py", 4, "methods").count("case_methods"), 5)

    def test_killed_rank_is_named(self):
        (status, output, errors), (other, _, _) = jobs.run("ddp_rank.py", 2, "killed")
        self.assertEqual((status, other), (0, -signal.SIGKILL), output + errors)
        self.assertIn("PeerError: rank 1", output)

    def test_exit_with_an_operation_in_flight(self):
        (status, output, errors), _ = jobs.run("ddp_rank.py", 2, "exit")
        self.assertEqual((status, output), (0, "exits\n"), errors)
        self.assertNotIn("Fatal", errors)

    def test_modes_and_methods(self):
        """Some of them; ddp_full_test.py runs all."""
        self.assertTrue(jobs.run_alike("ddp_matrix.py", 2, "some", timeout=150).endswith("end\n"))


if __name__ == "__main__":
    torch_jobs.main(sys.modules[__name__])
