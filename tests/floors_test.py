#!/usr/bin/env python3
"""scripts/check-floors finds what breaks its rules, in small made-up trees."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "check-floors"
TREE = {
    "include/telegrad/base.h": "",
    "include/telegrad/session.h": '#include "telegrad/base.h"\n',
    "src/base/mem.h": "#include <stdint.h>\n#include <telegrad/base.h>\n",
    "src/session/session_impl.h": '#include "base/mem.h"\n# include <telegrad/session.h>\n',
    "trainer/nn/nn.h": "#include <telegrad/session.h>\n",
}


def check(**changes):
    """The exit status and the lines printed for TREE with other texts of some files."""
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        for name, text in (TREE | changes).items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text(text)
        (top / "scripts").mkdir()
        shutil.copy(SCRIPT, top / "scripts")
        subprocess.run(["git", "init", "-q", "--template="], cwd=top, check=True)
        done = subprocess.run([sys.executable, top / "scripts" / SCRIPT.name], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines() + done.stderr.splitlines()


class Includes(unittest.TestCase):
    def test_a_tree_without_faults(self):
        self.assertEqual((0, []), check())

    def test_every_way_to_write_an_include(self):
        files, problems = {}, []
        for number, (line, problem) in enumerate((
                ('#include "session/session_impl.h"', "(floor 0) includes session/session_impl.h (floor 7)"),
                ('# include "session/session_impl.h"', "(floor 0) includes session/session_impl.h (floor 7)"),
                ('\t#\tinclude\t"session/session_impl.h"', "(floor 0) includes session/session_impl.h (floor 7)"),
                ('#include"session/session_impl.h"', "(floor 0) includes session/session_impl.h (floor 7)"),
                ("#include <session/session_impl.h>", "(floor 0) includes session/session_impl.h (floor 7)"),
                ("#include <telegrad/session.h>", "(floor 0) includes telegrad/session.h (floor 7)"),
                ("  #  include<telegrad/session.h>", "(floor 0) includes telegrad/session.h (floor 7)"),
                ("#include <telegrad/none.h>", "includes telegrad/none.h, which has no floor"),
                ('#include "base/../session/session_impl.h"',
                 "includes base/../session/session_impl.h: allowed: paths without . and .."),
                ("#include HEADER", 'includes HEADER: allowed: "name" and <name>'))):
            files[f"src/base/way{number}.c"] = f"/* Memory. */\n#include <string.h>\n{line}\nint x;\n"
            problems.append(f"src/base/way{number}.c {problem}")
        self.assertEqual((1, problems), check(**files))

    def test_long_files(self):
        self.assertEqual((1, ["src/base/long.c has 500 lines: allowed: fewer than 500", "tests/long.py has 501 lines: allowed: fewer than 500"]),
                         check(**{"src/base/long.c": "\n" * 500, "src/base/less.c": "\n" * 499, "tests/long.py": "\n" * 501,
                                  "tests/golden/golden_long.h": "\n" * 900}))

    def test_programs_see_public_headers_only(self):
        self.assertEqual((1, ["trainer/nn/nn.h includes src/base/mem.h: only bench looks inside of the library"]),
                         check(**{"trainer/nn/nn.h": "#include <src/base/mem.h>\n"}))


class Names(unittest.TestCase):
    def test_a_type_or_function_in_two_headers(self):
        pairs = (("typedef struct NAME {\n    int x;\n} NAME;", "struct NAME {\n    int y;\n};"),
                 ("typedef struct {\n    int x;\n} NAME;", "enum NAME { A };"),
                 ("typedef int NAME;", "static inline int NAME(void)\n{\n    return 0;\n}"),
                 ("typedef struct tg__x NAME;", "TG_NODISCARD tg_status NAME(int a,\n    int b);"),
                 ("typedef int NAME(void);", "union NAME { int a; };"))
        first, second = ("\n".join(pair[side].replace("NAME", f"tg__post{number}") for number, pair in enumerate(pairs)) + "\n"
                         for side in (0, 1))
        self.assertEqual((1, [f"tg__post{number} defined twice: src/base/mem.h, src/session/session_impl.h"
                              for number in range(len(pairs))]),
                         check(**{"src/base/mem.h": first, "src/session/session_impl.h": second}))

    def test_a_type_named_before_it_is_defined(self):
        self.assertEqual((0, []), check(**{
            "src/base/mem.h": "typedef struct tg__post tg__post;\nvoid tg__send(tg__post *p);\n",
            "src/session/session_impl.h": "/* struct tg__send { */\nstruct tg__post {\n    tg__post *next;\n};\n"}))

    def test_a_file_name_twice(self):
        self.assertEqual((1, ["file name used twice: src/base/mem.h, src/wire/mem.h"]), check(**{"src/wire/mem.h": ""}))


if not shutil.which("git"):
    sys.exit(77)
unittest.main()
