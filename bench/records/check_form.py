#!/usr/bin/env python3
"""Checks files against the form "vindex-bench/1" (command-line contract); "-" is standard input.

    python3 bench/records/check_form.py bench/results/*/*.json

Prints a line per departure and ends with 1 where there is one. A row without samples must say why in `note`.
"""
import json
import math
import re
import sys

UNITS = {"ms_per_matrix", "gb_f32_per_s", "gb_in_per_s", "gb_per_s", "seconds", "microseconds", "share"}
NAME = re.compile(r"read|decode|gram|spectra\.(fast|default|strict)|end_to_end|probe\.[a-z0-9_.]+")
TEXT, COUNT, NUMBER = "text", "count of at least 0", "finite number"
DOCUMENT = {"commit": TEXT, "date": TEXT, "host": dict, "command": TEXT, "rows": list}
HOST = {"cpu": TEXT, "cores": COUNT, "blas": TEXT}
GPU = {"name": TEXT, "driver": TEXT, "cuda": TEXT}
ROW = {"name": TEXT, "route": TEXT, "backend": TEXT, "rows": COUNT, "cols": COUNT, "batch": COUNT,
       "encoding": TEXT, "unit": TEXT, "samples": list}
OPTIONAL_ROW = {"limit": NUMBER, "peer": TEXT}
# Kind of the weights' spectrum (trained, noise, ...), where one is measured; records of earlier programs, all of noise, lack it.
ADDED_ROW = {"spectrum": TEXT, "note": TEXT}


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_a(value, kind):
    if kind is TEXT:
        return isinstance(value, str) and value != ""
    if kind is COUNT:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if kind is NUMBER:
        return is_number(value)
    return isinstance(value, kind)


def member_problems(where, value, kinds, others):
    """Members missing, of another kind, or unknown; `others` may be there too."""
    if not isinstance(value, dict):
        return [f"{where}: not an object"]
    found = [f"{where}: `{key}` is missing or no {kind if isinstance(kind, str) else kind.__name__}"
             for key, kind in kinds.items() if not is_a(value.get(key), kind)]
    return found + [f"{where}: `{key}` does not belong there" for key in value if key not in kinds and key not in others]


def row_problems(where, row):
    found = member_problems(where, row, ROW, {*OPTIONAL_ROW, *ADDED_ROW})
    if found:
        return found
    for key, kind in OPTIONAL_ROW.items():
        if key not in row or (row[key] is not None and not is_a(row[key], kind)):
            found.append(f"{where}: `{key}` is missing, or neither null nor a {kind}")
    if not NAME.fullmatch(row["name"]):
        found.append(f"{where}: `{row['name']}` is no name of a row")
    if row["unit"] not in UNITS:
        found.append(f"{where}: `{row['unit']}` is no unit")
    if not all(is_number(sample) for sample in row["samples"]):
        found.append(f"{where}: a sample is no finite number")
    found += [f"{where}: `{key}` is no {kind}" for key, kind in ADDED_ROW.items() if key in row and not is_a(row[key], kind)]
    if not row["samples"] and "note" not in row:
        found.append(f"{where}: neither samples nor a note")
    return found


def problems(document):
    """Departures of a parsed document from the form, as lines of text."""
    found = member_problems("document", document, DOCUMENT, {"schema", "gpu"})
    if found:
        return found
    if document.get("schema") != "vindex-bench/1":
        found.append("document: `schema` is not vindex-bench/1")
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|\+00:00)", document["date"]):
        found.append("document: `date` is no UTC time")
    found += member_problems("host", document["host"], HOST, {"memory_gib"})
    # A value that an early program did not record stays unknown: null.
    if "memory_gib" not in document["host"] or not (
            document["host"]["memory_gib"] is None or is_number(document["host"]["memory_gib"])):
        found.append("host: `memory_gib` is missing, or neither null nor a number")
    if "gpu" not in document:
        found.append("document: `gpu` is missing")
    elif document["gpu"] is not None:
        found += member_problems("gpu", document["gpu"], GPU, set())
    for index, row in enumerate(document["rows"]):
        found += row_problems(f"row {index}", row)
    return found


def refuse(name):
    raise ValueError(f"{name} is no JSON number")


def main(paths):
    failed = not paths
    for path in paths:
        try:
            text = sys.stdin.read() if path == "-" else open(path, encoding="utf-8").read()
            found = problems(json.loads(text, parse_constant=refuse))
        except (OSError, ValueError) as error:
            found = [str(error)]
        for line in found:
            print(f"{path}: {line}")
        failed = failed or bool(found)
    if not paths:
        print("check_form: no file given")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
