"""The commands of docs/networks.md that name a machine, run as they stand, each machine a network namespace.
networks_doc_test.py PATH-OF-TELEGRAD"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
from cli_tool import ENVIRONMENT, TELEGRAD
from net_tool import AVAILABLE, WHY

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs/networks.md").read_text(encoding="utf-8").replace("\\\n", "")
BLOCKS = re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE.split("## ")[1], re.M)  # of "Two machines"
PREFIX = f"tgdoc{os.getpid()}"
HOSTS = {"host-a": "10.98.0.1", "host-b": "10.98.0.2"}


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def why_not():
    if not AVAILABLE:
        return WHY
    if os.geteuid() != 0 or not shutil.which("ip"):
        return "SKIP: needs root and ip"
    try:
        ip("netns", "add", PREFIX + "try")
        ip("netns", "del", PREFIX + "try")
    except subprocess.CalledProcessError as error:
        return "SKIP: no network namespaces: " + error.stderr.strip()
    return ""


MISSING = why_not()


@unittest.skipIf(MISSING, MISSING)
class Networks(unittest.TestCase):
    def setUp(self):
        self.addCleanup(self.take_down)
        self.folder = tempfile.mkdtemp(prefix="tg-doc-")
        for host in HOSTS:
            os.makedirs(f"/etc/netns/{PREFIX}{host}")
            with open(f"/etc/netns/{PREFIX}{host}/hosts", "w", encoding="utf-8") as file:
                file.writelines(f"{address} {name}\n" for name, address in HOSTS.items())
            os.makedirs(os.path.join(self.folder, host))
            ip("netns", "add", PREFIX + host)
            ip("-n", PREFIX + host, "link", "set", "lo", "up")
        a, b = (PREFIX + host for host in HOSTS)
        ip("link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b)
        for host, address in HOSTS.items():
            ip("-n", PREFIX + host, "addr", "add", address + "/24", "dev", "eth0")
            ip("-n", PREFIX + host, "link", "set", "eth0", "up")

    def take_down(self):
        for host in HOSTS:
            subprocess.run(["ip", "netns", "del", PREFIX + host], check=False, capture_output=True)
            shutil.rmtree(f"/etc/netns/{PREFIX}{host}", ignore_errors=True)
        shutil.rmtree(self.folder)

    def start(self, host, command):
        environment = {**ENVIRONMENT, "PATH": os.path.dirname(TELEGRAD) + ":" + os.environ["PATH"]}
        return subprocess.Popen(["ip", "netns", "exec", PREFIX + host, "sh", "-c", command], text=True, env=environment,
                                cwd=os.path.join(self.folder, host), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run_block(self, block, keys):
        """Runs a block's commands, all at once. Returns what each host printed."""
        started = {}
        for line in block.splitlines():
            command = re.match(r"    (host-\w)\$ (telegrad .*)", line)
            if command:
                text = command[2].replace("tgk1:...", keys.get("host-a", ""))
                text = text.replace("--data mnist", "--data glyphs:train=512,test=128 --steps 4")  # real digits take longer
                started[command[1]] = self.start(command[1], text)
        printed = {}
        for host, process in started.items():
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, (block, out, err))
            self.assertNotIn("warning", err)
            printed[host] = out
        return printed

    def test_two_machines(self):
        keys, doctor, train = [block for block in BLOCKS if "$ telegrad" in block]
        keys = {host: key.strip() for host, key in self.run_block(keys, {}).items()}
        self.assertEqual(set(keys), set(HOSTS))
        line, = re.findall(r"^    (tgk1:\S+)( +.*)$", PAGE, re.M)  # the list, with the key that was just made
        with open(os.path.join(self.folder, "host-a", "friends"), "w", encoding="utf-8") as file:
            file.write(keys["host-b"] + line[1] + "\n")
        found = self.run_block(doctor, keys)
        self.assertEqual(found["host-a"], found["host-b"])
        self.assertIn("0, 1   direct", found["host-a"])
        trained = self.run_block(train, keys)
        self.assertEqual(set(trained), set(HOSTS))
        hashes = {re.search(r"params hash +(\w+)", text)[1] for text in trained.values()}
        alone = subprocess.run([TELEGRAD, *"train --workers 2 --model lenet5 --data glyphs:train=512,test=128 --steps 4 --method dgc".split()],
                               capture_output=True, text=True, env=ENVIRONMENT, check=True).stdout
        self.assertEqual(hashes, {re.search(r"params hash +(\w+)", alone)[1]})


if __name__ == "__main__":
    unittest.main()
