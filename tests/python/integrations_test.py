"""telegrad.integrations between two processes, with the frameworks that are installed. Status 77: no PyTorch here."""
import importlib.util
import sys
import tempfile
import unittest

import torch_jobs


class Integrations(unittest.TestCase):
    def trained(self, framework, steps):
        if importlib.util.find_spec(framework) is None:
            self.skipTest(f"SKIP: no {framework}")
        with tempfile.TemporaryDirectory() as folder:
            ended = jobs.run("integrations_rank.py", 2, framework, folder, timeout=200)
        for status, output, errors in ended:
            self.assertEqual(status, 0, output + errors)
            self.assertRegex(output, rf"(?m)^{framework} {steps} [0-9a-f]+$")
        self.assertEqual(*(output.splitlines()[-1] for _, output, _ in ended))  # the same parameters

    def test_accelerate(self):
        self.trained("accelerate", 4)

    def test_transformers(self):
        self.trained("transformers", 8)  # continued from a checkpoint after four

    def test_lightning(self):
        self.trained("lightning", 8)


if __name__ == "__main__":
    torch_jobs.main(sys.modules[__name__])
