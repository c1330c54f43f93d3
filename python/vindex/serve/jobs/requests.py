"""A request for a job, checked against the table of commands, as arguments of the program."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from vindex.serve.jobs.commands import (
    ABOUT,
    MAX_LIST,
    OUT,
    PYTHON_FORMATS,
    TEXT_PATTERN,
    Command,
    Kind,
    Option,
)
from vindex.serve.problems import Problem

_TEXT = re.compile(TEXT_PATTERN)
_DIRECTION = re.compile(r"(feature|singular) [0-9]{1,9}")
# What a client's identifier is as an argument of the program, with the job's folder as current.
Locate = Callable[[Kind, str], str]


@dataclass(frozen=True)
class Request:
    """A request that has been checked: what the job does, and with which arguments.

    Attributes:
        arguments: after the program's name; paths are relative to the job's folder.
        options: as the client gave them, names in one spelling.
        output: main output below the job's folder, or None for a command that only prints.
        by_python: whether the Python package runs it.
    """

    verb: str
    model: str | None
    options: dict[str, Any]
    arguments: tuple[str, ...]
    output: str | None
    by_python: bool


def refuse(detail: str) -> Problem:
    """A request that is not what the schema says."""
    return Problem(422, "E-USAGE", detail)


def _check_one(option: Option, value: Any) -> None:
    """Raises Problem where a value is not of its schema."""
    schema = option.one()
    name = option.name
    if schema.get("type") == "boolean":
        if not isinstance(value, bool):
            raise refuse(f"option `{name}` is true or false")
        return
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise refuse(f"option `{name}`: neither a text nor a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise refuse(f"option `{name}`: a number that is not finite")
    if schema.get("type") in ("integer", "number"):
        whole = schema["type"] == "integer"
        if isinstance(value, str) or (whole and value != int(value)):
            raise refuse(f"option `{name}` is {'an integer' if whole else 'a number'}")
        if not schema["minimum"] <= value <= schema["maximum"]:
            raise refuse(f"option `{name}`: from {schema['minimum']} to {schema['maximum']}")
        return
    if "enum" in schema and value not in schema["enum"]:
        raise refuse(f"option `{name}` is one of: {', '.join(schema['enum'])}")
    if isinstance(value, float) or (isinstance(value, int) and "anyOf" not in schema):
        raise refuse(f"option `{name}` is a text")
    pattern = schema.get("pattern") or schema.get("anyOf", [{}])[0].get("pattern")
    if isinstance(value, str):
        if not _TEXT.fullmatch(value) or (pattern and not re.fullmatch(pattern, value)):
            raise refuse(f"option `{name}`: {ABOUT[option.kind]}, in its own spelling")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise refuse(f"option `{name}`: no text") from None


def _spelled(options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in options.items():
        yield name.removeprefix("--").replace("_", "-"), value


def _word(value: Any) -> str:
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value)


def check(
    commands: Mapping[str, Command], body: Any, locate: Locate, budget: Callable[[str | None], str]
) -> Request:
    """A body of POST /v1/jobs as arguments of the program.

    `locate` turns identifiers into paths or raises Problem; `budget` gives `--ram-budget` of what
    the client asked for, or raises Problem. Raises Problem (422) for whatever is not in the table.
    """
    if not isinstance(body, dict):
        raise refuse("the body is a JSON object with `verb`")
    unknown = sorted(set(body) - {"verb", "model", "options"})
    if unknown:
        raise refuse(f"unknown member `{unknown[0][:100]}`; known: verb, model, options")
    command = commands.get(body["verb"]) if isinstance(body.get("verb"), str) else None
    if command is None:
        raise refuse(f"`verb` is one of: {', '.join(commands)}")
    given = body.get("options", {})
    if not isinstance(given, dict):
        raise refuse("`options` is an object")
    options = dict(_spelled(given))
    if len(options) != len(given):
        raise refuse("an option is given twice")
    choices = command.choices()
    for name, value in options.items():
        if name in command.decided:
            raise refuse(f"option `{name}` is not for clients: {ABOUT[Kind.CALLER]}")
        if name not in choices:
            raise refuse(f"unknown option `{name[:100]}` of {command.name}")
        option = choices[name]
        if option.many and not (isinstance(value, list) and 1 <= len(value) <= MAX_LIST):
            raise refuse(f"option `{name}` is a list of 1 to {MAX_LIST}")
        for one in value if option.many else [value]:
            _check_one(option, one)
    model = body.get("model")
    if model is not None:
        if command.subject is None:
            raise refuse(f"{command.name} takes no `model`")
        if not isinstance(model, str):
            raise refuse("`model` is a text")
        _check_one(command.subject, model)
    elif (
        command.subject is not None
        and command.subject.required
        and not (command.subject.many and command.subject.name in options)
    ):
        raise refuse(f"{command.name} needs `model`: {ABOUT[command.subject.kind]}")
    for option in choices.values():
        asked = option.required and option is not command.subject and option.kind is not Kind.OUTPUT
        if asked and option.name not in options:
            raise refuse(f"{command.name} needs the option `{option.name}`")
    return _arguments(command, model, options, locate, budget)


def _arguments(
    command: Command,
    model: str | None,
    options: dict[str, Any],
    locate: Locate,
    budget: Callable[[str | None], str],
) -> Request:
    def place(option: Option, value: Any) -> str:
        if option.kind is Kind.DIRECTION and _DIRECTION.fullmatch(value):
            return str(value)
        if option.kind in (Kind.INPUT, Kind.DIRECTION):
            return locate(Kind.INPUT, value)
        if option.kind in (Kind.RESULTS, Kind.PARTS):
            return locate(option.kind, value)
        return _word(value)

    words: list[str] = []
    for name, option in command.options.items():
        if option.kind is Kind.BUDGET:
            words.append(f"--{name}={budget(options.get(name))}")
        if name not in options or option.kind in (Kind.OUTPUT, Kind.BUDGET):
            continue
        value = options[name]
        if option.type == "flag":
            words += [f"--{name}"] if value else []
        else:
            values = value if option.many else [value]
            words += [f"--{name}={place(option, one)}" for one in values]
    places: list[str] = []
    for argument in command.arguments:
        if argument is command.subject and model is not None:
            places.append(place(argument, model))
        if argument is not command.subject or argument.many:
            value = options.get(argument.name, [])
            values = value if isinstance(value, list) else [value]
            places += [place(argument, one) for one in values]
    output = _outputs(command, options, places, words)
    if "progress" in command.decided:
        words.append("--progress=json")
    by_python = command.name == "export" and options.get("format") in PYTHON_FORMATS
    words = [*command.name.split("."), *words, *(["--", *places] if places else [])]
    return Request(command.name, model, options, tuple(words), output, by_python)


def _outputs(
    command: Command, options: Mapping[str, Any], places: list[str], words: list[str]
) -> str | None:
    """Adds the options that name outputs, all below `OUT`; returns the main one."""
    main = None
    for name, option in command.options.items():
        if option.kind is not Kind.OUTPUT:
            continue
        by_default = name == "output" and not options.get("dry-run", False)
        if not (option.required or options.get(name, by_default)):
            continue
        file = _file_name(command.name, option, options, places)
        words.append(f"--{name}={OUT}/{file}")
        if option.is_main or (main is None and file.endswith(".h5")):
            main = file
    return main


def _file_name(command: str, option: Option, options: Mapping[str, Any], places: list[str]) -> str:
    """What the program calls this output, where no value of another option calls it otherwise."""
    suffix = PurePosixPath(places[0]).suffix if places else ""
    if option.is_main:
        format = str(options.get("format"))
        if command == "export" and format == "weightwatcher":
            return "weightwatcher.csv"
        if command == "export" and format in ("csv", "json", *PYTHON_FORMATS):
            return f"export.{format}"
        if command == "organ.measure" and (len(places) != 1 or "fleet" in options):
            return "measured"
        if options.get("as") == "lora":
            return "adapter.gguf" if suffix == ".gguf" else "adapter"
    return option.file.format(
        inputs=inputs_name(places), suffix=suffix if suffix in (".gguf", ".safetensors") else ""
    )


def inputs_name(places: list[str]) -> str:
    """What a results file is called after: its model, or both; people see it in reports."""
    stems = []
    for place in places[:2]:
        stem = re.sub(r"(\.(safetensors|gguf|h5|parts|npy))+$", "", PurePosixPath(place).name)
        stems.append(re.sub(r"[^A-Za-z0-9._-]", "_", stem).strip("._-")[:60])
    return "-".join(dict.fromkeys(filter(None, stems))) or "result"
