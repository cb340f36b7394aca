"""examples/pytorch/ddp_resnet.py on two machines: network namespaces with a disk (a folder) of their own. Status 77: no PyTorch here."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import ranks

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "pytorch" / "ddp_resnet.py"
SMALL = ["--width", "4", "--images", "32", "--batch", "8", "--epochs", "2"]
FIRST = "10.79.0.1"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("ip"), "SKIP: network namespaces need root and ip (iproute2)")
class Machines(unittest.TestCase):
    def setUp(self):
        """Two namespaces with a cable between them."""
        self.names = [f"tgpy{os.getpid()}{letter}" for letter in "ab"]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="telegrad-machines-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in self.names:
            try:
                ip("netns", "add", name)
            except subprocess.CalledProcessError as error:
                self.skipTest("SKIP: no network namespaces here: " + error.stderr.strip())
            self.addCleanup(subprocess.run, ["ip", "netns", "del", name], capture_output=True)
        ip("link", "add", "eth0", "netns", self.names[0], "type", "veth", "peer", "name", "eth0", "netns", self.names[1])
        for number, name in enumerate(self.names):
            ip("-n", name, "addr", "add", f"10.79.0.{number + 1}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")

    def run_both(self, *arguments):
        """A rank on each, as torchrun --nnodes 2 starts them."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": FIRST, "MASTER_PORT": "29500", "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                       "GLOO_SOCKET_IFNAME": "eth0"}
        started = [subprocess.Popen(["ip", "netns", "exec", name, sys.executable, str(EXAMPLE), *SMALL, "--save", str(self.folder / name),
                                     *arguments], text=True, env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE) for rank, name in enumerate(self.names)]
        (first, output, errors), (second, none, more) = ranks.finish(started)
        self.assertEqual((first, second, none), (0, 0, ""), output + errors + more)
        return output

    def test_hook(self):
        import torch
        output = self.run_both()
        self.assertEqual(len(re.findall(r"(?m)^epoch [12]: .* ms a step, [1-9]\d* bytes sent", output)), 2, output)
        saved = [self.folder / name / "epoch-2" for name in self.names]
        first, second = (torch.load(path / "model.pt")["model"] for path in saved)
        for name, value in first.items():  # a rank's statistics are its own until the next pass
            self.assertTrue("running" in name or torch.equal(value, second[name]), name)
        for path in saved:
            self.assertEqual(len(list(path.glob("telegrad-*.pt"))), 1)
            shutil.rmtree(path)
        again = self.run_both("--resume")  # each from its own disk
        loss = re.compile(r"epoch 2: loss (\S+),")
        self.assertEqual(loss.findall(again), loss.findall(output))


if __name__ == "__main__":
    try:
        import torch
    except ImportError:
        print("SKIP: no PyTorch in", sys.executable)
        sys.exit(77)
    print("PyTorch", torch.__version__)
    unittest.main()
