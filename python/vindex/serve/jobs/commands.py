"""Which commands a client may run, with which options, and as what.

Commands, their arguments and options are those that the program describes itself; this table only
says which of them name something that a client must not name freely. An option that is in neither
list of this file and that takes text is still plain: it is a value, never a path, and
`test_verbs.py` fails for an option that nobody has looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

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
        ["against", "against-config", "covariance", "fleet", "ids", "imatrix", "key", "keys",
         "model", "model-config", "model-config-a", "model-config-b", "patch", "probe", "queries",
         "source", "target", "tokenizer", "value", "values", "vector"],
        Kind.INPUT,
    ),
    **dict.fromkeys(["activations", "cka", "routing", "spectra-a", "spectra-b"], Kind.RESULT),
    **dict.fromkeys(
        ["output", "report", "save-patch", "factors", "statistics", "store"], Kind.OUTPUT
    ),
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
MAX_LIST = 1000

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
