"""The structures of telegrad/_c.py lie in memory as C's do; each status has its exception; examples in the help texts run.

    binding_test.py CC   with PYTHONPATH and TELEGRAD_LIBRARY_DIR set
"""
import ctypes
import doctest
import pathlib
import subprocess
import sys
import tempfile
import unittest

import telegrad
from telegrad import _c

ROOT = pathlib.Path(__file__).resolve().parents[2]
CC = sys.argv.pop(1)
TOOL = [sys.executable, str(ROOT / "tools" / "python_binding.py")]


class Binding(unittest.TestCase):
    def test_structures_lie_as_in_c(self):
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, "sizes.c"), pathlib.Path(folder, "sizes")
            subprocess.run([*TOOL, "--c", str(source)], check=True)
            subprocess.run([CC, "-std=c17", "-I", telegrad.get_include(), str(source), "-o", str(program)], check=True)
            rows = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
        self.assertGreater(len(rows), 200)
        for row in rows:
            structure, member, number = row.split()
            mirror = getattr(_c, structure)
            found = ctypes.sizeof(mirror) if member == "." else getattr(mirror, member).offset
            self.assertEqual(found, int(number), row)

    def test_each_status_has_a_class(self):
        from telegrad._errors import _CLASSES, failure
        statuses = {value for name, value in vars(_c).items() if name.startswith("TG_E_")}
        self.assertEqual(set(_CLASSES), statuses)
        for status in statuses:
            _c.tg_reducer_wait(None)  # leaves a text
            error = failure(status)
            self.assertIsInstance(error, telegrad.Error)
            self.assertEqual(str(error), "tg_reducer_wait: r is NULL")
            self.assertEqual(getattr(_c, error.status), status)

    def test_examples_run(self):
        result = doctest.testmod(telegrad)
        self.assertEqual(result.failed, 0)
        self.assertGreater(result.attempted, 10)


if __name__ == "__main__":
    unittest.main()
