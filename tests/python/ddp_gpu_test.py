"""The cases of ddp_test.py with model and gradients on a CUDA device, and arrays of reducers there. Status 77: no PyTorch here, or no
GPU."""
import os
import sys
import unittest

import torch_jobs

CASES = ("dense_is_ddp", "methods", "no_copy", "rebuild", "unused", "unused_and_nan", "loaded_after_nan", "no_sync", "scaler",
         "nan_without_scaler", "resumed", "saved_before_the_first_step", "half", "different_specs")


class DdpOnGpu(unittest.TestCase):
    def test_cases(self):
        output = jobs.run_alike("ddp_rank.py", 2, "all", timeout=250)
        for case in CASES:
            self.assertIn(f"case_{case} ", output)

    def test_reducers(self):
        """Means of arrays on the GPU have the bits of those on the host, also where only one rank has its array there."""
        output = jobs.run_alike("gpu_rank.py", 2, timeout=150)
        self.assertTrue(output.endswith("end\n"))


def gpu():
    """Why there is none; "": there is one."""
    try:
        import torch
        import telegrad
    except ImportError as error:
        return str(error)
    if not torch.cuda.is_available():
        return "torch.cuda.is_available() is False"
    try:
        from telegrad import _c
        from telegrad._errors import check
        check(_c.tg_cuda_attach())
    except telegrad.UnsupportedError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    reason = gpu()
    if reason:
        print(f"SKIP: {reason}")
        sys.exit(77)
    os.environ["TELEGRAD_TEST_DEVICE"] = "cuda"
    torch_jobs.main(sys.modules[__name__])
