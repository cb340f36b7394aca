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
        for line, problem in (
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
                ("#include HEADER", 'includes HEADER: allowed: "name" and <name>')):
            with self.subTest(line):
                text = f"/* Memory. */\n#include <string.h>\n{line}\nint x;\n"
                self.assertEqual((1, [f"src/base/mem.h {problem}"]), check(**{"src/base/mem.h": text}))

    def test_programs_see_public_headers_only(self):
        self.assertEqual((1, ["trainer/nn/nn.h includes src/base/mem.h: only bench looks inside of the library"]),
                         check(**{"trainer/nn/nn.h": "#include <src/base/mem.h>\n"}))


class Names(unittest.TestCase):
    def test_a_type_or_function_in_two_headers(self):
        for first, second in (("typedef struct tg__post {\n    int x;\n} tg__post;", "struct tg__post {\n    int y;\n};"),
                              ("typedef struct {\n    int x;\n} tg__post;", "enum tg__post { A };"),
                              ("typedef int tg__post;", "static inline int tg__post(void)\n{\n    return 0;\n}"),
                              ("typedef struct tg__x tg__post;", "TG_NODISCARD tg_status tg__post(int a,\n    int b);"),
                              ("typedef int tg__post(void);", "union tg__post { int a; };")):
            with self.subTest(first):
                self.assertEqual((1, ["tg__post defined twice: src/base/mem.h, src/session/session_impl.h"]),
                                 check(**{"src/base/mem.h": f"{first}\n", "src/session/session_impl.h": f"{second}\n"}))

    def test_a_type_named_before_it_is_defined(self):
        self.assertEqual((0, []), check(**{
            "src/base/mem.h": "typedef struct tg__post tg__post;\nvoid tg__send(tg__post *p);\n",
            "src/session/session_impl.h": "/* struct tg__send { */\nstruct tg__post {\n    tg__post *next;\n};\n"}))

    def test_a_file_name_twice(self):
        self.assertEqual((1, ["file name used twice: src/base/mem.h, src/wire/mem.h"]), check(**{"src/wire/mem.h": ""}))


if not shutil.which("git"):
    sys.exit(77)
unittest.main()
