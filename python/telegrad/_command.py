"""The command `telegrad` of the package, which has no training."""
import os
import sys
from typing import NoReturn

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "telegrad")


def main() -> NoReturn:
    try:
        os.execv(_PROGRAM, ["telegrad", *sys.argv[1:]])
    except FileNotFoundError:
        sys.exit("telegrad: this package was built without the command, which needs jansson and zlib with their headers (Debian: "
                 "libjansson-dev zlib1g-dev pkg-config): install them, then the package again")
