"""Trouble on the way: a small MTU, a cable that is cut, an address that changes, a process that is suspended. Each rank
is a process in a network namespace of its own (needs root and ip).   net_trouble_test.py PATH-OF-NET_PLAY
The environment variable CUT_SECONDS gives the length of a cut that a job survives; 3 by default, 30 by hand."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from free_port import free_port
from namespaces import PREFIX, ip, why_not

PLAY = os.path.abspath(sys.argv.pop(1))
CUT = float(os.environ.get("CUT_SECONDS", "3"))
MISSING = why_not()


class Rank:
    """A process, and the lines that it has said."""

    def __init__(self, folder, number, command, space=None):
        self.path = os.path.join(folder, f"rank{number}.log")
        self.log = open(self.path, "w", encoding="utf-8")
        prefix = ["ip", "netns", "exec", space] if space else []
        self.process = subprocess.Popen(prefix + command, stdout=self.log, stderr=subprocess.STDOUT)

    def said(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    def steps(self):
        return len(re.findall(r"^step \d+$", self.said(), re.M))

    def end(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Trouble(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tg-trouble-")
        self.spaces, self.ranks = [], []

    def tearDown(self):
        for rank in self.ranks:
            rank.end()
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)
        shutil.rmtree(self.folder)

    def space(self, name):
        self.spaces.append(PREFIX + name)
        ip("netns", "add", PREFIX + name)
        ip("-n", PREFIX + name, "link", "set", "lo", "up")
        return PREFIX + name

    def cable(self, one, its_name, other, others_name):
        ip("link", "add", its_name, "netns", one, "type", "veth", "peer", "name", others_name, "netns", other)
        ip("-n", one, "link", "set", its_name, "up")
        ip("-n", other, "link", "set", others_name, "up")

    def star(self, size):
        """Hosts 10.99.0.1, ... on one switch."""
        switch = self.space("s")
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        for i in range(size):
            host = self.space(f"h{i}")
            self.cable(host, "eth0", switch, f"port{i}")
            ip("-n", switch, "link", "set", f"port{i}", "master", "bridge")
            ip("-n", host, "addr", "add", f"10.99.0.{i + 1}/24", "dev", "eth0")

    def cut(self, host):
        """Nothing passes any more, and neither end sees why."""
        ip("-n", PREFIX + "s", "link", "set", f"port{host}", "nomaster")

    def mend(self, host):
        ip("-n", PREFIX + "s", "link", "set", f"port{host}", "master", "bridge")

    def start(self, size, timeout_ms, steps, address, spaces=True):
        path = os.path.join(self.folder, "key")
        keys = [subprocess.run([PLAY, "key", path + str(i)], check=True, capture_output=True, text=True).stdout.strip()
                for i in range(size)]
        with open(path + "s", "w", encoding="utf-8") as file:
            file.writelines(key + "\n" for key in keys[1:])
        for i in range(size):
            role = ["meet", address, str(size), path + "0", path + "s"] if i == 0 else \
                ["join", address, str(i), path + str(i), keys[0]]
            command = [PLAY, *role, str(timeout_ms), str(steps)]
            self.ranks.append(Rank(self.folder, i, command, PREFIX + f"h{i}" if spaces else None))

    def wait_steps(self, steps, seconds=30):
        until = time.monotonic() + seconds
        while min(rank.steps() for rank in self.ranks) < steps:
            self.assertLess(time.monotonic(), until, [rank.said()[-200:] for rank in self.ranks])
            time.sleep(0.02)

    def finish(self, rank, seconds):
        """Its exit status, and the last line that it said."""
        try:
            status = rank.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.fail(f"still runs after {seconds} s: {rank.said()[-300:]}")
        return status, rank.said().splitlines()[-1]

    def all_done(self, seconds=30):
        for rank in self.ranks:
            self.assertEqual(self.finish(rank, seconds), (0, "done"))

    def names(self, rank, other, seconds):
        begun = time.monotonic()
        while "mean: " not in rank.said() and time.monotonic() - begun < seconds:
            time.sleep(0.02)
        said = time.monotonic() - begun
        status, line = self.finish(rank, seconds)
        print(f"said after {said:.1f} s, ended after {time.monotonic() - begun:.1f} s: {line}")
        self.assertEqual(status, 1, line)
        self.assertRegex(line, rf"\brank {other}\b")
        return line

    @unittest.skipIf(MISSING, MISSING)
    def test_mtu_1280(self):
        """h0 - 1500 - r0 - 1280 - r1 - 1500 - h1: neither end knows of the narrow part."""
        chain = [self.space(name) for name in ("h0", "r0", "r1", "h1")]
        for i, (one, other) in enumerate(zip(chain, chain[1:])):
            self.cable(one, "right", other, "left")
            ip("-n", one, "addr", "add", f"10.99.{i}.1/24", "dev", "right")
            ip("-n", other, "addr", "add", f"10.99.{i}.2/24", "dev", "left")
        for space, name in ((chain[1], "right"), (chain[2], "left")):
            ip("-n", space, "link", "set", name, "mtu", "1280")
            subprocess.run(["ip", "netns", "exec", space, "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
        for space, via in ((chain[0], "10.99.0.2"), (chain[1], "10.99.1.2"), (chain[2], "10.99.1.1"),
                           (chain[3], "10.99.2.1")):
            ip("-n", space, "route", "add", "default", "via", via)
        self.start(2, 10000, 30, "tcp://10.99.0.1:4242")
        self.all_done()
        ends = subprocess.run(["ip", "-n", chain[0], "route", "get", "10.99.2.2"], check=True, capture_output=True, text=True)
        self.assertIn("mtu 1280", ends.stdout)

    @unittest.skipIf(MISSING, MISSING)
    def test_a_cut_that_is_mended(self):
        self.star(3)
        self.start(3, int(1000 * (3 * CUT + 5)), 150, "tcp://10.99.0.1:4242")
        self.wait_steps(20)
        self.cut(2)
        time.sleep(CUT)
        self.assertLess(self.ranks[0].steps(), 150)
        self.mend(2)
        mended, steps = time.monotonic(), self.ranks[0].steps()
        self.wait_steps(steps + 5, 2 * CUT + 5)
        print(f"went on {time.monotonic() - mended:.1f} s after a cut of {CUT:.0f} s")
        self.all_done()

    @unittest.skipIf(MISSING, MISSING)
    def test_a_cut_longer_than_the_timeout(self):
        self.star(3)
        self.start(3, 2000, 100000, "tcp://10.99.0.1:4242")
        self.wait_steps(20)
        begun = time.monotonic()
        self.cut(2)
        for rank in self.ranks[:2]:
            self.names(rank, 2, 12)
        self.finish(self.ranks[2], 12)
        self.assertLess(time.monotonic() - begun, 15)

    @unittest.skipIf(MISSING, MISSING)
    def test_an_address_that_changes(self):
        """A rank whose address goes for a second and comes back goes on; one with another address has left."""
        self.star(2)
        self.start(2, 4000, 100000, "tcp://10.99.0.1:4242")
        self.wait_steps(20)
        host = PREFIX + "h1"
        ip("-n", host, "addr", "del", "10.99.0.2/24", "dev", "eth0")
        time.sleep(1)
        ip("-n", host, "addr", "add", "10.99.0.2/24", "dev", "eth0")
        self.wait_steps(self.ranks[0].steps() + 20)
        ip("-n", host, "addr", "del", "10.99.0.2/24", "dev", "eth0")
        ip("-n", host, "addr", "add", "10.99.0.77/24", "dev", "eth0")
        self.names(self.ranks[0], 1, 20)
        self.names(self.ranks[1], 0, 20)

    def test_a_process_that_is_suspended(self):
        self.start(3, 10000, 120, f"tcp://127.0.0.1:{free_port()}", spaces=False)
        self.wait_steps(20)
        self.ranks[1].process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        self.ranks[1].process.send_signal(signal.SIGCONT)
        self.all_done()

    def test_a_process_that_is_suspended_for_too_long(self):
        self.start(3, 2000, 100000, f"tcp://127.0.0.1:{free_port()}", spaces=False)
        self.wait_steps(20)
        self.ranks[1].process.send_signal(signal.SIGSTOP)
        for rank in (self.ranks[0], self.ranks[2]):
            self.names(rank, 1, 15)
        self.ranks[1].process.send_signal(signal.SIGCONT)
        status, line = self.finish(self.ranks[1], 15)
        self.assertEqual(status, 1, line)
        print("the suspended one: " + line)


if __name__ == "__main__":
    unittest.main()
