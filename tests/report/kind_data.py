"""What pages of compare, experts, cka, routing and activations hold, unpacked as page_values.hpp says, is what h5py reads: every column, every
array of a row, the tables beside. No browser is needed. Usage: kind_data.py VINDEX FOLDER."""

import base64
import json
import os
import re
import sys
import zlib

import h5py
import numpy as np

from kind_files import Maker
from test_script import call, fresh_folder

VINDEX, FOLDER = sys.argv[1:3]
TABLES = {"compare": "pair", "experts": "group", "cka": "layer", "routing": "layer", "activations": "layer"}
TYPES = {"f32": "<f4", "i32": "<i4", "u16": "<u2"}


def blocks(path):
    """{(file, block): document} of a page."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = re.findall(r'<script type="application/json" id="data-(\d+)-([\w-]+)">(.*?)</script>', text, flags=re.S)
    return {(int(index), name): json.loads(document) for index, name, document in found}


def numbers(packed):
    """A list of numbers; NaN where there is none."""
    if isinstance(packed, list):
        return np.array([np.nan if value is None else value for value in packed], dtype=float)
    planes = zlib.decompress(base64.b64decode(packed["z"]))
    size = np.dtype(TYPES[packed["t"]]).itemsize
    values = np.frombuffer(np.frombuffer(planes, dtype=np.uint8).reshape(size, packed["n"]).T.tobytes(), dtype=TYPES[packed["t"]])
    return np.where(values == -2**31, np.nan, values.astype(float)) if packed["t"] == "i32" else values.astype(float)


def texts(packed):
    return [packed["texts"][int(place)] for place in numbers(packed["at"])]


def names(packed, layer, expert):
    return [text.replace("\1", str(int(a))).replace("\2", str(int(b))) for text, a, b in zip(texts(packed), layer, expert)]


def same(found, wanted, what, tolerance=1e-7):
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    assert found.shape == wanted.shape, f"{what}: {found.shape}, the file has {wanted.shape}"
    assert (np.isnan(found) == np.isnan(wanted)).all(), f"{what}: NaN elsewhere than in the file"
    off = np.abs(found - wanted) > tolerance * np.abs(wanted) + 1e-45
    assert not off.any(), f"{what}: {found[off][:3]}, the file has {wanted[off][:3]}"


def require_columns(main, table):
    count = main["count"]
    layer = numbers(main["columns"]["layer"]["values"])
    expert = numbers(main["columns"]["expert"]["values"]) if "expert" in main["columns"] else np.full(count, -1)
    compared = 0
    for name, column in main["columns"].items():
        dataset = table[name]
        if "names" in column:
            assert names(column["names"], layer, expert) == list(dataset.asstr()[:]), name
        elif "texts" in column and name != "status":
            assert texts(column["texts"]) == list(dataset.asstr()[:]), name
        elif "texts" in column:
            meanings = dataset.attrs["flag_meanings"].split()
            assert texts(column["texts"]) == [meanings[value] for value in dataset[:]], name
        else:
            wanted = dataset[:].astype(float).reshape(count, -1)
            if "_FillValue" in dataset.attrs:
                wanted[wanted == -1] = np.nan
            width = column.get("width", 1)
            same(numbers(column["values"]).reshape(count, width), wanted[:, :width], name)
        compared += 1
    missing = {name for name, dataset in table.items() if dataset.shape[:1] == (count,) and dataset.ndim == 1} - set(main["columns"])
    assert not {name for name in missing if "CLASS" not in table[name].attrs}, f"columns left out: {missing}"
    return compared


def require_arrays(page, main, table, root):
    """Arrays of one scale in the main document, square ones in a block for each row."""
    compared = 0
    for name, packed in main["lists"].items():
        source = table[name] if name in table else root[name]
        same(numbers(packed["values"]).reshape(source.shape), source[:], name)
        compared += 1
    assert main["squares_of"] == len(main["squares_held"])
    for row in main["squares_held"]:
        block = page[0, f"row-{row}"]
        for name in main["squares"]:
            wanted = table[name][row].astype(float)
            if name not in block:
                assert np.isnan(wanted).all(), f"{name} of row {row} is left out"
                continue
            values = numbers(block[name]["values"])
            if block[name]["triangle"]:
                found = np.full(wanted.shape, np.nan)
                found[np.triu_indices(len(wanted))] = values
                found = np.where(np.tri(len(wanted), k=-1, dtype=bool), found.T, found)
            else:
                found = values.reshape(wanted.shape)
            same(found, wanted, f"{name} of row {row}")
            compared += 1
    return compared


def require_beside(main, root):
    for table, columns in main["tables"].items():
        group = root[table]
        for name, values in columns.items():
            if name == "count":
                assert values == len(next(iter(group.values())))
            elif h5py.check_string_dtype(group[name].dtype):
                assert values == list(group[name].asstr()[:1000]), f"/{table}/{name}"
            else:
                same([np.nan if value is None else value for value in values], group[name][:1000], f"/{table}/{name}")
    for name, value in main["attributes"].items():
        wanted = root.attrs[name]
        assert value is None and np.isnan(wanted) or value == wanted or abs(value - wanted) <= 1e-12 * abs(wanted), f"{name}: {value}, the file has {wanted}"


def require_limit(files):
    """Square arrays beyond the limit stay in the file: those held are of the most similar experts, and the page says of how many."""
    model, path, out = files.path_of("many"), files.path_of("many.h5"), files.path_of("many.html")
    files.run("synth", "layer:700x8x6:bf16:trained", "-o", model)
    files.run("experts", model, "-o", path)
    files.run("report", path, "-o", out)
    main = blocks(out)[0, "main"]
    with h5py.File(path) as root:
        likeness = root["group/cosine_centred_max"][:]
    held = main["squares_held"]
    assert main["squares_of"] == len(likeness) == 3 and 0 < len(held) < 3, (held, main["squares_of"])
    assert set(held) == set(np.argsort(-likeness)[:len(held)]), (held, likeness)
    assert os.path.getsize(out) < 10e6
    return len(held)


def main():
    fresh_folder(FOLDER)
    files = Maker(VINDEX, FOLDER)
    for name, kind in files.make_files().items():
        out = files.path_of(name[:-3] + ".html")
        call(VINDEX, "report", files.path_of(name), "-o", out, "-q")
        page = blocks(out)
        document = page[0, "main"]
        assert document["kind"] == kind
        with h5py.File(files.path_of(name)) as root:
            table = root[TABLES[kind]]
            assert document["count"] == len(table["layer"])
            print(name, require_columns(document, table), "columns,", require_arrays(page, document, table, root), "arrays")
            require_beside(document, root)
    print("held of 3 groups:", require_limit(files))


main()
