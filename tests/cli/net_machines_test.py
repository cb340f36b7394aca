"""Four machines (network namespaces behind one bridge) with four keys train LeNet-5 on MNIST to the bits of four threads."""
import os
import shutil
import subprocess
import unittest
import net_tool
from net_train_test import hash_of

DATA = os.environ.get("TELEGRAD_DATA", "")
JOB = ["train", "--model", "lenet5", "--data", "mnist:" + os.path.join(DATA, "mnist"), "--method", "dgc:density=0.01,warmup=10",
       "--steps", "60", "--no-eval"]


def ip(*args):
    subprocess.run(["ip", *args], check=True, capture_output=True)


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
@unittest.skipUnless(os.geteuid() == 0 and shutil.which("ip"), "SKIP: network namespaces need root and ip (iproute2)")
@unittest.skipUnless(os.path.isdir(os.path.join(DATA, "mnist")), "SKIP: no MNIST in TELEGRAD_DATA")
class Machines(net_tool.NetTest):
    def make(self, count):
        """Namespaces with addresses 10.77.0.1, 10.77.0.2, ... whose names nobody else has."""
        mark = f"t{os.getpid() % 100000}"
        hub = mark + "h"
        names = [f"{mark}n{i}" for i in range(count)]
        try:
            ip("netns", "add", hub)
        except subprocess.CalledProcessError as error:
            self.skipTest(f"SKIP: no network namespaces here: {error.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["ip", "netns", "del", hub], capture_output=True)
        ip("-n", hub, "link", "add", "br0", "type", "bridge")
        ip("-n", hub, "link", "set", "br0", "up")
        for i, name in enumerate(names):
            ip("netns", "add", name)
            self.addCleanup(subprocess.run, ["ip", "netns", "del", name], capture_output=True)
            ip("-n", hub, "link", "add", f"p{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", hub, "link", "set", f"p{i}", "master", "br0", "up")
            ip("-n", name, "addr", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        return names

    def test_mnist(self):
        names = self.make(4)
        public = self.new_keys(4)
        started = []
        for rank, name in enumerate(names):
            own = (["--listen", "tcp://10.77.0.1:4242", "--ranks", "4", "--allow", self.path("friends")] if rank == 0 else
                   ["--join", "tcp://10.77.0.1:4242", "--peer-key", public[0]])
            started.append(self.start(*JOB, *own, "--key", self.path(f"{rank}.key"), prefix=["ip", "netns", "exec", name]))
        done = [net_tool.Done(process, 300) for process in started]
        threads = hash_of(self.ok(*JOB, "--workers", "4", timeout=300))
        for process in done:
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertEqual(hash_of(process.stdout), threads)


if __name__ == "__main__":
    unittest.main()
