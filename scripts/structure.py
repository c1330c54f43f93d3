#!/usr/bin/env python3
"""Prints what the tree looks like: structure.py [--root FOLDER] [--check]

Rooms are folders, units are a header with the sources of its name. Printed are the rooms by size, the circles of units that
include each other, the arrows that run up between folders of one layer, the sources without a header of their name, and the
sizes of product and tests. --check prints only what breaks a rule, and exits with 1 where something does:

  - no room of more than 25 files (data, records and corpora are lists and no rooms);
  - no circle of more than 3 units;
  - no two folders of a layer that include each other, straight or through others.

tests/structure_test.py runs it in every build. Arrows between layers are tests/layers_test.cpp's.
"""

import argparse
import collections
import os
import re
import subprocess
import sys

ROOM_SIZE = 25
CIRCLE_SIZE = 3
# Lists of data: their names say which file is which, nobody reads them as a room.
DATA = ("tests/data/", "tests/fuzz/corpus/", "bench/results/", "docs/images/")
SOURCE = re.compile(r"\.(cpp|hpp|cu|cuh)$")
CODE = re.compile(r"\.(cpp|hpp|cu|cuh|c|h|py|sh)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def listed(root):
    """Files of the tree, also those that are new and not ignored."""
    done = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True)
    return sorted(name for name in set(done.stdout.splitlines()) if os.path.exists(os.path.join(root, name)))


def large_rooms(files):
    """[(room, files)] of more than ROOM_SIZE, largest first."""
    rooms = collections.Counter(os.path.dirname(name) for name in files if not (name + "/").startswith(DATA))
    return [(room, count) for room, count in rooms.most_common() if count > ROOM_SIZE]


def unit_of(name):
    """The path without its ending."""
    return SOURCE.sub("", name)


def arrows(root, files):
    """{unit: units that it includes} of the product."""
    sources = [name for name in files if SOURCE.search(name) and name.startswith(("host/", "kernels/", "apps/", "include/"))]
    known = set(sources)
    found = {unit_of(name): set() for name in sources}
    for name in sources:
        with open(os.path.join(root, name), encoding="utf-8") as file:
            text = file.read()
        for quote, path in INCLUDE.findall(text):
            beside = [os.path.normpath(os.path.join(os.path.dirname(name), path))] if quote == '"' else []
            target = next((place for place in [*beside, "host/" + path, path, "include/" + path] if place in known), None)
            if target is not None and unit_of(target) != unit_of(name):
                found[unit_of(name)].add(unit_of(target))
    return found


def circles(graph):
    """Strongly connected components of two and more, largest first (Tarjan, without recursion)."""
    number, low, stack, on_stack, found = {}, {}, [], set(), []
    for start in sorted(graph):
        if start in number:
            continue
        work = [(start, iter(sorted(graph[start])))]
        number[start] = low[start] = len(number)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    at = stack.index(node)
                    if len(stack) - at > 1:
                        found.append(sorted(stack[at:]))
                    on_stack.difference_update(stack[at:])
                    del stack[at:]
            elif following not in number:
                number[following] = low[following] = len(number)
                stack.append(following)
                on_stack.add(following)
                work.append((following, iter(sorted(graph.get(following, ())))))
            elif following in on_stack:
                low[node] = min(low[node], number[following])
    return sorted(found, key=lambda circle: (-len(circle), circle))


def layer_of(unit):
    """host/results of host/results/hdf5/storage; kernels of kernels/band/panel."""
    parts = unit.split("/")
    return "/".join(parts[:2]) if parts[0] == "host" else parts[0]


def folder_circles(graph):
    """Circles of folders of one layer."""
    folders = collections.defaultdict(set)
    for unit, targets in graph.items():
        for target in targets:
            here, there = os.path.dirname(unit), os.path.dirname(target)
            if here != there and layer_of(unit) == layer_of(target):
                folders[here].add(there)
                folders[there].update(())
    return circles(folders)


def lines(root, files):
    """(files, lines) of code."""
    counted = [name for name in files if CODE.search(name)]
    total = 0
    for name in counted:
        with open(os.path.join(root, name), "rb") as file:
            total += file.read().count(b"\n")
    return len(counted), total


def broken_rules(root):
    """One line each."""
    files = listed(root)
    graph = arrows(root, files)
    found = [f"room of {count} files: {room}" for room, count in large_rooms(files)]
    found += [f"circle of {len(circle)}: {' '.join(circle)}" for circle in circles(graph) if len(circle) > CIRCLE_SIZE]
    found += [f"folders that include each other: {' '.join(circle)}" for circle in folder_circles(graph)]
    return found


def print_all(root):
    """What there is, as a sheet."""
    files = listed(root)
    graph = arrows(root, files)
    rooms = collections.Counter(os.path.dirname(name) for name in files if not (name + "/").startswith(DATA))
    print(f"rooms {len(rooms)}, largest {rooms.most_common(1)[0][1]}, above {ROOM_SIZE} files: {len(large_rooms(files))}")
    around = circles(graph)
    print(f"units {len(graph)}, in circles {sum(map(len, around))}, circles {len(around)}, largest {max(map(len, around), default=0)}")
    for circle in around:
        print("  circle:", " ".join(circle))
    knots = folder_circles(graph)
    print(f"knots of folders {len(knots)}")
    for knot in knots:
        print("  folders:", " ".join(knot))
    known = set(files)
    alone = [unit for unit in graph if f"{unit}.hpp" not in known and f"{unit}.cuh" not in known]
    print(f"sources without a header of their name {len(alone)}")
    for top in ("host", "kernels", "apps", "include", "bench", "python", "scripts", "tests"):
        count, total = lines(root, [name for name in files if name.startswith(top + "/")])
        print(f"{top}: {count} files, {total} lines")


def main():
    parser = argparse.ArgumentParser(description="What the tree looks like, and which rules it breaks.")
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    parser.add_argument("--check", action="store_true", help="only what breaks a rule")
    arguments = parser.parse_args()
    if not arguments.check:
        print_all(arguments.root)
        return 0
    found = broken_rules(arguments.root)
    print("\n".join(found) if found else "every rule of the tree's structure holds")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
