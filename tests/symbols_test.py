#!/usr/bin/env python3
"""Compare what the public headers declare, what the maps list, and what the shared libraries export.

    symbols_test.py NM libtelegrad.so [libtelegrad-mpi.so] [libtelegrad-net.so] [libtelegrad-cuda.so]

mpi.h belongs to libtelegrad-mpi, net.h to libtelegrad-net, cuda.h to libtelegrad-cuda, all other headers to libtelegrad. The three must be the same, and each library's name for
the loader must be that of its version: 0.MINOR until 1.0. No library uses functions of the C library whose last bit differs from one
machine to another.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ROOT / "include" / "telegrad"
ROUNDED = re.compile(r"(a?(sin|cos|tan)h?|atan2|sincos|exp(2|m1|10)?|log(2|10|1p)?|pow|cbrt|hypot|[lt]gamma(_r)?|erfc?)[fl]?")


def declared(headers):
    """The names behind TG_API."""
    names = set()
    for header in headers:
        text = re.sub(r"/\*.*?\*/|//[^\n]*|^#[^\n]*(?:\\\n[^\n]*)*", "", header.read_text(), flags=re.S | re.M)
        for declaration in re.findall(r"\bTG_API\b([^;{]*)", text):
            name = re.search(r"(\w+)\s*(?:\(|\[|$)", declaration.replace("TG_NODISCARD", "").strip())
            if name is None:
                sys.exit(f"{header.name}: cannot read \"TG_API{declaration}\"")
            names.add(name.group(1))
    return names


def listed(path):
    """The names of a map, which have to be in order, each once."""
    text = re.sub(r"#[^\n]*", "", path.read_text())
    body = re.fullmatch(r"\s*\{\s*global:(.*)local:\s*\*;\s*\};\s*", text, flags=re.S)
    if body is None:
        sys.exit(f"{path.name}: not \"{{ global: ...; local: *; }};\"")
    names = re.findall(r"(\S+);", body.group(1))
    if names != sorted(set(names)):
        sys.exit(f"{path.name}: not in order of the alphabet, or one twice")
    return set(names)


def symbols_of(nm, library, which):
    lines = subprocess.run([nm, "-D", which, library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in lines.splitlines()}


def stays(library):
    """Whether the library stays in memory when a program unloads it."""
    program = ("import _ctypes, sys; _ctypes.dlclose(_ctypes.dlopen(sys.argv[1], 2)); "
               "sys.exit(sys.argv[1] not in open('/proc/self/maps').read())")
    return subprocess.run([sys.executable, "-c", program, str(pathlib.Path(library).resolve())]).returncode == 0


def differences(one, one_name, other, other_name):
    return [f"{name}: in {one_name}, not in {other_name}" for name in sorted(one - other)] + [
        f"{name}: in {other_name}, not in {one_name}" for name in sorted(other - one)]


def main(nm, *libraries):
    version = dict(re.findall(r"#define TG_VERSION_(\w+) (\d+)", (HEADERS / "base.h").read_text()))
    number = version["MAJOR"] if version["MAJOR"] != "0" else f"0.{version['MINOR']}"
    apart = {f"libtelegrad-{part}": HEADERS / f"{part}.h" for part in ("mpi", "net", "cuda")}
    wrong = []
    for library in libraries:
        stem = pathlib.Path(library).name.split(".so")[0]
        headers = [apart[stem]] if stem in apart else [h for h in HEADERS.glob("*.h") if h not in apart.values()]
        map_path = ROOT / "cmake" / (stem.removeprefix("lib") + ".map")
        names, symbols = declared(headers), symbols_of(nm, library, "--defined-only")
        wrong += differences(names, "the headers", listed(map_path), map_path.name)
        wrong += differences(names, "the headers", symbols, pathlib.Path(library).name)
        wrong += [f"{stem}: uses {name}: src/base/same_math.h has the same bits on every machine"
                  for name in sorted(symbols_of(nm, library, "--undefined-only")) if ROUNDED.fullmatch(name)]
        if f"{stem}.so.{number}\0".encode() not in pathlib.Path(library).read_bytes():
            wrong.append(f"{library}: its SONAME is not {stem}.so.{number}")
        if stem == "libtelegrad-net" and not stays(library):
            wrong.append(f"{library}: its threads may outlive it (-z nodelete)")
        print(f"{stem}: {len(symbols)} symbols, .so.{number}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
