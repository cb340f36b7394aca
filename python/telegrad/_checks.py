"""Arguments that are refused by name."""
import numbers
import os
from typing import Dict, Mapping, Optional

from telegrad._errors import ArgumentError


def text_of(name: str, value: object) -> Optional[bytes]:
    """A text for C; None stays None."""
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)):
        raise ArgumentError(f"{name}: a {type(value).__name__}: allowed: a str")
    text = os.fsencode(value)
    if b"\0" in text:
        raise ArgumentError(f"{name}: {value!r}: allowed: text without a null character")
    return text


def check_text(name: str, value: object) -> bytes:
    """An argument that must be a text."""
    text = text_of(name, value)
    if text is None:
        raise ArgumentError(f"{name}: None: allowed: a str")
    return text


def check_whole(name: str, value: object, low: int, high: Optional[int] = None) -> None:
    """Refuse what is no whole number of this range."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise ArgumentError(f"{name}: a {type(value).__name__}: allowed: an int")
    if int(value) < low or (high is not None and int(value) > high):
        raise ArgumentError(f"{name}={value}: allowed: " + (f"{low} or more" if high is None else f"{low} to {high}"))


def check_seconds(name: str, value: object) -> None:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise ArgumentError(f"{name}: a {type(value).__name__}: allowed: a number of seconds")
    if not 0 < float(value) <= 1e9:
        raise ArgumentError(f"{name}={value}: allowed: above 0, at most 1e9 seconds")


def check_settings(seed: object, total_steps: object, steps_per_epoch: object, timeout: object, threads: object) -> None:
    """What reducers, hooks and Local take."""
    for name, value, high in (("seed", seed, (1 << 64) - 1), ("total_steps", total_steps, (1 << 64) - 1),
                              ("steps_per_epoch", steps_per_epoch, (1 << 64) - 1), ("threads", threads, 256)):
        check_whole(name, value, 0, high)
    check_seconds("timeout", timeout)


def check_rules(value: object) -> Dict[str, str]:
    """Methods by patterns of names."""
    if value is not None and not isinstance(value, Mapping):
        raise ArgumentError(f'rules: a {type(value).__name__}: allowed: a dict, such as {{"*.bias": "dense"}}')
    rules = dict(value or {})
    for pattern, spec in rules.items():
        check_text("rules: a pattern", pattern)
        check_text(f"rules: the method of {pattern!r}", spec)
    return rules
