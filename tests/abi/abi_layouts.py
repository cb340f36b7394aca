#!/usr/bin/env python3
"""Compare the public headers with those of the first version, tests/abi/abi_first.h.

    abi_layouts.py --snapshot              write abi_first.h anew from the headers: for a version that breaks programs
    abi_layouts.py FIRST.c NOW.c           write a C program that compares both: one file sees abi_first.h, the other the headers

Structures that grow keep their first members where they were, and get others behind them. Other structures, constants
and functions stay as they were. All structures that grow, also new ones, end without padding, in which a later member
could hide from struct_size.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE.parent.parent / "include" / "telegrad"
FIRST = HERE / "abi_first.h"
COMMENT = r"/\*(?:(?!\*/).)*\*/"


def without_comments(text):
    return re.sub(COMMENT, "", text, flags=re.S)


def expanded(name, seen):
    """A header with those of telegrad that it includes, each once, without guards; with comments."""
    if name in seen:
        return ""
    seen.add(name)
    text = (HEADERS / name).read_text(encoding="utf-8")
    guard = re.search(r"#ifndef (TELEGRAD_\w+)\n#define \1\n", text)
    text = text[:guard.start()] + text[guard.end():text.rindex("#endif")]
    text = re.sub(r'#ifdef __cplusplus\n(?:extern "C" \{|\})\n#endif\n', "", text)
    return re.sub(r'#include "telegrad/(\w+\.h)"\n', lambda m: expanded(m.group(1), seen), text)


def expanded_all():
    """telegrad.h, and the headers that it does not include; without mpi.h, which has no structure and needs MPI's."""
    seen = set()
    others = sorted(p.name for p in HEADERS.glob("*.h") if p.name not in ("telegrad.h", "mpi.h"))
    return "".join(expanded(name, seen) for name in ["telegrad.h", *others])


def is_growing(text, structure):
    """Whether the structure begins with struct_size and no comment before it says that it never grows."""
    sized = re.search(rf"struct {structure} \{{\s*size_t struct_size;", without_comments(text)) is not None
    before = re.search(rf"({COMMENT})\s*(?:typedef struct \w+ \w+;\s*)?(?:typedef )?struct {structure} \{{", text, flags=re.S)
    never = before is not None and re.search(r"never\s+(?:\*\s+)?grows", before.group(1), flags=re.I) is not None
    if not sized and not never:
        sys.exit(f"{structure} has no struct_size, and its comment does not say \"Never grows\"")
    return sized and not never


def structures(text):
    """{name: [member]} of the structures whose members are public, in order."""
    found = {}
    for name, body in re.findall(r"struct (tg_\w+) \{(.*?)\n\}", without_comments(text), flags=re.S):
        members = []
        for declaration in filter(None, (" ".join(d.split()) for d in body.split(";"))):
            pointer = re.search(r"\(\*(\w+)\)\(", declaration)
            names = [pointer.group(1)] if pointer else [
                re.search(r"(\w+)(?:\[[^\]]*\])?$", part.strip()).group(1) for part in declaration.split(",")]
            members += names
        found[name] = members
    return found


def constants(text):
    """The names of all enums but counts of them, which grow."""
    bodies = re.findall(r"typedef enum tg_\w+ \{(.*?)\}", without_comments(text), flags=re.S)
    return [item.split("=")[0].strip() for body in bodies for item in body.split(",")
            if item.strip() and not item.split("=")[0].strip().endswith("_COUNT")]


def functions(text):
    """The declarations of all functions."""
    text = re.sub(r"^#.*?(?<!\\)$", "", without_comments(text), flags=re.S | re.M)
    return [" ".join(d.split()) for d in re.findall(r"\bTG_API\b[^;]*;", text)]


def snapshot():
    text = expanded("telegrad.h", set())
    grows = {name: is_growing(text, name) for name in structures(text)}
    text = re.sub(r"\n\s*\n+", "\n\n", "\n".join(line.rstrip() for line in without_comments(text).split("\n")))
    for name, yes in grows.items():
        text = re.sub(rf"^((?:typedef )?struct {name} \{{)", rf"/* {'grows' if yes else 'never grows'} */\n\1", text, flags=re.M)
    FIRST.write_text("/* clang-format off */\n/* The headers of the first version: written by abi_layouts.py --snapshot. */\n"
                     "#ifndef ABI_FIRST_H\n#define ABI_FIRST_H\n\n" + text.strip() + "\n\n#endif\n", encoding="utf-8")


def problems(first, now):
    """What a compiler does not see."""
    known = structures(now)
    for name, members in structures(first).items():
        new = known.get(name)
        if new is None:
            yield f"{name} is gone"
            continue
        grew = re.search(rf"/\* grows \*/\n(?:typedef )?struct {name} \{{", first) is not None
        if grew != is_growing(now, name):
            yield f"{name}: it {'grew' if grew else 'did not grow'} in the first version"
        if new[:len(members)] != members or (not grew and new != members):
            yield f"{name}: its members were {', '.join(members)}; they are {', '.join(new)}"
    for name in known:
        is_growing(now, name)


def size_row(name, last, now):
    return (f'    {{"sizeof({name})", sizeof({name}), _Alignof({name}), {int(is_growing(now, name))},\n'
            f"     sizeof({name}) - offsetof({name}, {last}) - sizeof((({name} *)0)->{last})}},\n")


def table(out, include, first, now, which):
    out.write(f'#include "{include}"\n#include "abi/abi_layouts.h"\n\n')
    if which == "now":
        out.write("/* As they were declared: a compiler that finds another type says so. */\n")
        out.write("\n".join(functions(first)) + "\n\n")
    out.write(f"const abi_row abi_{which}[] = {{\n")
    for name, members in structures(first).items():
        out.write(size_row(name, (members if which == "first" else structures(now)[name])[-1], now))
        for member in members:
            out.write(f'    {{"{name}.{member}", offsetof({name}, {member}), sizeof((({name} *)0)->{member}), 0, 0}},\n')
    for name in constants(first):
        out.write(f'    {{"{name}", (size_t){name}, 0, 0, 0}},\n')
    out.write(f"}};\nconst size_t abi_{which}_rows = sizeof abi_{which} / sizeof *abi_{which};\n")


def sizes(out, first, now):
    """The sizes of the structures that the first version lacks."""
    out.write("\nconst abi_row abi_new[] = {\n")
    for name, members in structures(now).items():
        if name not in structures(first):
            out.write(size_row(name, members[-1], now))
    out.write("};\nconst size_t abi_new_rows = sizeof abi_new / sizeof *abi_new;\n")


def main(arguments):
    if arguments == ["--snapshot"]:
        snapshot()
        return 0
    first, now = FIRST.read_text(encoding="utf-8"), expanded_all()
    wrong = list(problems(first, now))
    if wrong:
        print("\n".join(wrong))
        return 1
    every = 'telegrad/telegrad.h"\n#include "telegrad/net.h'
    for path, include, which in zip(arguments, ("abi/abi_first.h", every), ("first", "now")):
        with open(path, "w", encoding="utf-8") as out:
            table(out, include, first, now, which)
            if which == "now":
                sizes(out, first, now)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
