#!/usr/bin/env python3
"""Merges documents of the form vindex-bench/1 that one machine made at one commit, or shows them as a table.

    python3 bench/records/merge_results.py -o all.json one.json two.json
    python3 bench/records/merge_results.py --table bench/results/*/*.json

A file that is not there or not whole is named and left out; with no whole file the end is 1.
"""
import argparse
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_form  # noqa: E402

LESS_IS_BETTER = ("ms_per_matrix", "seconds", "microseconds")


def load(paths):
    documents = []
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            found = check_form.problems(document)
        except (OSError, ValueError) as error:
            found = [str(error)]
        if found:
            print(f"{path} is left out: {found[0]}", file=sys.stderr)
        else:
            documents.append(document)
    return documents


def merged(documents):
    """One document; commands are joined, a GPU known to one of them is the GPU of all. Errors: ValueError where they are
    not of one machine and commit."""
    result = {**documents[0], "rows": []}
    for document in documents:
        if (document["commit"], document["host"]["cpu"]) != (result["commit"], result["host"]["cpu"]):
            raise ValueError("the documents are of different machines or commits")
        result["gpu"] = result["gpu"] or document["gpu"]
        result["rows"] += document["rows"]
    result["command"] = "; ".join(dict.fromkeys(document["command"] for document in documents))
    return result


def table(documents):
    lines = [f"{'name':<18} {'shape':>11} {'encoding':<15} {'spectrum':<9} {'batch':>5} {'who: route':<44} {'median':>9} {'best':>9} "
             f"{'unit':<13} {'limit':>8}"]
    for document in documents:
        for row in document["rows"]:
            shape = f"{row['rows']}x{row['cols']}" if row["rows"] else "-"
            who = (row["peer"] or row["backend"]) + ": " + row["route"]
            head = f"{row['name']:<18} {shape:>11} {row['encoding']:<15} {row.get('spectrum', '-'):<9} "
            head += f"{row['batch']:>5} {who:<44} "
            if row["samples"]:
                best = (min if row["unit"] in LESS_IS_BETTER else max)(row["samples"])
                limit = f"{row['limit']:8.3g}" if row["limit"] is not None else "       -"
                head += f"{statistics.median(row['samples']):9.4g} {best:9.4g} {row['unit']:<13} {limit}"
            else:
                head += row["note"]
            lines.append(head)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("-o", "--output")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    documents = load(options.files)
    if not documents:
        return 1
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(merged(documents), file, indent=1)
            file.write("\n")
    if options.table:
        print(table(documents))
    return 0


if __name__ == "__main__":
    sys.exit(main())
