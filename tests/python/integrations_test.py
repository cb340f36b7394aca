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
            for status, output, errors in jobs.run("integrations_rank.py", 2, framework, folder, "help", timeout=100):
                self.assertEqual(status, 0, output + errors)
                self.assertTrue(output.endswith(f"{framework} helps\n"), output)
            self.trained_in(folder, framework, 2, steps)
            if framework == "transformers":
                self.trained_in(folder, framework, 3, 12)

    def trained_in(self, folder, framework, size, steps):
        ended = jobs.run("integrations_rank.py", size, framework, folder, timeout=200)
        for status, output, errors in ended:
            self.assertEqual(status, 0, output + errors)
            self.assertRegex(output, rf"(?m)^{framework} {steps} [0-9a-f]+$")
        self.assertEqual(len({output.splitlines()[-1] for _, output, _ in ended}), 1)  # the same parameters

    def test_accelerate(self):
        self.trained("accelerate", 4)

    def test_transformers(self):
        self.trained("transformers", 8)  # continued from a checkpoint after four, and by three ranks after eight

    def test_lightning(self):
        self.trained("lightning", 8)


if __name__ == "__main__":
    torch_jobs.main(sys.modules[__name__])
