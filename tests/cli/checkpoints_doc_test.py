"""Every ```sh line of docs/checkpoints.md runs, in one folder; then its ```python block, where PyTorch and the safetensors
package are ($TELEGRAD_PYTHON first)."""
import os
import pathlib
import re
import subprocess
import unittest
from cli_tool import ENVIRONMENT, TELEGRAD, CliTest, python_with

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "checkpoints.md").read_text(encoding="utf-8")


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.S | re.M)


class CheckpointsPage(CliTest):
    def test_commands(self):
        environment = {**ENVIRONMENT, "PATH": os.path.dirname(TELEGRAD) + ":" + os.environ["PATH"]}
        commands = "".join(blocks("sh")).replace("\\\n", "").splitlines()
        self.assertGreaterEqual(len(commands), 6)
        for command in commands:
            done = subprocess.run(command, shell=True, cwd=self.folder, env=environment, timeout=200, capture_output=True,
                                  text=True)
            said = [line for line in done.stderr.splitlines() if "resumed from 2 workers with 3: " not in line]
            self.assertEqual((done.returncode, said), (0, []), command)
            self.assertNotEqual(done.stdout, "", command)
        python = python_with("torch", "safetensors.torch")
        if not python:
            self.skipTest("SKIP: no Python with PyTorch and safetensors")
        for code in blocks("python"):
            subprocess.run([python, "-c", code], cwd=self.folder, check=True)


if __name__ == "__main__":
    unittest.main()
