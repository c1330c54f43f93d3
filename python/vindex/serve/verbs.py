"""Which commands a client may run, and what its options become on the command line.

Commands, their arguments and options are those that the program describes itself; this table only
says which of them name something that a client must not name freely. An option that is in neither
list of this file and that takes text is still plain: it is a value, never a path, and
`test_verbs.py` fails for an option that nobody has looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

from vindex.serve.problems import Problem

JOB_ID = r"[0-9a-f]{20}"
# Outputs of a job stand in this folder of its own.
OUT = "out"


class Kind(Enum):
    """What a value is."""

    PLAIN = "a value of the program's own"
    INPUT = "identifier of a model or file, or job:ID[/NAME] for an output of a job"
    RESULT = "identifier of a job with a results file"
    PARTS = "identifier of a job that left parts (--worker)"
    DIRECTION = "feature F, singular I, or an input"
    BUDGET = "a size, at most this server's share of a job"
    OUTPUT = "true or false: whether it is written; the server names the file"
    REFUSED = "not for clients"


POSITIONALS = {
    "MODEL": Kind.INPUT, "A": Kind.INPUT, "B": Kind.INPUT, "DUMP": Kind.INPUT,
    "INPUT": Kind.INPUT, "PATH": Kind.INPUT, "FILE": Kind.RESULT, "FILES": Kind.RESULT,
    "RESULTS": Kind.RESULT, "PARTS": Kind.PARTS, "SPEC": Kind.PLAIN,
}  # fmt: skip

OPTIONS = {
    **dict.fromkeys(
        ["covariance", "fleet", "imatrix", "key", "keys", "model", "model-config",
         "model-config-a", "model-config-b", "patch", "probe", "queries", "source", "target",
         "tokenizer", "value", "values", "vector"],
        Kind.INPUT,
    ),
    **dict.fromkeys(["activations", "cka", "routing", "spectra-a", "spectra-b"], Kind.RESULT),
    **dict.fromkeys(["output", "report", "save-patch", "factors"], Kind.OUTPUT),
    "direction": Kind.DIRECTION,
    "ram-budget": Kind.BUDGET,
}  # fmt: skip

REFUSED = {
    "claim": "shares of one output; a job has an output of its own",
    "config": "a file of flags would pass this list",
    "disk-budget": "models are local",
    "disk-folder": "outputs stay in the job's folder",
    "exit-code": "an exit code other than 0 is a failed job",
    "folder": "outputs stay in the job's folder",
    "help": "see /openapi.json",
    "progress": "events show it",
    "quiet": "events show it",
}

PATTERNS = {
    "device": r"^(all|[0-9]{1,3}(,[0-9]{1,3}){0,63})$",
    "worker": r"^[0-9]{1,9}/[0-9]{1,9}$",
    "ram-budget": r"^[0-9]{1,15}(\.[0-9]{1,6})?([kKmMgGtT]i?)?[bB]?$",
    "direction": r"^[^\x00-\x1f\x7f]{1,1024}$",
}
TEXT_PATTERN = r"^[^\x00-\x1f\x7f]{1,4096}$"
_TEXT = re.compile(TEXT_PATTERN)
_DIRECTION = re.compile(r"(feature|singular) [0-9]{1,9}")
MAX_LIST = 1000

_FORMATS = {
    "csv": "export.csv", "json": "export.json", "parquet": "export.parquet",
    "arrow": "export.arrow", "phase-json": "export", "gate-vectors": "export",
    "weightwatcher": "weightwatcher.csv",
}  # fmt: skip
# Written by the Python package, not by the program.
PYTHON_FORMATS = ("parquet", "arrow")


@dataclass(frozen=True)
class Option:
    """One option or argument as a client may give it."""

    name: str
    kind: Kind
    required: bool
    many: bool
    takes_value: bool
    choices: tuple[str, ...]
    values: str
    description: str

    def one(self) -> dict[str, Any]:
        """JSON schema of one value."""
        if self.kind is Kind.OUTPUT or not self.takes_value:
            return {"type": "boolean"}
        if self.kind in (Kind.RESULT, Kind.PARTS):
            return {"type": "string", "pattern": f"^{JOB_ID}$"}
        if self.kind is not Kind.PLAIN:
            return {"type": "string", "pattern": PATTERNS.get(self.name, TEXT_PATTERN)}
        if self.choices:
            return {"type": "string", "enum": list(self.choices)}
        numeric = re.match(r"U?INT|NUMBER", self.values)
        if numeric is None:
            pattern = PATTERNS.get(self.name, TEXT_PATTERN)
            if re.fullmatch(pattern, "0") is None:
                return {"type": "string", "pattern": pattern}
            return {"anyOf": [{"type": "string", "pattern": pattern}, {"type": "integer"}]}
        limits = re.search(r"in \[(-?[0-9.]+) - (-?[0-9.]+)\]", self.values)
        result: dict[str, Any] = {"type": "number" if numeric[0] == "NUMBER" else "integer"}
        if limits is not None:
            result |= {"minimum": float(limits[1]), "maximum": float(limits[2])}
        elif "POSITIVE" in self.values:
            result |= {"minimum": 1, "maximum": 2**31 - 1}
        else:
            result |= {"minimum": 0 if numeric[0] == "UINT" else -(2**31), "maximum": 2**31 - 1}
        if result["type"] == "integer":
            result |= {key: int(result[key]) for key in ("minimum", "maximum")}
        return result

    def schema(self) -> dict[str, Any]:
        """JSON schema of what a client gives."""
        one, about = self.one(), {"description": self.description}
        if not self.many:
            return one | about
        return {"type": "array", "items": one, "minItems": 1, "maxItems": MAX_LIST} | about


@dataclass(frozen=True)
class Verb:
    """One command.

    Attributes:
        name: with a dot before a subcommand, "organ.extract".
        subject: the argument that a request names as `model`, if the command has one.
        arguments: all positional ones, `subject` first.
        options: by name, without the refused ones.
        tells_progress: whether it has `--progress`.
    """

    name: str
    description: str
    subject: Option | None
    arguments: tuple[Option, ...]
    options: Mapping[str, Option]
    tells_progress: bool

    @property
    def resumes(self) -> bool:
        """Whether the same command again goes on where an earlier one ended."""
        return "restart" in self.options

    def choices(self) -> dict[str, Option]:
        """What `options` of a request may hold: options, and arguments beside the subject."""
        further = [
            option
            for option in self.arguments
            if option is not self.subject or (option.many and option is self.subject)
        ]
        return {option.name: option for option in (*self.options.values(), *further)}

    def request_schema(self) -> dict[str, Any]:
        """JSON schema of the body of POST /v1/jobs for this command."""
        properties: dict[str, Any] = {"verb": {"const": self.name, "type": "string"}}
        required = ["verb"]
        choices = self.choices()
        if self.subject is not None:
            properties["model"] = self.subject.one() | {"description": self.subject.description}
            if self.subject.required:
                required.append("model")
        needed = [
            option.name
            for option in choices.values()
            if option.required and option is not self.subject and option.kind is not Kind.OUTPUT
        ]
        properties["options"] = {
            "type": "object",
            "properties": {name: option.schema() for name, option in sorted(choices.items())},
            "additionalProperties": False,
        }
        if needed:
            properties["options"]["required"] = needed
            required.append("options")
        return {
            "type": "object",
            "title": self.name,
            "description": self.description,
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


def _option(described: Mapping[str, Any], kind: Kind, choices: tuple[str, ...]) -> Option:
    return Option(
        name=str(described["name"]).lstrip("-").lower(),
        kind=kind,
        required=bool(described.get("required", False)),
        many=bool(described.get("many", False)),
        takes_value=bool(described.get("takes_value", True)),
        choices=choices,
        values=str(described.get("values", "TEXT")),
        description=str(described.get("description", "")),
    )


def kind_of(verb: str, described: Mapping[str, Any]) -> Kind:
    """Kind of an option that the program describes."""
    name = str(described["name"]).lstrip("-")
    if name in REFUSED:
        return Kind.REFUSED
    # `--model` of bench names what it measures, `--values` numbers of memit: both are inputs.
    return OPTIONS.get(name, Kind.PLAIN) if described.get("takes_value", True) else Kind.PLAIN


def table(commands: Mapping[str, Any]) -> dict[str, Verb]:
    """Every command that a client may run, from what the program describes."""
    result: dict[str, Verb] = {}
    for name, described in commands.items():
        kinds = [POSITIONALS.get(item["name"]) for item in described["positionals"]]
        if None in kinds or name == "serve":
            continue
        arguments = tuple(
            _option(item, kind, ())
            for item, kind in zip(described["positionals"], kinds, strict=True)
            if kind is not None
        )
        options: dict[str, Option] = {}
        for item in described["options"]:
            kind = kind_of(name, item)
            if kind is Kind.REFUSED:
                continue
            choices = tuple(str(choice) for choice in item.get("choices", []))
            if name == "export" and item["name"] == "--format":
                choices = (*choices, *(f for f in PYTHON_FORMATS if f not in choices))
            options[item["name"].lstrip("-")] = _option(item, kind, choices)
        subject = next((option for option in arguments if option.kind is not Kind.PLAIN), None)
        progress = any(item["name"] == "--progress" for item in described["options"])
        about = str(described.get("description", ""))
        result[name] = Verb(name, about, subject, arguments, options, progress)
    return result


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
            raise refuse(f"option `{name}`: {option.kind.value}, in its own spelling")
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
    verbs: Mapping[str, Verb], body: Any, locate: Locate, budget: Callable[[str | None], str]
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
    verb = verbs.get(body["verb"]) if isinstance(body.get("verb"), str) else None
    if verb is None:
        raise refuse(f"`verb` is one of: {', '.join(verbs)}")
    given = body.get("options", {})
    if not isinstance(given, dict):
        raise refuse("`options` is an object")
    options = dict(_spelled(given))
    if len(options) != len(given):
        raise refuse("an option is given twice")
    choices = verb.choices()
    for name, value in options.items():
        if name in REFUSED:
            raise refuse(f"option `{name}` is not for clients: {REFUSED[name]}")
        if name not in choices:
            raise refuse(f"unknown option `{name[:100]}` of {verb.name}")
        option = choices[name]
        if option.many and not (isinstance(value, list) and 1 <= len(value) <= MAX_LIST):
            raise refuse(f"option `{name}` is a list of 1 to {MAX_LIST}")
        for one in value if option.many else [value]:
            _check_one(option, one)
    model = body.get("model")
    if model is not None:
        if verb.subject is None:
            raise refuse(f"{verb.name} takes no `model`")
        if not isinstance(model, str):
            raise refuse("`model` is a text")
        _check_one(verb.subject, model)
    elif (
        verb.subject is not None
        and verb.subject.required
        and not (verb.subject.many and verb.subject.name in options)
    ):
        raise refuse(f"{verb.name} needs `model`: {verb.subject.kind.value}")
    for option in choices.values():
        asked = option.required and option is not verb.subject and option.kind is not Kind.OUTPUT
        if asked and option.name not in options:
            raise refuse(f"{verb.name} needs the option `{option.name}`")
    return _arguments(verb, model, options, locate, budget)


def _arguments(
    verb: Verb,
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
        if option.kind in (Kind.RESULT, Kind.PARTS):
            return locate(option.kind, value)
        return _word(value)

    words: list[str] = []
    for name, option in verb.options.items():
        if option.kind is Kind.BUDGET:
            words.append(f"--{name}={budget(options.get(name))}")
        if name not in options or option.kind in (Kind.OUTPUT, Kind.BUDGET):
            continue
        value = options[name]
        if not option.takes_value:
            words += [f"--{name}"] if value else []
        else:
            values = value if option.many else [value]
            words += [f"--{name}={place(option, one)}" for one in values]
    places: list[str] = []
    for argument in verb.arguments:
        if argument is verb.subject and model is not None:
            places.append(place(argument, model))
        if argument is not verb.subject or argument.many:
            value = options.get(argument.name, [])
            values = value if isinstance(value, list) else [value]
            places += [place(argument, one) for one in values]
    output = _outputs(verb, options, places, words)
    if verb.tells_progress:
        words.append("--progress=json")
    by_python = verb.name == "export" and options.get("format") in PYTHON_FORMATS
    command = (*verb.name.split("."), *words, *(["--", *places] if places else []))
    return Request(verb.name, model, options, command, output, by_python)


def _outputs(
    verb: Verb, options: Mapping[str, Any], places: list[str], words: list[str]
) -> str | None:
    """Adds the options that name outputs, all below `OUT`; returns the main one."""
    main = None
    for name, option in verb.options.items():
        if option.kind is not Kind.OUTPUT:
            continue
        by_default = name == "output" and not options.get("dry-run", False)
        if not (option.required or options.get(name, by_default)):
            continue
        file = _main_name(verb.name, options, places) if name == "output" else {
            "report": "reports" if verb.name == "organ.measure" else "report.json",
            "save-patch": "patch.safetensors",
            "factors": "factors.safetensors",
        }[name]  # fmt: skip
        words.append(f"--{name}={OUT}/{file}")
        if name == "output":
            main = file
    return main


def _main_name(verb: str, options: Mapping[str, Any], places: list[str]) -> str:
    if verb == "export":
        return _FORMATS.get(str(options.get("format")), "export")
    if verb == "organ.measure":
        single = len(places) == 1 and "fleet" not in options
        return results_name(places) if single else "measured"
    if verb.startswith("edit."):
        suffix = PurePosixPath(places[0]).suffix if places else ""
        if options.get("as") == "lora":
            return "adapter.gguf" if suffix == ".gguf" else "adapter"
        return f"edited{suffix}" if suffix in (".gguf", ".safetensors") else "edited"
    return {
        "report": "report.html", "decode": "decoded.f32", "synth": "model",
        "organ.extract": "organs", "organ.assemble": "assembled.gguf",
        "organ.graft": "grafted.gguf", "organ.purify": "purified.gguf",
    }.get(verb, results_name(places))  # fmt: skip


def results_name(places: list[str]) -> str:
    """Name of a results file: that of its model, or of both; people see it in reports."""
    stems = []
    for place in places[:2]:
        stem = re.sub(r"(\.(safetensors|gguf|h5|parts|npy))+$", "", PurePosixPath(place).name)
        stems.append(re.sub(r"[^A-Za-z0-9._-]", "_", stem).strip("._-")[:60])
    return f"{'-'.join(dict.fromkeys(filter(None, stems))) or 'result'}.h5"
