"""Pages of files of compare, experts, cka and routing in a browser: cells, lines and nulls are those that h5py reads, nothing overlaps, all
is reached by keyboard, any mix of files makes one page. Usage: kind_pages.py VINDEX FOLDER."""

import sys

import h5py
import numpy as np

import browser as chrome
import page_kinds
from page_layout import require_every_width, require_keyboard, require_layout
from kind_files import Maker
from test_script import call, fresh_folder

VINDEX, FOLDER = sys.argv[1:3]


FILES = Maker(VINDEX, FOLDER)
path_of = FILES.path_of


def wide_experts(count):
    """A file of more experts than a grid has cells a side, independent noise."""
    call(VINDEX, "synth", f"layer:{count}x16x12:bf16", "-o", path_of("wide"), "-q")
    call(VINDEX, "experts", path_of("wide"), "-o", path_of("wide.h5"), "-q")
    return path_of("wide.h5")


def require_wide(started, path):
    """Every cell is the pair of its block that is farthest from the null."""
    out = path_of("wide.html")
    call(VINDEX, "report", path, "-o", out, "-q")
    with h5py.File(path) as file:
        values, null = file["group/cosine"][0].astype(float), float(file["group/cosine_null"][0])
    np.fill_diagonal(values, np.nan)
    side = len(values)
    step = -(-side // 72)
    with chrome.opened(started, out) as watched:
        watched.draw_all()
        marks = page_kinds.marks_of(watched, "experts-similarity", "Every two experts", "cell_mark")
        assert len(marks) == (-(-side // step)) ** 2, (len(marks), side, step)
        for mark in marks:
            block = values[mark["y"]:mark["y"] + step, mark["x"]:mark["x"] + step]
            farthest = np.nanmax(np.abs(block - null))
            assert abs(abs(mark["value"] - null) - farthest) <= 2e-4 * farthest + 1e-9, (mark, farthest)
            assert abs(values[mark["i"], mark["j"]] - mark["value"]) <= 2e-4 * abs(mark["value"]) + 1e-9, mark
        # Experts of noise: nearly all cells are within what it gives the farthest of four.
        noise = sum(mark["state"] == "noise" for mark in marks)
        assert 0.85 * len(marks) < noise < len(marks), f"{noise} of {len(marks)} cells are called noise"
        require_every_width(watched, "wide")


def main():
    fresh_folder(FOLDER)
    chrome.chromium()
    files = FILES.make_files()
    with chrome.browser() as started:
        for name, kind in files.items():
            out = path_of(name[:-3] + ".html")
            call(VINDEX, "report", path_of(name), "-o", out, "-q")
            with chrome.opened(started, out) as watched:
                watched.draw_all()
                chrome.require_ids(watched.page, [kind])
                print(name, "cells:", page_kinds.REQUIRE[kind](watched, path_of(name)))
        require_wide(started, wide_experts(100))
        mixed, kinds = path_of("mixed.html"), sorted(set(files.values()))
        call(VINDEX, "report", path_of("one.h5"), *map(path_of, files), "-o", mixed, "-q")
        chrome.require_no_address(mixed)
        for width in (1280, 390):
            for dark in (False, True):
                with chrome.opened(started, mixed, width=width, dark=dark) as watched:
                    watched.draw_all()
                    chrome.require_ids(watched.page, kinds)
                    chrome.require_policy(watched.page)
                    require_layout(watched, f"mixed at {width}, {'dark' if dark else 'light'}")
                    if width == 1280 and not dark:
                        print("charts by keyboard:", require_keyboard(watched, "mixed"))
                        require_every_width(watched, "mixed")


main()
