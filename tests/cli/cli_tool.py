"""What the tests of the command share. Each is run as: NAME_test.py PATH-OF-TELEGRAD"""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

TELEGRAD = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "telegrad"
TINY = ["--data", "glyphs:train=512,test=128", "--batch", "16"]

# Not as a rank of an MPI job or a task of Slurm, whatever started the tests; no data of the user's.
LAUNCHERS = ("OMPI_", "PMI_", "PMIX_", "SLURM_", "TORCHELASTIC_", "HOROVOD_", "WORLD_SIZE", "MASTER_ADDR")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith((*LAUNCHERS, "TELEGRAD_", "COLUMNS"))}


REPEATABLE = ("--rule", "--run", "--slow", "--link-of", "--fault", "--vary")


def over(*args):
    """The arguments, without options whose value a later one replaces: for tests with settings of their own."""
    last = {arg: at for at, arg in enumerate(args) if arg.startswith("--")}
    doubled = {at for at, arg in enumerate(args) if last.get(arg, at) != at and arg not in REPEATABLE and
               not args[at + 1].startswith("--")}
    return [arg for at, arg in enumerate(args) if at not in doubled and at - 1 not in doubled]


def run(*args, timeout=120, cwd=None, **more_environment):
    """The finished process: returncode, stdout, stderr."""
    return subprocess.run([TELEGRAD, *args], capture_output=True, text=True, timeout=timeout, cwd=cwd,
                          env={**ENVIRONMENT, **more_environment})


def python_with(*modules):
    """A Python that has these modules ($TELEGRAD_PYTHON first), or None."""
    for python in (os.environ.get("TELEGRAD_PYTHON"), sys.executable, "/usr/bin/python3"):
        if python and os.path.exists(python):
            if subprocess.run([python, "-c", "import " + ", ".join(modules)], capture_output=True).returncode == 0:
                return python
    return None


def start(*args):
    return subprocess.Popen([TELEGRAD, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=ENVIRONMENT)


def refuse_constant(name):
    raise ValueError(name + " is not JSON")


def records(path):
    """The JSON lines of a file, checked to be whole lines without NaN."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert text.endswith("\n"), "half a line at the end"
    return [json.loads(line, parse_constant=refuse_constant) for line in text.splitlines()]


def last_run(path):
    """The records of the last run in a file: one that resumes adds to what is there."""
    lines = records(path)
    return lines[max(i for i, line in enumerate(lines) if line["type"] == "start"):]


class CliTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def ok(self, *args, **more):
        done = run(*args, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), args)
        return done.stdout

    def wait_for_steps(self, process, path):
        """Until the first step record stands in the file that grows."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            self.assertIsNone(process.poll(), "ended too early")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    if '"type":"step"' in file.read():
                        return
            time.sleep(0.02)
        self.fail("no step within a minute")

    def refused(self, status, words, *args, **more):
        """Fails with this status and one line that has all the words; says nothing on stdout."""
        done = run(*args, **more)
        self.assertEqual(done.returncode, status, (args, done.stderr))
        self.assertEqual(done.stdout, "", args)
        first = done.stderr.splitlines()[0]
        for word in words:
            self.assertIn(word, first, args)
        return done.stderr
