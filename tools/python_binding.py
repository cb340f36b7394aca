#!/usr/bin/env python3
"""Write python/telegrad/_c.py, the library's functions and structures for ctypes, from the public headers.

    python_binding.py            write it
    python_binding.py --c FILE   write a C program that prints the size of each structure and the place of each member

Every pointer is a c_void_p, which takes None, addresses and byref(...); text is a c_char_p. Functions that take a FILE *
or an MPI communicator are left out.
"""
import keyword
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ROOT / "include" / "telegrad"
OUTPUT = ROOT / "python" / "telegrad" / "_c.py"
ORDER = ("base", "clock", "random", "spec", "transport", "codec", "registry", "optimizer", "trace", "weights", "reducer", "session",
         "external", "costs", "simulate", "net", "server", "cuda")
APART = ("net", "cuda")  # libraries of their own
PLAIN = {
    "bool": "c_bool", "char": "c_char", "int": "c_int", "unsigned": "c_uint", "size_t": "c_size_t", "double": "c_double",
    "float": "c_float", "int64_t": "c_int64", "uint64_t": "c_uint64", "uint32_t": "c_uint32", "uint16_t": "c_uint16",
    "uint8_t": "c_uint8",
}
PYTHON = {"c_bool": "bool", "c_double": "float", "c_float": "float", "c_char_p": "Optional[Text]", "c_void_p": "Optional[int]"}

HEAD = '''"""The C library for ctypes: constants, structures, functions. Written by tools/python_binding.py from the headers, which
are the manual of what is here (telegrad.get_include() is where they lie)."""
from ctypes import (Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint, c_uint8, c_uint32,
                    c_uint64, c_void_p)
from typing import Any, Optional

from telegrad._load import core, cuda, net

Text = bytes
'''


def without_comments(text):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    return re.sub(r"^[ \t]*#(?!define TG_\w+ )(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)


class Binding:
    def __init__(self):
        self.enums, self.structs, self.functions, self.constants, self.values = set(), {}, [], [], []
        for name in ORDER:
            self.read(name, without_comments((HEADERS / f"{name}.h").read_text(encoding="utf-8")))

    def read(self, header, text):
        for name, value in re.findall(r"^#define (TG_\w+) \(?(-?\d+)\)?\s*$", text, flags=re.M):
            self.constants.append((name, value))
        text = re.sub(r"^#define(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)
        for body, name in re.findall(r"typedef enum \w+ \{([^}]*)\} (\w+);", text):
            self.enums.add(name)
            count = 0
            for entry in filter(None, (e.strip() for e in body.split(","))):
                key, _, value = (part.strip() for part in entry.partition("="))
                count = int(value, 0) if value else count
                self.constants.append((key, str(count)))
                count += 1
        for name, body in re.findall(r"struct (\w+) \{([^}]*)\}", text):
            self.structs[name] = list(self.members(name, body))
        for returns, name, arguments in re.findall(r"TG_API\s+(?:TG_NODISCARD\s+)?([\w\s*]*?[\s*])(tg_\w+)\s*\((.*?)\)\s*(?:TG_PRINTF\([^)]*\))?;",
                                                   text, flags=re.S):
            arguments = [] if arguments.strip() == "void" else split(arguments)
            if "..." in arguments or any("FILE" in a or "MPI" in a for a in [returns, *arguments]):
                continue
            self.functions.append((header, name, self.type_of(returns.strip(), "returns"),
                                   [self.type_of(*declarator(a)) for a in arguments]))

    def members(self, struct, body):
        for declaration in filter(None, (d.strip() for d in re.split(r";", body))):
            declaration = " ".join(declaration.split())
            if "(*" in declaration:
                yield re.search(r"\(\*(\w+)\)", declaration).group(1), "c_void_p", None
                continue
            first, *others = declaration.split(",")
            base, name = declarator(first)
            yield from self.member(base, name)
            for other in others:
                star, name = re.fullmatch(r"\s*(\**)\s*(\w+(?:\[\w+\])?)\s*", other).groups()
                yield from self.member(base.rstrip("* ") + (" *" if star else ""), name)

    def member(self, base, name):
        array = re.fullmatch(r"(\w+)\[(\w+)\]", name)
        count = None
        if array:
            name, count = array.groups()
            count = dict(self.constants).get(count, count)
        yield name, self.type_of(base, name), count

    def type_of(self, text, name):
        text = " ".join(text.replace("const ", "").replace("volatile ", "").replace("struct ", "").split())
        if "(" in text or "[" in name:
            return "c_void_p"
        if text == "char *":
            return "c_char_p"
        if text.endswith("*"):
            return "c_void_p"
        if text == "void":
            return "None"
        if text in self.enums:
            return "c_int"
        if text in self.structs:
            return text
        if text in PLAIN:
            return PLAIN[text]
        sys.exit(f"tools/python_binding.py: {name}: does not know the type \"{text}\"")

    def python(self):
        lines = [HEAD.rstrip(), ""]
        lines += [f"{name} = {value}" for name, value in self.constants]
        for name, members in self.structs.items():
            lines += ["", "", f"class {name}(Structure):"]
            members = [(m + "_" * keyword.iskeyword(m), t, n) for m, t, n in members]
            lines += [f"    {m}: {'Text' if n and t == 'c_char' else 'Any' if n or t in self.structs else PYTHON.get(t, 'int')}"
                      for m, t, n in members]
            lines += ["    _fields_ = ["]
            lines += [f"        ({m!r}, {t}{f' * {n}' if n else ''}),".replace("'", '"') for m, t, n in members]
            lines += ["    ]"]
        lines += ["", ""]
        for header, name, returns, arguments in self.functions:
            lines.append(f"{name} = {header if header in APART else 'core'}({', '.join([chr(34) + name + chr(34), returns, *arguments])})")
        return "\n".join(lines) + "\n"

    def c_program(self):
        rows = []
        for name, members in self.structs.items():
            rows.append(f'    printf("{name} . %zu\\n", sizeof({name}));')
            rows += [f'    printf("{name} {m}{"_" * keyword.iskeyword(m)} %zu\\n", offsetof({name}, {m}));' for m, *_ in members]
        headers = "".join(f'#include "telegrad/{name}.h"\n' for name in ORDER)
        return f"{headers}#include <stdio.h>\nint main(void)\n{{\n" + "\n".join(rows) + "\n    return 0;\n}\n"


def split(text):
    parts, depth = [""], 0
    for c in text:
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [" ".join(p.split()) for p in parts]


def declarator(text):
    """(type, name): "const char *", "path" of "const char *path"."""
    if "(*" in text:
        return "void *", re.search(r"\(\*(\w+)\)", text).group(1)
    m = re.fullmatch(r"(.*?[\s*])(\w+(?:\[\w*\])?)", text.strip())
    return m.group(1).strip(), m.group(2)


def main(arguments):
    binding = Binding()
    if len(arguments) == 2 and arguments[0] == "--c":
        pathlib.Path(arguments[1]).write_text(binding.c_program(), encoding="utf-8")
    elif not arguments:
        OUTPUT.write_text(binding.python(), encoding="utf-8")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
