"""The commands of docs/networks.md, run as they stand, each machine a network namespace; and what the doctor prints there.
networks_doc_test.py PATH-OF-TELEGRAD"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import net_tool
from cli_tool import ENVIRONMENT, TELEGRAD
from namespaces import PREFIX, Machines, ip, why_not
from net_train_test import hash_of

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs/networks.md").read_text(encoding="utf-8").replace("\\\n", "")
BLOCKS = [block for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE, re.M) if "$ telegrad" in block]
PROSE = re.sub(r"(?ms)^```.*?^```", "", PAGE)
INLINE = {" ".join(code.split()) for code in re.findall(r"`([^`]+)`", PROSE)}
PROGRAMS = ("telegrad", "chmod", "kill", "ufw", "modprobe", "sysctl", "tmux", "nohup")
SYSTEM = ("ufw", "modprobe", "sysctl", "tmux", "nohup")  # of the system, for all who use it: not run
HOSTS = {"host-a": "10.98.0.1", "host-b": "10.98.0.2", "host-c": "10.98.0.3"}
DIGITS = "--data glyphs:train=512,test=128"  # real ones take longer
TINY = f"--model mlp:hidden=16 {DIGITS} --batch 16 --no-eval"
MISSING = why_not()

NUMBER, SHARE = r"\d+(\.\d+)?", r"\d+\.\d\d %|-"
MACHINES = (r"\d+", r"[\d.]+", r"\w+", NUMBER + r" [kMG]?B", r"[+-]\d+\.\d ms", r"[\w.-]+, Linux [\w.-]+")
PAIRS = (r"\d+, \d+", "direct|memory|relayed", r"\d+\.\d{3} ms", r"\d+\.\d{3} ms", NUMBER, NUMBER, SHARE, SHARE)


def cells(line):
    return re.split(r" {2,}", line.strip())


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
@unittest.skipIf(MISSING, MISSING)
class Networks(unittest.TestCase):
    def setUp(self):
        self.machines = Machines(self, HOSTS)
        self.folder = tempfile.mkdtemp(prefix="tg-doc-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.running = []
        self.addCleanup(self.end_all)
        for host in HOSTS:
            os.makedirs(os.path.join(self.folder, host))

    def end_all(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def file(self, host, name):
        return os.path.join(self.folder, host, name)

    def start(self, host, command):
        environment = {**ENVIRONMENT, "PATH": os.path.dirname(TELEGRAD) + ":" + os.environ["PATH"]}
        command = command.replace("tgk1:...", getattr(self, "keys", {}).get("host-a", ""))
        self.running.append(subprocess.Popen([*self.machines.prefix(host), "bash", "-c", command], text=True, env=environment,
                                             cwd=os.path.join(self.folder, host), stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return self.running[-1]

    def done(self, process, status=0):
        """What it printed: stdout, or if it is to fail, stderr."""
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, status, (process.args, out, err))
        self.assertNotIn("warning", err)
        return err if status else out

    def run_here(self, host, command):
        return self.done(self.start(host, command))

    def run_block(self, block, more=""):
        """Runs a block's commands, all at once. Returns what each host printed."""
        found = re.findall(r"^    (host-\w)\$ (telegrad .*)$", block, re.M)
        started = {host: self.start(host, command.replace("--data mnist", DIGITS + " --steps 4") + more) for host, command in found}
        return {host: self.done(process) for host, process in started.items()}

    def all_start(self, command, hosts=tuple(HOSTS), **instead):
        """Each of the hosts, with its key, as a rank of one job. instead: other ways to join (b="--join ...")."""
        ways = {"a": f"--listen tcp://0.0.0.0:4242 --ranks {len(hosts)} --allow friends", **instead}
        join = "--join tcp://host-a:4242 --peer-key tgk1:..."
        return {host: self.start(host, f"exec telegrad {command} {ways.get(host[-1], join)} --key {host[-1]}.key") for host in hosts}

    def all_done(self, started, status=0):
        return {host: self.done(process, status) for host, process in started.items()}

    def write_friends(self, *hosts):
        """The list, as the page shows it, with the keys that were just made."""
        line, = re.findall(r"^    tgk1:\S+( +)host-b$", PAGE, re.M)
        with open(self.file("host-a", "friends"), "w", encoding="utf-8") as file:
            file.writelines(self.keys[host] + line + host + "\n" for host in hosts)

    def make_keys(self, *hosts):
        self.keys = {host: self.run_here(host, f"telegrad key new {host[-1]}.key").strip() for host in hosts}
        self.write_friends(*hosts[1:])

    def test_all_is_run(self):
        """Five blocks below; and of the text, what changes nothing of the system."""
        self.assertEqual(len(BLOCKS), 5)
        found = {code for code in INLINE if code.split()[0] in PROGRAMS and code.split()[0] not in SYSTEM}
        self.make_keys("host-a", "host-b")
        link, = re.findall(r"`--link (\d\w+,\d\w+)`", PAGE)
        runs = {"chmod go-w friends": None, "telegrad key show a.key": None, "telegrad key fingerprint FILE": ("FILE", "a.key"),
                "telegrad key new b2.key": None,
                "telegrad train --workers 2": ("2", f"2 {TINY} --steps 4 --link {link}"),
                "telegrad advise --link RATE,DELAY": ("RATE,DELAY", f"{link} --model mlp:hidden=16")}
        elsewhere = {"telegrad key fingerprint", "telegrad doctor", "telegrad advise", "telegrad serve", "kill -HUP PID"}
        self.assertEqual(found, runs.keys() | elsewhere)
        printed = {code: self.run_here("host-a", code.replace(*change) if change else code) for code, change in runs.items()}
        self.assertEqual(printed["telegrad key show a.key"].strip(), self.keys["host-a"])
        self.assertRegex(printed["telegrad key fingerprint FILE"], r"^[0-9a-f]{4}(-[0-9a-f]{4}){4}$")
        self.assertIn(f"--link {link}", printed["telegrad advise --link RATE,DELAY"])

    def test_two_machines(self):
        self.keys = {host: key.strip() for host, key in self.run_block(BLOCKS[0]).items()}
        self.assertEqual(set(self.keys), {"host-a", "host-b"})
        self.write_friends("host-b")
        found = self.run_block(BLOCKS[1])
        self.assertEqual(found["host-a"], found["host-b"])
        self.assertIn("0, 1   direct", found["host-a"])
        trained = self.run_block(BLOCKS[2])
        self.assertEqual(len(trained), 2)
        alone = self.run_here("host-a", f"telegrad train --workers 2 --model lenet5 {DIGITS} --steps 4 --method dgc")
        self.assertEqual({hash_of(text) for text in trained.values()}, {hash_of(alone)})

    def test_one_machine(self):
        script, = re.findall(r"(?ms)^```sh\n(.*?)^```", PAGE)
        text = self.run_here("host-a", "set -e\n" + script)
        hashes = re.findall(r"params hash +(\w+)", text)
        self.assertEqual((len(hashes), len(set(hashes)), text.count("0, 1   memory")), (2, 1, 2), text)

    def test_advertised_address(self):
        """The world sees host-b at another address than its own, as by a router; nobody reaches its own."""
        address, = re.findall(r"--advertise tcp://([\d.]+):", BLOCKS[3])
        self.make_keys(*HOSTS)
        ip("-n", PREFIX + "host-b", "addr", "add", address + "/32", "dev", "lo")
        for host in ("host-a", "host-c"):
            ip("-n", PREFIX + host, "route", "add", address, "via", HOSTS["host-b"])
        ip("-n", PREFIX + "host-c", "route", "add", "blackhole", HOSTS["host-b"] + "/32")
        options, = re.findall(r"host-b\$ telegrad train (.*) \.\.\.$", BLOCKS[3], re.M)
        started = self.all_start("doctor --seconds 0.1", b=options + " --peer-key tgk1:...")
        for text in self.all_done(started).values():
            self.assertIn("1, 2   direct", text)

    def check_table(self, text, formats):
        """Lines of a table: heads, a rule as long as they are, rows of these formats. Returns heads and rows."""
        heads, rule, *rows = text.splitlines()
        self.assertEqual(rule, "-" * len(heads), text)
        for row in rows:
            self.assertEqual(len(cells(row)), len(formats), row)
            for cell, form in zip(cells(row), formats):
                self.assertRegex(cell, f"^({form})$", row)
        return cells(heads), [cells(row) for row in rows]

    def test_doctor(self):
        """Of hosts that do not reach each other; the page shows what is printed, but for the numbers."""
        self.make_keys(*HOSTS)
        command, = re.findall(r"^    \$ (telegrad doctor --join .*)$", BLOCKS[4], re.M)
        self.machines.separate("host-b", "host-c")
        way, = re.findall("(--join .*) --key b.key$", command)
        printed = self.all_done(self.all_start("doctor --seconds 0.1", b=way, c=way))
        self.assertEqual(len(set(printed.values())), 1)
        sample = re.sub(r"(?m)^    ", "", BLOCKS[4].strip().split("\n", 1)[1]).replace("\n  ", " ")
        shown, real = (text.strip().split("\n\n") for text in (sample, printed["host-a"]))
        self.assertEqual(self.check_table(shown[0], MACHINES)[0], self.check_table(real[0], MACHINES)[0])
        (heads, rows), (real_heads, real_rows) = (self.check_table(text[1], PAIRS) for text in (shown, real))
        self.assertEqual(heads, real_heads)
        self.assertEqual([row[:2] for row in rows], [row[:2] for row in real_rows])
        for sentence in shown[2].splitlines():
            self.assertIn(re.sub(r"--link .*", "--link ", sentence), real[2])
        advise, = re.findall(r"telegrad advise --model NAME .*", sample)
        self.run_here("host-a", advise.replace("NAME", "mlp:hidden=16"))

    def test_after_a_failure(self):
        """A key is taken off the list, and the job ends. It begins again from the weights, and where it was."""
        self.make_keys(*HOSTS)
        job = f"train {TINY}"
        started = self.all_start(job + " --save DIR --save-every 5 --steps 1000000")
        until = time.monotonic() + 60
        while not all(os.path.exists(self.file(host, "DIR")) and len(os.listdir(self.file(host, "DIR"))) > 1 for host in HOSTS):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        self.write_friends("host-b")
        self.run_here("host-a", f"kill -HUP {started['host-a'].pid}")
        for text in self.all_done(started, status=1).values():
            self.assertRegex(text.splitlines()[-1], r"rank 2|rank \(2\)")
        steps = set.intersection(*(set(os.listdir(self.file(host, "DIR"))) for host in HOSTS))
        last = max(int(name[5:]) for name in steps if re.fullmatch(r"step-\d+", name))
        self.assertIn("--init DIR/step-N/model.safetensors", INLINE)
        weights = f"DIR/step-{last:012d}/model.safetensors"
        meet = f"--listen tcp://0.0.0.0:4242 --ranks 2 --allow friends --init {weights}"
        trained = self.all_done(self.all_start(f"{job} --steps 4", ("host-a", "host-b"), a=meet))
        self.assertEqual(len({hash_of(text) for text in trained.values()}), 1)
        self.write_friends("host-b", "host-c")
        self.assertIn("--resume DIR", INLINE)
        trained = self.all_done(self.all_start(f"{job} --steps {last + 4} --resume DIR"))
        alone = self.run_here("host-a", f"telegrad {job} --steps {last + 4} --workers 3")
        self.assertEqual({hash_of(text) for text in trained.values()}, {hash_of(alone)})


if __name__ == "__main__":
    unittest.main()
