"""Every method in every mode of DistributedDataParallel, between two and four processes. Status 77: no PyTorch here."""
import sys
import unittest

import torch_jobs


class Matrix(unittest.TestCase):
    def test_two_ranks(self):
        self.assertTrue(jobs.run_alike("ddp_matrix.py", 2, "all", timeout=300).endswith("end\n"))

    def test_four_ranks(self):
        self.assertTrue(jobs.run_alike("ddp_matrix.py", 4, "all", timeout=500).endswith("end\n"))


if __name__ == "__main__":
    torch_jobs.main(sys.modules[__name__])
