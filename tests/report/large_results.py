#!/usr/bin/env python3
"""Makes a results file of a large mixture of experts that nobody measured: rows and spectra of a
small file, repeated under other names with scattered numbers.

    large_results.py SMALL.h5 OUT.h5 [--layers 60] [--experts 384] [--length 2048]

Every layer has three matrices for each expert (gate_proj, up_proj, down_proj): 69,120 rows by
default. Numbers scatter by a tenth, so that they compress no better than measured ones. Spectra are those
of SMALL's routed experts, stretched to --length values.
"""
import argparse
import hashlib

import h5py
import numpy as np

ROLES = ("gate_proj", "up_proj", "down_proj")


def digest(texts):
    return hashlib.sha256(b"".join(text.encode() + b"\0" for text in texts)).hexdigest()


def chosen_rows(small, layers, experts):
    """For every new row: the row of `small` that it repeats, its layer, expert and role."""
    block = small["matrix/block"].asstr()[:]
    role = small["matrix/role"].asstr()[:]
    sources, identity = [], []
    templates = {name: np.flatnonzero((block == "routed_expert") & (role == name)) for name in ROLES}
    for layer in range(1, layers + 1):
        for name in ROLES:
            for expert in range(experts):
                sources.append(templates[name][(layer * 7 + expert) % len(templates[name])])
                identity.append((layer, expert, name))
    return np.array(sources), identity


def text_of(column, row, texts):
    layer, expert, role = row
    if column == "tensor":
        return f"model.layers.{layer}.mlp.experts.{expert}.{role}.weight"
    return texts[column]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("small")
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, default=60)
    parser.add_argument("--experts", type=int, default=384)
    parser.add_argument("--length", type=int, default=2048)
    arguments = parser.parse_args()
    random = np.random.default_rng(7)
    with h5py.File(arguments.small) as small, h5py.File(arguments.out, "w", libver=("earliest", "v110")) as out:
        for name, value in small.attrs.items():
            if name != "attributes_sha256":
                out.attrs[name] = value
        sources, identity = chosen_rows(small, arguments.layers, arguments.experts)
        count = len(sources)
        for name in ("matrices_total", "matrices_measured"):
            out.attrs[name] = np.int64(count)
        small.copy("run", out)
        out.create_group("tensor")
        matrix = out.create_group("matrix")
        for name, data in small["matrix"].items():
            options = {"chunks": True, "compression": 1, "shuffle": True}
            if h5py.check_string_dtype(data.dtype):
                old = data.asstr()[:]
                texts = [text_of(name, row, {name: old[source]}) for row, source in zip(identity, sources)]
                if name == "role":
                    texts = [row[2] for row in identity]
                made = matrix.create_dataset(name, data=texts, dtype=h5py.string_dtype())
                made.attrs["sha256"] = digest(texts)
                continue
            if name in ("matrix", "k"):
                made = matrix.create_dataset(name, data=np.arange(count) if name == "matrix" else data[:])
                continue
            values = data[:][sources]
            if name in ("layer", "expert"):
                values = np.array([row[0 if name == "layer" else 1] for row in identity], values.dtype)
            elif name in ("rows", "cols"):
                wide = arguments.length * 7 // 2
                is_down = np.array([row[2] == "down_proj" for row in identity])
                values = np.where(is_down == (name == "rows"), wide, arguments.length).astype(values.dtype)
            elif values.dtype == np.float64 and not name.endswith("_null"):
                values = values * np.exp(0.1 * random.standard_normal(values.shape))
            elif values.dtype == np.float64:
                values = np.broadcast_to(values[0], values.shape)
            elif name.startswith(("rank_", "mp_", "pl_")):
                values = np.where(values < 0, values, np.round(values * 8 * np.exp(0.1 * random.standard_normal(values.shape)))).astype(values.dtype)
            made = matrix.create_dataset(name, data=values, **options)
            for key, attribute in data.attrs.items():
                if key not in ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME", "sha256", "attributes_sha256"):
                    made.attrs[key] = attribute
        write_spectra(small, out, sources, arguments.length, random)


def write_spectra(small, out, sources, length, random):
    spectra = {}
    for group in small["spectra"].values():
        for sigma, row in zip(group["sigma"][:], group["matrix"][:]):
            spectra[row] = sigma
    count = len(sources)
    group = out.create_group(f"spectra/p{length}")
    group.create_dataset("matrix", data=np.arange(count, dtype=np.int64))
    step = max(1, (512 << 10) // (8 * length))
    sigma = group.create_dataset("sigma", (count, length), "f8", chunks=(min(step, count), length),
                                 shuffle=True, compression=1, fletcher32=True)
    place = np.linspace(0, 1, length)
    for first in range(0, count, 64 * step):
        block = [np.exp(np.interp(place, np.linspace(0, 1, len(spectra[row])), np.log(np.maximum(spectra[row], 1e-12))))
                 for row in sources[first:first + 64 * step]]
        block = np.array(block) * np.exp(1e-1 * random.standard_normal((len(block), 1)))
        block *= np.exp(1e-2 * random.standard_normal(block.shape))
        sigma[first:first + len(block)] = -np.sort(-block, axis=1)


if __name__ == "__main__":
    main()
