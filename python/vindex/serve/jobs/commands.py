"""Which commands a client may run, with which options, and as what.

Commands, their arguments and options are those that the program describes (`vindex commands
--json`), and so is the kind of each value. Here stands what a kind means to a client: which it
gives as it is, which as an identifier, which the server decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

JOB_ID = r"[0-9a-f]{20}"
# Outputs of a job stand in this folder of its own.
OUT = "out"


class Kind(Enum):
    """What a value is, in the program's words."""

    VALUE = "value"
    INPUT = "input"
    RESULTS = "results"
    PARTS = "parts"
    DIRECTION = "direction"
    BUDGET = "budget"
    DEVICES = "devices"
    SHARE = "share"
    OUTPUT = "output"
    CALLER = "caller"


ABOUT = {
    Kind.VALUE: "a value of the program's own",
    Kind.INPUT: "identifier of a model or file, or job:ID[/NAME] for an output of a job",
    Kind.RESULTS: "identifier of a job with a results file",
    Kind.PARTS: "identifier of a job that left parts (--worker)",
    Kind.DIRECTION: "feature F, singular I, or an input",
    Kind.BUDGET: "a size, at most this server's share of a job",
    Kind.DEVICES: "all, or numbers of devices",
    Kind.SHARE: "i/n",
    Kind.OUTPUT: "true or false: whether it is written; the server names the file",
    Kind.CALLER: "a matter of the process that calls, which is the server",
}
TEXT_PATTERN = r"^[^\x00-\x1f\x7f]{1,4096}$"
_PATTERNS = {
    Kind.RESULTS: f"^{JOB_ID}$",
    Kind.PARTS: f"^{JOB_ID}$",
    Kind.DEVICES: r"^(all|[0-9]{1,3}(,[0-9]{1,3}){0,63})$",
    Kind.SHARE: r"^[0-9]{1,9}/[0-9]{1,9}$",
    Kind.BUDGET: r"^[0-9]{1,15}(\.[0-9]{1,6})?([kKmMgGtT]i?)?[bB]?$",
    Kind.DIRECTION: r"^[^\x00-\x1f\x7f]{1,1024}$",
}
MAX_LIST = 1000

# Written by the Python package, not by the program.
PYTHON_FORMATS = ("parquet", "arrow")


@dataclass(frozen=True)
class Option:
    """One option or argument as a client may give it.

    Attributes:
        type: "flag", "text", "integer" or "number".
        file: of an output, what to call it.
        is_main: whether it is the output that the command is for.
    """

    name: str
    kind: Kind
    type: str
    required: bool
    many: bool
    choices: tuple[str, ...]
    minimum: float | None
    maximum: float | None
    file: str
    is_main: bool
    description: str

    def one(self) -> dict[str, Any]:
        """JSON schema of one value."""
        if self.kind is Kind.OUTPUT or self.type == "flag":
            return {"type": "boolean"}
        if self.choices:
            return {"type": "string", "enum": list(self.choices)}
        if self.type == "text":
            text = {"type": "string", "pattern": _PATTERNS.get(self.kind, TEXT_PATTERN)}
            takes_numbers = self.kind in (Kind.VALUE, Kind.DEVICES)
            return {"anyOf": [text, {"type": "integer"}]} if takes_numbers else text
        least, most = -(2**31), 2**31 - 1
        return {
            "type": self.type,
            "minimum": least if self.minimum is None else self.minimum,
            "maximum": most if self.maximum is None else self.maximum,
        }

    def schema(self) -> dict[str, Any]:
        """JSON schema of what a client gives."""
        one, about = self.one(), {"description": self.description}
        if not self.many:
            return one | about
        return {"type": "array", "items": one, "minItems": 1, "maxItems": MAX_LIST} | about


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        name: with a dot before a subcommand, "organ.extract".
        subject: the argument that a request names as `model`, if the command has one.
        arguments: all positional ones, `subject` first.
        options: by name, without those that the server decides.
        decided: names of those.
    """

    name: str
    description: str
    subject: Option | None
    arguments: tuple[Option, ...]
    options: Mapping[str, Option]
    decided: frozenset[str]

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


def _option(described: Mapping[str, Any], kind: Kind, further: tuple[str, ...] = ()) -> Option:
    choices = [str(choice) for choice in described["choices"]]
    return Option(
        name=str(described["name"]).lstrip("-").lower(),
        kind=kind,
        type=str(described["type"]),
        required=bool(described["required"]),
        many=bool(described["many"]),
        choices=tuple(dict.fromkeys([*choices, *further])),
        minimum=described.get("minimum"),
        maximum=described.get("maximum"),
        file=str(described.get("file", "")),
        is_main="-o" in described.get("aliases", ()),
        description=str(described["description"]),
    )


def table(commands: Mapping[str, Any]) -> dict[str, Command]:
    """Every command that a client may run, from what the program describes."""
    result: dict[str, Command] = {}
    for name, described in commands.items():
        arguments = [_option(item, Kind(item["kind"])) for item in described["positionals"]]
        options: dict[str, Option] = {}
        decided = []
        for item in described["options"]:
            kind = Kind(item["kind"])
            further = PYTHON_FORMATS if (name, item["name"]) == ("export", "--format") else ()
            option = _option(item, kind, further)
            if kind is Kind.CALLER:
                decided.append(option.name)
            else:
                options[option.name] = option
        subject = next((option for option in arguments if option.kind is not Kind.VALUE), None)
        about = str(described["description"])
        result[name] = Command(name, about, subject, tuple(arguments), options, frozenset(decided))
    return result
