#!/usr/bin/env python3
"""Fails when an expensive header reaches too many sources: scripts/include_reach.py [--list] [ROOT].

For each header that is expensive to compile, counts the sources of the program (host/, apps/, each alone) that reach it
through includes, and compares the count with a limit. The limits are slightly above the current counts; a change that
needs more gives its reason and raises the limit here. bench/build_time.py measures the cost of compiler calls; this
check is fast and needs no compiler.
"""
import pathlib
import re
import sys

ARGUMENTS = [argument for argument in sys.argv[1:] if argument != "--list"]
ROOT = pathlib.Path(ARGUMENTS[0] if ARGUMENTS else pathlib.Path(__file__).parent.parent).resolve()
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# header -> maximum number of sources that may reach it. Seconds are g++ 12's on an EPYC (Genoa), of the header and what it brings.
LIMITS = {
    "nlohmann/json.hpp": 1,  # 2 s and more with each use: core/json/json_document.cpp alone writes documents
    "regex": 0,              # 2 s with each use: RE2 serves user patterns, plain code the rest
    "iostream": 0,
    "CLI/CLI.hpp": 40,       # 3 s: apps alone
    "re2/re2.h": 3,
    "filesystem": 36,        # 0.5 s; paths of vindex.hpp
    "functional": 312,       # 0.4 s; kinds of files say by functions what is shown of them, listings and claims what is wanted
    "variant": 360,          # 0.2 s
    "fmt/format.h": 345,     # 0.6 s: sources, not headers
    "future": 4,
    "ranges": 0,             # 0.6 s
}
# A header that other folders include brings all that it includes to them: these may not stand in one.
NOT_IN_SHARED_HEADERS = {"nlohmann/json.hpp", "CLI/CLI.hpp", "re2/re2.h", "fmt/format.h", "regex", "iostream", "ranges"}


# Where includes are looked for, after the folder of the file itself.
FOLDERS = [ROOT / "include", ROOT / "host", ROOT]


def includes_of(path: pathlib.Path, cache: dict) -> list[str]:
    if path not in cache:
        cache[path] = [name for _, name in INCLUDE.findall(path.read_text(encoding="utf-8"))]
    return cache[path]


def reached_by(source: pathlib.Path, cache: dict) -> set[str]:
    """Names of all headers that `source` reaches; those of the project are followed."""
    names, waiting, seen = set(), [source], {source}
    while waiting:
        at = waiting.pop()
        for name in includes_of(at, cache):
            names.add(name)
            for folder in (at.parent, *FOLDERS):
                header = folder / name
                if header.is_file():
                    if header not in seen:
                        seen.add(header)
                        waiting.append(header)
                    break
    return names


def shared_headers(sources: list[pathlib.Path], cache: dict) -> list[pathlib.Path]:
    """Headers of the host that files of another of its folders include, and those that are installed."""
    host = ROOT / "host"
    found = set((ROOT / "include").rglob("*.hpp"))
    for file in [*sources, *host.rglob("*.hpp")]:
        for name in includes_of(file, cache):
            header = host / name
            if "/" in name and header.is_file() and file.parent not in header.parents:
                found.add(header)
    return sorted(found)


def main() -> int:
    cache: dict = {}
    sources = sorted([*(ROOT / "host").rglob("*.cpp"), *(ROOT / "apps").rglob("*.cpp")])
    counts = dict.fromkeys(LIMITS, 0)
    for source in sources:
        for name in reached_by(source, cache) & LIMITS.keys():
            counts[name] += 1
    failures = [f"{name} is reached by {counts[name]} of {len(sources)} sources, more than {limit}"
                for name, limit in LIMITS.items() if counts[name] > limit]
    for header in shared_headers(sources, cache):
        failures += [f"{header.relative_to(ROOT)} includes {name}, which headers that other folders include leave to sources"
                     for name in includes_of(header, cache) if name in NOT_IN_SHARED_HEADERS]
    if "--list" in sys.argv[1:]:
        for name, count in counts.items():
            print(f"{name:24} {count:4} of {len(sources)} sources, limit {LIMITS[name]}")
    for failure in failures:
        print("include_reach: " + failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
