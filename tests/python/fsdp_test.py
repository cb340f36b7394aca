"""telegrad.torch.fsdp between four processes: two replicas of two shards. Status 77: no PyTorch here, or one without FSDP2."""
import sys
import unittest

import torch_jobs

CASES = ("dense", "methods", "nan", "scaler", "failed", "resumed", "other_shards", "refused")


class Fsdp(unittest.TestCase):
    def test_cases(self):
        if int(jobs.version.split(".")[0]) < 2:
            self.skipTest("FSDP2 needs PyTorch 2.6")
        output = jobs.run_alike("fsdp_rank.py", 4, "all", timeout=150)
        for case in CASES:
            self.assertIn(f"case_{case} ", output)
        self.assertTrue(output.endswith("end\n"))


if __name__ == "__main__":
    torch_jobs.main(sys.modules[__name__])
