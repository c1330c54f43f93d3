"""A page of 69,120 matrices in a browser: parts, cells and table are those of the file, nothing overlaps. How long it took to write, to first
paint and to draw all of it is printed, and recorded where a file is named: times are not judged. Usage: large_in_browser.py VINDEX FOLDER
[RECORD.json]."""

import json
import os
import resource
import sys
import time

import h5py
import numpy as np

import browser as chrome
from page_layout import require_layout
from test_script import call, fresh_folder

VINDEX, FOLDER = sys.argv[1:3]
RECORD = sys.argv[3] if len(sys.argv) > 3 else None
MOST_BYTES = 10_000_000

PAINT = """() => new Promise((done) => {
  const first = () => performance.getEntriesByType("paint").find((one) => one.name === "first-contentful-paint");
  const wait = () => (first() ? done(first().startTime) : requestAnimationFrame(wait));
  wait();
})"""


def written(large, out):
    """The page, and what it took."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    call(VINDEX, "report", large, "-o", out, "-q")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"page_bytes": os.path.getsize(out), "seconds_to_write": round(time.monotonic() - begun, 2),
        "processor_seconds_to_write": round(processor, 2)}


def require_cells(watched, large):
    cells = watched.marks("overview", "overview", "cell")[0]
    with h5py.File(large) as file:
        matrix = file["matrix"]
        role, layer, share = matrix["role"].asstr()[:], matrix["layer"][:], matrix["var_at_k"][:, 6]
    assert len(cells) == len(set(zip(layer, role))), f"#overview: {len(cells)} cells"
    for cell in cells[:20]:
        wanted = np.median(share[(layer == cell["layer"]) & (role == cell["role"])])
        assert abs(cell["median"] - wanted) <= 2e-3 * wanted, (cell, wanted)
    return len(layer)


def main():
    fresh_folder(FOLDER)
    chrome.chromium()
    model, small, large, out = (os.path.join(FOLDER, name) for name in ("model", "small.h5", "large.h5", "large.html"))
    call(VINDEX, "synth", "kimi-k2-mini", "-o", model, "-q")
    call(VINDEX, "measure", model, "-o", small, "-q")
    call(sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "large_results.py"), small, large, "--length", "512")
    figures = written(large, out)
    with chrome.browser() as started:
        with chrome.opened(started, out) as watched:
            figures["first_paint_seconds"] = round(watched.page.evaluate(PAINT) / 1000, 2)
            begun = time.monotonic()
            watched.draw_all()
            figures["all_parts_seconds"] = round(time.monotonic() - begun, 2)
            chrome.require_ids(watched.page)
            count = require_cells(watched, large)
            assert watched.page.locator("#table .rows").get_attribute("aria-rowcount") == str(count + 1)
            shown = watched.page.evaluate("() => document.querySelectorAll('#table .space .row').length")
            assert 0 < shown < 200, f"#table: {shown} rows are elements"
            require_layout(watched, "large at 1280")
            watched.page.locator("#table input:not([type=checkbox])").first.fill("layers.37.mlp.experts.211.up_proj")
            watched.page.wait_for_function("() => document.querySelector('#table .rows').getAttribute('aria-rowcount') === '2'")
        with chrome.opened(started, out, width=390) as watched:
            watched.draw_all()
            require_layout(watched, "large at 390")
    os.remove(large)
    print(json.dumps(figures))
    if RECORD:
        with open(RECORD, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)
    assert figures["page_bytes"] <= MOST_BYTES, f"the page has {figures['page_bytes']} bytes"


main()
