#!/usr/bin/env python3
"""Runs many_cores_bench several times, in turn with the same program of another commit, and prints one record.

    python3 bench/simulated/many_cores.py [--before PROGRAM] [--repeats 3] build/cpu/bench/many_cores_bench -- [OPTIONS...]

OPTIONS are those of many_cores_bench. The samples of a row are the runs in their order; rows of the other program have its
commit as `peer`. Output: the form vindex-bench/1.
"""
import argparse
import json
import os
import subprocess


def run(program, options):
    document = json.loads(subprocess.run([program, "--json", *options], check=True, stdout=subprocess.PIPE).stdout)
    for row in document["rows"]:
        if row["name"] == "probe.cores.busy":
            row["note"] += f"; load average after {os.getloadavg()[0]:.1f}"
    return document


def gather(rows, document, peer):
    for row in document["rows"]:
        key = (peer, row["route"], row["batch"], row["name"])
        if key not in rows:
            rows[key] = {**row, "peer": peer}
            continue
        into = rows[key]
        into["samples"] += row["samples"]
        if row["limit"] is not None:  # what this machine's cores allow, which others share
            into["limit"] = max(into["limit"], row["limit"])
        if "; load" in row.get("note", ""):
            into["note"] += "," + row["note"].rsplit("after", 1)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--before", help="the program of an earlier commit")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("options", nargs=argparse.REMAINDER, help="of many_cores_bench, behind --")
    arguments = parser.parse_args()
    arguments.options = [option for option in arguments.options if option != "--"]
    rows, own = {}, None
    for _ in range(arguments.repeats):
        own = run(arguments.program, arguments.options)
        gather(rows, own, None)
        if arguments.before:
            before = run(arguments.before, arguments.options)
            gather(rows, before, f"vindex {before['commit']}")
    before = "--before BEFORE " if arguments.before else ""
    own["command"] = (f"bench/simulated/many_cores.py {before}--repeats {arguments.repeats} many_cores_bench -- "
                      f"{' '.join(arguments.options)}").strip()
    own["rows"] = list(rows.values())
    print(json.dumps(own, indent=1))


if __name__ == "__main__":
    main()
