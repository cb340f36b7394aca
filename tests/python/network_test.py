"""telegrad.torch.Network: ranks that find each other by a store of torch.distributed."""
import sys
import time
import unittest

import torch_jobs


class Network(unittest.TestCase):
    def test_interrupted(self):
        begun = time.monotonic()
        (status, output, errors), _ = jobs.run("network_rank.py", 2, "interrupted")
        self.assertEqual((status, output), (0, "KeyboardInterrupt\n"), errors)
        self.assertLess(time.monotonic() - begun, 30)

    def test_stores(self):
        [(status, output, errors)] = jobs.run("network_rank.py", 1, "stores")
        self.assertEqual((status, output), (0, "3 ran well\n"), errors)


if __name__ == "__main__":
    torch_jobs.main(sys.modules[__name__])
