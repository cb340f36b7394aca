"""What hooks have saved is loaded by another number of ranks. Status 77: no PyTorch here."""
import sys
import tempfile
import unittest

import torch_jobs


class Takeover(unittest.TestCase):
    def test_hooks(self):
        with tempfile.TemporaryDirectory() as folder:
            jobs.run_alike("takeover_rank.py", 2, "save", folder)
            for size in (1, 2, 3):
                self.assertEqual(jobs.run_alike("takeover_rank.py", size, "load", folder).count("\n"), 5)


if __name__ == "__main__":
    torch_jobs.main(sys.modules[__name__])
