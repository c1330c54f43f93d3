"""Keyword arguments as a command line.

Names and kinds of values are those that the program declares, so that a flag that it does not have
never reaches it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from vindex._program import commands
from vindex._text import nearest
from vindex.errors import Error


def described(command: str) -> dict[str, Any]:
    """What the program says of `command` ("measure", "organ.extract" or "organ extract").

    Raises:
        Error: E-USAGE (64) where there is no such command.
    """
    name = command.replace(" ", ".")
    known = commands()
    if name not in known:
        raise Error(64, "E-USAGE", f"unknown command {command!r}{nearest(name, known)}")
    found: dict[str, Any] = known[name]
    return found


def option_names(command: str) -> dict[str, dict[str, Any]]:
    """The options of `command` by the name of their keyword argument: `ram_budget`, `layers`."""
    return {
        option["name"].lstrip("-").replace("-", "_"): option
        for option in described(command)["options"]
        if option["name"].startswith("--")
    }


def argument_list(command: str, positionals: Iterable[Any], flags: Mapping[str, Any]) -> list[str]:
    """The words after the program's name.

    Raises:
        TypeError: a flag that `command` does not have, with the nearest that it has, or a value
            that the flag cannot take.
    """
    options = option_names(command)
    words = command.replace(".", " ").split()
    for name, value in flags.items():
        known = options.get(name.removesuffix("_"))  # `class_` and the like
        if known is None:
            raise TypeError(f"vindex {command} has no flag {name!r}{nearest(name, options)}")
        words += _option(name, known, value)
    # What begins with a dash is a name here, not another option.
    return [*words, "--", *(_word(command, value) for value in positionals)]


def _option(name: str, option: Mapping[str, Any], value: Any) -> list[str]:
    flag = str(option["name"])
    is_flag = option["type"] == "flag"
    if value is None or (value is False and is_flag):
        return []
    if is_flag:
        if value is not True:
            raise TypeError(f"{name} is True or False, not {value!r}")
        return [flag]
    if isinstance(value, bool):
        raise TypeError(f"{name} takes a value, not {value!r}")
    if isinstance(value, (str, bytes, os.PathLike, int, float)) or not isinstance(value, Iterable):
        return [f"{flag}={_word(name, value)}"]
    words = [_word(name, item) for item in value]
    if not words:
        raise TypeError(f"{name} is an empty list; leave it out to select everything")
    return [f"{flag}={word}" for word in words] if option["many"] else [f"{flag}={','.join(words)}"]


def _word(name: str, value: Any) -> str:
    """One value as the command line spells it."""
    if isinstance(value, (str, bytes, os.PathLike)):
        text = os.fsdecode(value)
        if "\0" in text:
            raise TypeError(f"{name}: a NUL character cannot be handed to a program")
        return text
    if isinstance(value, bool):
        raise TypeError(f"{name} takes a text, a number or a path, not {value!r}")
    if hasattr(value, "__index__"):
        return str(value.__index__())
    if isinstance(value, float) and math.isfinite(value):
        return repr(float(value))
    raise TypeError(f"{name} takes a text, a number or a path, not {value!r}")
