"""Machines (network namespaces on one switch) with keys of their own train to the bits of threads."""
import os
import shutil
import subprocess
import unittest
import net_tool
from cli_tool import TINY
from namespaces import Machines, ip, remove_old, why_not
from net_train_test import MLP, hash_of

DATA = os.environ.get("TELEGRAD_DATA", "")
MISSING = why_not()


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
@unittest.skipIf(MISSING, MISSING)
class Train(net_tool.NetTest):
    def make(self, count):
        self.machines = Machines(self, {f"host-{i}": f"10.77.0.{i + 1}" for i in range(count)})
        self.public = self.new_keys(count)

    def all_start(self, *args, port=4242):
        """Each machine is a rank."""
        meeting = f"tcp://10.77.0.1:{port}"
        return [self.start(*args, *(["--join", meeting, "--peer-key", self.public[0]] if rank else
                                    ["--listen", meeting, "--ranks", str(len(self.public)), "--allow", self.path("friends")]),
                           "--key", self.path(f"{rank}.key"), prefix=self.machines.prefix(f"host-{rank}"))
                for rank in range(len(self.public))]

    def all_done(self, started):
        done = [net_tool.Done(process, 300) for process in started]
        for process in done:
            self.assertEqual(process.returncode, 0, process.stderr)
        return [process.stdout for process in done]

    def test_what_killed_tests_left(self):
        """It is removed; what belongs to a process that runs stays."""
        ended = subprocess.Popen(["true"])
        ended.wait()
        for pid, stays in ((ended.pid, False), (os.getpid(), True)):
            name = f"tgns{pid}-left"
            self.addCleanup(shutil.rmtree, "/etc/netns/" + name, ignore_errors=True)
            self.addCleanup(subprocess.run, ["ip", "netns", "del", name], capture_output=True)
            ip("netns", "add", name)
            os.makedirs("/etc/netns/" + name)
            remove_old()
            self.assertEqual([os.path.exists(folder + name) for folder in ("/run/netns/", "/etc/netns/")], [stays, stays])

    @unittest.skipUnless(os.path.isdir(os.path.join(DATA, "mnist")), "SKIP: no MNIST in TELEGRAD_DATA")
    def test_mnist(self):
        job = ["train", "--model", "lenet5", "--data", "mnist:" + os.path.join(DATA, "mnist"), "--method", "dgc:density=0.01,warmup=10",
               "--steps", "60", "--no-eval"]
        self.make(4)
        started = self.all_start(*job)
        threads = hash_of(self.ok(*job, "--workers", "4", timeout=300))
        self.assertEqual([hash_of(text) for text in self.all_done(started)], [threads] * 4)

    def test_relayed(self):
        """Nothing passes between two of the machines, so rank 0 forwards; a call without an answer is given up after 3 s."""
        job = ["train", *TINY, *MLP, "--steps", "8", "--method", "dgc:density=0.01"]
        self.make(3)
        self.machines.separate("host-1", "host-2")
        started = self.all_start(*job), self.all_start("doctor", "--seconds", "0.1", port=4243)
        threads = hash_of(self.ok(*job, "--workers", "3"))
        trained, found = map(self.all_done, started)
        self.assertEqual([hash_of(text) for text in trained], [threads] * 3)
        for text in found:
            self.assertRegex(text, r"(?m)^0, 1 +direct .*\n0, 2 +direct .*\n1, 2 +relayed ")
            self.assertIn("- ranks 1 and 2 do not reach each other, so rank 0 forwards their messages", text)


if __name__ == "__main__":
    unittest.main()
