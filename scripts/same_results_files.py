"""Owns how scripts/same_results.py compares what two programs wrote: HDF5 files object by object and bit for bit, texts line by
line, other files by SHA-256. What is left out of the comparison stands in the tables here, with the reason."""

import hashlib
import os
import re

import h5py
import numpy as np

# Of texts: (expression, reason). What it matches counts as equal.
LEFT_OUT_OF_TEXTS = [(re.compile(expression, re.M), reason) for expression, reason in (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "when it ran"),
    (r'"\w*(seconds|mb_s|rate_per_second)": ?(null|[-+.e\d]+)', "how long it took"),
    (r"^(time: |expected time  ).*$|\b[\d.]+ (s|[kMGT]?B/s)(?= *[|,;:)]|$)", "how long it took"),
    (r"^(\| model \| MB \| seconds \|.*\n.*\n)(\|.*\n)+", "how long it took"),
    (r"\bread [\d.]+ [kMGT]?B at .*\n(  .*\n)*", "how long it took, and what was in the system's file cache"),
    (r'^(.*\bETA\b.*|\{"event":"progress".*)\n', "progress: as many lines as it took time"),
    (r'"(direct|cached|buffered|unknown)_bytes": ?\d+|"preferred": ?"(direct|file cache)"', "what was in the system's file cache"),
    (r'"ram_budget_bytes": ?\d+|[\d.]+ [MG]iB allowed', "what memory is free"),
    (r'"version": ?"\d+:\d+"|modified \d+', "the age of a file"),
    (r'"(version|commit|compiler)": ?"[^"]*"|^vindex [\d.]+ \(.*\)$', "which program it is"),
    (r"vindex [\d.]+ \([0-9a-f]+(-dirty)?\)", "which program wrote a model: it says so in other files too"),
)]
# Of HDF5 files: (path, or path@attribute, reason).
LEFT_OUT_OF_HDF5 = [
    ("/run/command@sha256", "digest of a text with a time"),
    ("/run/settings@sha256", "digest of a text with the free memory"),
    ("/run/inputs@sha256", "digest of a text with the age of files"),
    ("/run/environment@sha256", "digest of a text with the version"),
    ("/resume/fingerprint_value@sha256", "digest of a text with the age of files"),
]
# Of texts in HDF5 files only these may hold what LEFT_OUT_OF_TEXTS matches; every other text is compared as it is.
HDF5_TEXTS_OF_RUNS = ("/run/", "/resume/fingerprint_value", "@history")
# Of files, by the end of a folder's or file's name.
LEFT_OUT_FILES = [
    (".parts", "names are drawn and rows are divided by time; what is merged from them is compared"),
]
TEXT_FILES = (".csv", ".err", ".json", ".md", ".out", ".txt")


def without(text, folders):
    """The text without what is left out; `folders`: path -> what stands in its place."""
    for folder, name in folders.items():
        text = text.replace(folder, name)
    for expression, _ in LEFT_OUT_OF_TEXTS:
        text = expression.sub("", text)
    return text


def text_differences(old, new):
    """The first line that differs."""
    if old == new:
        return []
    a, b = old.splitlines(), new.splitlines()
    row = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    lines = [repr(side[row][:160]) if row < len(side) else "no such line" for side in (a, b)]
    return [f"line {row + 1}: {lines[0]} | {lines[1]}"]


def file_digest(path):
    """Of all bytes but the writing program's name of itself, which models of it carry."""
    with open(path, "rb") as file:
        return hashlib.sha256(re.sub(rb"vindex [\d.]+ \([0-9a-f]+(-dirty)?\)", b"", file.read())).hexdigest()


def names_by_address(file):
    """Of every object: libhdf5 looks for a reference's name through the whole file, each time."""
    found = {}
    h5py.h5o.visit(file.id, lambda name, info: found.setdefault(info.addr, "/" + name.decode()) and None, info=True)
    return found


def plain(value, file, name, names):
    """A value of HDF5 as something that `==` compares bit for bit: references as the `names` that they point to."""
    if isinstance(value, h5py.Reference):
        return names[h5py.h5o.get_info(h5py.h5r.dereference(value, file.id)).addr] if value else "nothing"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if isinstance(value, str):
        return without(value, {}) if any(part in name for part in HDF5_TEXTS_OF_RUNS) else value
    if isinstance(value, h5py.Empty):
        return "empty"
    if isinstance(value, np.ndarray) and value.dtype.hasobject or isinstance(value, (np.void, list, tuple)):
        return [plain(item, file, name, names) for item in value]
    return np.asarray(value).tobytes()


def described(type_id):
    """A type of HDF5 in words: class, size, order, sign or character set."""
    parts = [type_id.get_class(), type_id.get_size()]
    if isinstance(type_id, h5py.h5t.TypeStringID):
        parts += [type_id.is_variable_str(), type_id.get_cset(), type_id.get_strpad()]
    return parts


def objects_of(file):
    """Every object and attribute by name, each as a list of (what, value)."""
    found, names = {}, names_by_address(file)

    def attributes(name, item):
        for key in item.attrs:
            full = f"{name}@{key}"
            stored = item.attrs.get_id(key)
            found[full] = [("type", described(stored.get_type())), ("shape", stored.shape),
                           ("value", plain(item.attrs[key], file, full, names))]

    def visit(name, item):
        name = "/" + name
        attributes(name, item)
        if not isinstance(item, h5py.Dataset):
            found[name] = [("kind", "group")]
            return
        storage = item.id.get_create_plist()
        filters = [storage.get_filter(i)[0::2] for i in range(storage.get_nfilters())]
        found[name] = [("kind", "dataset"), ("type", (described(item.id.get_type()), str(item.dtype))), ("shape", item.shape),
                       ("largest shape", item.maxshape), ("chunks", item.chunks), ("filters", repr(filters)),
                       ("fill value", None if item.dtype.hasobject else plain(item.fillvalue, file, name, names)), ("values", plain(item[()], file, name, names))]

    attributes("", file)
    file.visititems(visit)
    return found


def value_difference(old, new):
    """How many parts of two unequal values differ."""
    if isinstance(old, str) and isinstance(new, str):
        return text_differences(old, new)[0]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        unequal = [i for i, (a, b) in enumerate(zip(old, new)) if a != b]
        return f"{len(unequal)} of {len(old)} differ, first at {unequal[0]}"
    if isinstance(old, bytes) and isinstance(new, bytes) and len(old) == len(new):
        unequal = np.nonzero(np.frombuffer(old, "u1") != np.frombuffer(new, "u1"))[0]
        return f"{len(unequal)} of {len(old)} bytes differ, first at byte {unequal[0]}"
    return f"{str(old)[:80]} | {str(new)[:80]}"


def read_objects(path):
    with h5py.File(path) as file:
        return objects_of(file)


def hdf5_differences(old_path, new_path):
    """What differs between two HDF5 files, but for LEFT_OUT_OF_HDF5."""
    return object_differences(read_objects(old_path), read_objects(new_path))


def object_differences(old, new):
    """The same of what read_objects() found in two files."""
    found = [f"{name or '/'} only in {'OLD' if name in old else 'NEW'}" for name in sorted(old.keys() ^ new.keys())]
    for name in sorted(old.keys() & new.keys()):
        if name not in (left_out for left_out, _ in LEFT_OUT_OF_HDF5) and old[name] != new[name]:
            a, b = dict(old[name]), dict(new[name])
            what = next(key for key in a if a[key] != b.get(key))
            found.append(f"{name}: {what}: {value_difference(a[what], b.get(what))}")
    return found


def file_differences(old_path, new_path, old_folders, new_folders):
    """What differs between two files, by the kind that their name tells."""
    if old_path.endswith(".h5"):
        return hdf5_differences(old_path, new_path) if h5py.is_hdf5(old_path) and h5py.is_hdf5(new_path) else (
            [] if file_digest(old_path) == file_digest(new_path) else ["bytes"])
    if old_path.endswith(TEXT_FILES):
        with open(old_path, "rb") as old, open(new_path, "rb") as new:
            return text_differences(*(without(file.read().decode("utf-8", "surrogateescape"), folders)
                                      for file, folders in ((old, old_folders), (new, new_folders))))
    return [] if file_digest(old_path) == file_digest(new_path) else ["bytes: SHA-256 " + " | ".join(map(file_digest, (old_path, new_path)))]


def files_below(folder):
    """Paths of files relative to `folder`, without LEFT_OUT_FILES."""
    found = set()
    for place, folders, names in os.walk(folder):
        kept = [name for name in folders + names if not name.endswith(tuple(end for end, _ in LEFT_OUT_FILES))]
        folders[:] = [name for name in folders if name in kept]
        found |= {os.path.relpath(os.path.join(place, name), folder) for name in names if name in kept}
    return found


def folder_differences(old_folder, new_folder, old_folders=None, new_folders=None):
    """What differs between two folders of outputs. `..._folders`: paths that texts may hold -> what stands in their place."""
    old, new = files_below(old_folder), files_below(new_folder)
    found = [f"{name} only from {'OLD' if name in old else 'NEW'}" for name in sorted(old ^ new)]
    for name in sorted(old & new):
        paths = os.path.join(old_folder, name), os.path.join(new_folder, name)
        found += [f"{name}: {what}" for what in file_differences(*paths, old_folders or {}, new_folders or {})]
    return found
