"""Every option of the program is judged, and a request becomes the arguments that it should."""

from __future__ import annotations

import re
from typing import Any

import pytest

from vindex import _program
from vindex.serve.jobs import commands, requests
from vindex.serve.problems import Problem

DESCRIBED = _program.commands()
COMMANDS = commands.table(DESCRIBED)


def locate(kind: commands.Kind, identifier: str) -> str:
    return f"models/{identifier}" if kind is commands.Kind.INPUT else f"<{kind.name} {identifier}>"


def check(body: Any) -> requests.Request:
    return requests.check(COMMANDS, body, locate, lambda size: size or "1000")


def test_every_command_is_served() -> None:
    assert set(COMMANDS) == set(DESCRIBED)


def test_values_that_could_name_a_file_have_another_kind() -> None:
    """Beside the kinds, which C++ demands: whatever speaks of a file, folder or address."""
    suspects = re.compile(r"\b(files?|folders?|paths?|address|json|npy|h5|gguf)\b", re.I)
    plain = {
        f"{name} {item['name']}: {item['description']}"
        for name, command in DESCRIBED.items()
        for item in (*command["options"], *command["positionals"])
        if item["kind"] == "value" and item["type"] == "text" and not item["choices"]
        and suspects.search(item["description"]) and item["name"] not in ("--by", "--shards")
    }  # fmt: skip
    assert plain == set()


@pytest.mark.parametrize(
    "value", [float("inf"), float("-inf"), float("nan"), 1e308, 1.5, -1, 2**31, 10**400, "2", True,
              None, [], [2], {}, ""]
)  # fmt: skip
def test_numbers_that_are_no_integers_of_the_range(value: Any) -> None:
    with pytest.raises(Problem) as caught:
        check({"verb": "measure", "model": "kimi", "options": {"vectors": value}})
    assert (caught.value.status, caught.value.id) == (422, "E-USAGE")


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 10**400, "1"])
def test_numbers_that_are_not_finite(value: Any) -> None:
    for name, command in COMMANDS.items():
        for option in command.options.values():
            if option.one().get("type") == "number" and not option.many:
                body = {"verb": name, "options": {option.name: value}}
                with pytest.raises(Problem) as caught:
                    check(body | ({"model": "kimi"} if command.subject else {}))
                assert caught.value.status == 422


def test_arguments_of_a_measurement() -> None:
    request = check(
        {"verb": "measure", "model": "kimi", "options": {"layers": "1-3", "vectors": 2,
         "no-spectra": True, "heads": False}}
    )  # fmt: skip
    assert request.output == "kimi.h5"
    assert request.arguments[0] == "measure"
    assert request.arguments[-2:] == ("--", "models/kimi")
    assert set(request.arguments[1:-2]) == {
        "--layers=1-3", "--vectors=2", "--no-spectra", "--output=out/kimi.h5",
        "--ram-budget=1000", "--progress=json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("places", "name"),
    [
        (["models/kimi"], "kimi.h5"),
        (["models/a/b-Q4_K_M.gguf", "models/c"], "b-Q4_K_M-c.h5"),
        (["../0/out/kimi.h5.parts", "../1/out/kimi.h5.parts"], "kimi.h5"),
        (["models/<script>"], "script.h5"),
        (["models/\u2603"], "result.h5"),
        ([], "result.h5"),
        (["models/" + "x" * 200], "x" * 60 + ".h5"),
    ],
)
def test_results_are_named_after_models(places: list[str], name: str) -> None:
    assert f"{requests.inputs_name(places)}.h5" == name


def test_a_lookup_stores_where_it_is_asked_to() -> None:
    asks = check({"verb": "lookup", "model": "kimi", "options": {"tokens": ["New York"]}})
    assert asks.output is None
    assert "--tokens=New York" in asks.arguments
    stores = check({"verb": "lookup", "model": "kimi", "options": {"store": True}})
    assert stores.output == "kimi.h5"
    assert "--store=out/kimi.h5" in stores.arguments


def test_a_trace_names_its_files_itself() -> None:
    asks = check({"verb": "trace", "model": "kimi", "options": {"ids": "prompts.jsonl"}})
    assert asks.output == "dump"
    assert {"--ids=models/prompts.jsonl", "--output=out/dump"} <= set(asks.arguments)
    options = {"ids": "p", "against": "other", "statistics": True, "output": False}
    judged = check({"verb": "trace", "model": "kimi", "options": options})
    assert judged.output == "statistics.h5"
    assert {"--against=models/other", "--statistics=out/statistics.h5"} <= set(judged.arguments)
    assert "--output=out/dump" not in judged.arguments
    with pytest.raises(Problem):
        check({"verb": "trace", "model": "kimi", "options": {"ids": "p", "statistics": "/x.h5"}})


def test_spellings_of_one_option() -> None:
    for name in ("ram-budget", "--ram-budget", "ram_budget"):
        request = check({"verb": "measure", "model": "m", "options": {name: "7"}})
        assert "--ram-budget=7" in request.arguments
    with pytest.raises(Problem, match="twice"):
        check({"verb": "measure", "model": "m", "options": {"layers": "1", "--layers": "2"}})


def test_second_models_results_and_files_are_located() -> None:
    request = check({"verb": "compare", "model": "a", "options": {"b": "b"}})
    assert request.arguments[-3:] == ("--", "models/a", "models/b")
    id = "0" * 20
    request = check({"verb": "export", "model": id, "options": {"format": "csv"}})
    assert request.arguments[-1] == f"<RESULTS {id}>"
    assert request.output == "export.csv"
    request = check({"verb": "merge", "model": id, "options": {"parts": [id, id]}})
    assert request.arguments[-3:] == (f"<PARTS {id}>",) * 3
    for name in ("imatrix", "model-config"):
        request = check({"verb": "measure", "model": "m", "options": {name: "f"}})
        assert f"--{name}=models/f" in request.arguments


def test_directions_are_words_or_files() -> None:
    for text, word in (("singular 3", "singular 3"), ("v.npy", "models/v.npy")):
        request = check({"verb": "edit.delete", "model": "m", "options": {"direction": [text]}})
        assert f"--direction={word}" in request.arguments
        assert request.output == "edited"
        assert request.arguments[:2] == ("edit", "delete")


def test_values_cannot_become_options() -> None:
    request = check({"verb": "measure", "model": "-o", "options": {"layers": "--config=/etc/x"}})
    assert "--layers=--config=/etc/x" in request.arguments
    assert request.arguments[-2] == "--"


def test_outputs_are_asked_for_not_named() -> None:
    body = {"verb": "organ.purify", "model": "m.gguf", "options": {"report": True}}
    assert "--report=out/report.json" in check(body).arguments
    assert "--output=out/purified.gguf" in check(body).arguments
    dry = check({"verb": "organ.purify", "model": "m.gguf", "options": {"dry-run": True}})
    assert dry.output is None
    assert not any(word.startswith("--output") for word in dry.arguments)


def test_tables_of_other_formats_are_written_by_the_package() -> None:
    request = check({"verb": "export", "model": "0" * 20, "options": {"format": "parquet"}})
    assert request.by_python
    assert request.output == "export.parquet"


REFUSED = [
    [], "x", None, {}, {"verb": 3}, {"verb": "serve"}, {"verb": "rm"}, {"verb": "measure"},
    {"verb": "measure", "model": 3}, {"verb": "measure", "model": "m", "more": 1},
    {"verb": "measure", "model": "m", "options": []},
    {"verb": "measure", "model": "m", "options": {"nosuch": 1}},
    {"verb": "measure", "model": "m", "options": {"output": "/etc/passwd"}},
    {"verb": "measure", "model": "m", "options": {"layers": "1\n2"}},
    {"verb": "measure", "model": "m", "options": {"layers": "1\n"}},
    {"verb": "measure", "model": "m", "options": {"layers": "a\x00b"}},
    {"verb": "measure", "model": "m", "options": {"layers": "\ud800"}},
    {"verb": "measure", "model": "m", "options": {"layers": ["1"]}},
    {"verb": "measure", "model": "m", "options": {"layers": True}},
    {"verb": "measure", "model": "m", "options": {"layers": None}},
    {"verb": "measure", "model": "m", "options": {"vectors": 5000}},
    {"verb": "measure", "model": "m", "options": {"vectors": 1.5}},
    {"verb": "measure", "model": "m", "options": {"vectors": "1"}},
    {"verb": "measure", "model": "m", "options": {"heads": "yes"}},
    {"verb": "measure", "model": "m", "options": {"mode": "quick"}},
    {"verb": "measure", "model": "m", "options": {"device": "/dev/sda"}},
    {"verb": "measure", "model": "m", "options": {"worker": "auto"}},
    {"verb": "measure", "model": "m", "options": {"worker": 7}},
    {"verb": "compare", "model": "m"}, {"verb": "bench", "model": "m"},
    {"verb": "show", "model": "../../x"}, {"verb": "show", "model": "kimi"},
    {"verb": "merge", "model": "0" * 20, "options": {"parts": []}},
    {"verb": "decode", "model": "m"}, {"verb": "synth"},
]  # fmt: skip


@pytest.mark.parametrize("body", REFUSED, ids=repr)
def test_what_is_not_in_the_table_is_refused(body: Any) -> None:
    with pytest.raises(Problem) as caught:
        check(body)
    assert (caught.value.status, caught.value.id) == (422, "E-USAGE")


@pytest.mark.parametrize("command", COMMANDS)
def test_options_that_are_not_for_clients(command: str) -> None:
    decided = COMMANDS[command].decided
    assert "quiet" in decided
    for name in decided:
        with pytest.raises(Problem, match="not for clients"):
            check({"verb": command, "model": "m", "options": {name: "x"}})


def test_what_the_server_decides() -> None:
    decided = frozenset().union(*(command.decided for command in COMMANDS.values()))
    assert decided == {
        "claim", "config", "disk-budget", "disk-folder", "exit-code", "folder", "progress", "quiet"
    }  # fmt: skip


def test_schemas_are_what_is_checked() -> None:
    """Patterns mean the same here and to a client that reads the document."""
    for command in COMMANDS.values():
        schema = command.request_schema()
        assert schema["additionalProperties"] is False
        for name, option in schema["properties"]["options"]["properties"].items():
            assert re.fullmatch("[a-z0-9-]+", name)
            assert option["description"]
            assert name not in command.decided
