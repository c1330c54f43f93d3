"""Names that would run, load or hide something if a page took them for anything but text: in a model's tensors, folders and keys, and in
every text of a results file that somebody else made. Nothing of them happens. Usage: hostile_names.py VINDEX FOLDER."""

import json
import os
import shutil
import struct
import sys

import h5py
import numpy as np

import browser as chrome
from page_layout import require_keyboard, require_layout
from page_marks import Measured
from page_table import table_rows
from test_script import call, fresh_folder

VINDEX, FOLDER = sys.argv[1:3]

NAMES = [
    "<script>globalThis.pwned = 1</script>.weight",
    "</script><script>globalThis.pwned = 2</script>.weight",
    "<!--<script>.weight",
    "]]>--></style><svg onload=globalThis.pwned=3>.weight",
    "\"><img src=x onerror=globalThis.pwned=4>.weight",
    "'><iframe srcdoc='<script>parent.pwned=5</script>'>.weight",
    "javascript:globalThis.pwned=6.weight",
    "${globalThis.pwned=7}{{script}}{{data}}.weight",
    "\u202egnp.thgiew\u2066.weight",
    "\x1b[31mred\x1b]0;title\x07.weight",
    "\u2028globalThis.pwned=8\u2029.weight",
    "__proto__.weight",
    "constructor.prototype.toString",
    "&lt;b&gt;&#60;script&#62;\\u003cscript\\u003e.weight",
    "model.layers.0.mlp.experts.1.<img src=x onerror=globalThis.pwned=9>.weight",
    "model.layers.0.mlp.experts.2.<img src=x onerror=globalThis.pwned=9>.weight",
    "model.layers.1.self_attn.\"onmouseover=globalThis.pwned=10 .weight",
    "datum.value === 1 ? alert(1) : url(http://127.0.0.1/x).weight",
    "n" * (65536 - 7) + ".weight",
]


def write_model(folder, seed):
    """A safetensors file with these names, 12 x 16 float32 each."""
    os.makedirs(folder)
    random, header, at, data = np.random.default_rng(seed), {}, 0, b""
    for name in NAMES:
        bytes_ = random.standard_normal((12, 16)).astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": [12, 16], "data_offsets": [at, at + len(bytes_)]}
        at, data = at + len(bytes_), data + bytes_
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def poison(path):
    """Texts that no program of ours writes, in every attribute and text of a file."""
    bad = "</script><img src=x onerror=globalThis.pwned=11>\x1b[31m\u202e"
    text = h5py.string_dtype("utf-8")
    with h5py.File(path, "r+") as file:
        for name in ("title", "history", "model", "model_b", "mode", "backend"):
            if name in file.attrs:
                file.attrs[name] = bad + name
        if "attributes_sha256" in file.attrs:
            del file.attrs["attributes_sha256"]
        for table in ("matrix", "pair"):
            for name in ("reason", "method", "encoding", "encoding_a", "encoding_b", "role") if table in file else ():
                if name in file[table]:
                    dataset = file[table][name]
                    dataset[:] = np.array([bad + name] * len(dataset), dtype=object)
                    dataset.attrs.pop("sha256", None)
        for name in ("command", "settings", "inputs", "environment", "config"):
            dataset = file["run"][name]
            value = json.dumps([{"path": bad, "sha256": bad, "uri": "http://127.0.0.1/x"}]) if name == "inputs" else json.dumps({"argv": bad,
                "started": bad, bad: bad})
            attributes = {key: value for key, value in dataset.attrs.items() if key != "sha256"}
            del file["run"][name]
            made = file["run"].create_dataset(name, data=value, dtype=text)
            made.attrs.update(attributes)


STATE = r"""() => {
  const clean = (text) => !/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(text);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), raw = [];
  while (walker.nextNode()) if (walker.currentNode.parentElement.tagName !== "SCRIPT" && !clean(walker.currentNode.data)) raw.push(walker.currentNode.data.slice(0, 60));
  const all = [...document.querySelectorAll("*")];
  return {
    pwned: String(globalThis.pwned), raw,
    elements: all.filter((one) => /^(img|iframe|object|embed|audio|video|form|base|link|meta|foreignobject|b:|image|animate|set|use)$/i.test(one.tagName))
      .filter((one) => !one.closest("head") && !one.matches("form.vega-bindings:empty")).map((one) => one.outerHTML.slice(0, 80)),
    scripts: all.filter((one) => one.tagName === "SCRIPT" && one.type !== "application/json").length,
    handlers: all.flatMap((one) => one.getAttributeNames().filter((name) => /^on/i.test(name))),
    links: all.flatMap((one) => ["href", "src", "xlink:href", "srcset",
        "action"].map((name) => one.getAttribute(name)).filter((value) => value && !/^(#|data:,)/.test(value))),
    styles: all.map((one) => one.getAttribute("style") ?? "").filter((style) => /url\(/.test(style)),
    fills: all.map((one) => one.getAttribute("fill") ?? "").filter((fill) => /url\((?!#hatch-)/.test(fill)),
  };
}"""


def require_nothing_happened(watched, what):
    state = watched.page.evaluate(STATE)
    wanted = {"pwned": "undefined", "raw": [], "elements": [], "scripts": 1, "handlers": [], "links": [], "styles": [], "fills": []}
    assert state == wanted, f"{what}: " + str({name: value for name, value in state.items() if value != wanted[name]})[:1500]


def look(started, files, what, kinds=(), measured=None):
    out = os.path.join(FOLDER, what + ".html")
    call(VINDEX, "report", *files, "-o", out, "-q")
    chrome.require_no_address(out, data=("http://127.0.0.1/x",))
    for width in (1280, 390):
        with chrome.opened(started, out, width=width) as watched:
            watched.draw_all()
            chrome.require_ids(watched.page, kinds)
            require_nothing_happened(watched, what)
            for mark in watched.page.locator(".chart").all()[:8]:  # tooltips hold names too
                mark.focus()
                watched.page.keyboard.press("ArrowRight")
            if measured:
                rows = table_rows(watched.page)
                assert len(rows) == measured.count == len(NAMES), f"{what}: {len(rows)} rows"
                shown = {row["tensor"] for row in rows}
                for name in NAMES:  # as they are, but for what is printed escaped
                    if name.isprintable() and len(name) < 60:
                        assert name in shown, f"{what}: {name} is not in the table"
            require_nothing_happened(watched, what + " after use")
            require_layout(watched, f"{what} at {width}")


def main():
    fresh_folder(FOLDER)
    chrome.chromium()
    strange = os.path.join(FOLDER, "<img src=x onerror=globalThis.pwned=12>")
    write_model(strange, 1)
    write_model(os.path.join(FOLDER, "other"), 2)
    one, two, pairs, strange_file = (os.path.join(FOLDER, name) for name in ("one.h5", "two.h5", "pairs.h5", "<script>alert(1)<.h5"))
    call(VINDEX, "measure", strange, "-o", one, "-q")
    call(VINDEX, "measure", os.path.join(FOLDER, "other"), "-o", two, "-q")
    call(VINDEX, "compare", strange, os.path.join(FOLDER, "other"), "-o", pairs, "-q", "--k", "2", "--delta")
    shutil.copy(one, strange_file)
    with chrome.browser() as started:
        look(started, [one], "one", measured=Measured(one))
        look(started, [one, strange_file, two], "side_by_side")
        look(started, [pairs], "pairs", ["compare"])
        poison(two)
        poison(pairs)
        look(started, [two, pairs], "poisoned", ["compare"])
    print(f"{len(NAMES)} names in four pages: nothing happened")


main()
