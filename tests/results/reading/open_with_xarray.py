"""Every kind of results file opens as a tree of groups.

    open_with_xarray.py WRITE_SAMPLE FOLDER [FILE...]

Files are those that WRITE_SAMPLE writes into FOLDER, one of each kind, and FILE.
A dimension (the name of the scale of an axis) has one length in a group and in all groups above it,
as xarray.open_datatree asks for; where xarray has that function and an engine, the file opens.
"""
import os
import subprocess
import sys
import warnings

import h5py

KINDS = ["default", "fast", "weighted", "experts", "cka", "activations", "routing", "trace"]


def lengths_of(group):
    """Lengths of the dimensions of the datasets right in `group`, by name: a set for each."""
    found = {}
    for name, item in group.items():
        if not isinstance(item, h5py.Dataset):
            continue
        for axis, length in enumerate(item.shape):
            if item.is_scale:
                scale = name
            elif len(item.dims[axis]):
                scale = item.dims[axis][0].name.rsplit("/", 1)[-1]
            else:
                continue  # netCDF names such an axis by its length
            found.setdefault(scale, set()).add(length)
    return found


def conflicts(group, above, where=""):
    """Dimensions of several lengths along a path of groups."""
    own = lengths_of(group)
    known = {name: above.get(name, set()) | own.get(name, set()) for name in {*above, *own}}
    wrong = [f"{where or '/'}: {name} has lengths {sorted(known[name])}" for name in own if len(known[name]) > 1]
    for name, item in group.items():
        if isinstance(item, h5py.Group):
            wrong += conflicts(item, known, f"{where}/{name}")
    return wrong


def samples(write_sample, folder):
    os.makedirs(folder, exist_ok=True)
    for kind in KINDS:
        path = os.path.join(folder, kind + ".h5")
        if os.path.exists(path):
            os.remove(path)
        subprocess.run([write_sample, path, kind], check=True)
        yield path


def main(write_sample, folder, *more):
    wrong = []
    paths = [*samples(write_sample, folder), *more]
    for path in paths:
        with h5py.File(path) as file:
            wrong += [f"{path}: {line}" for line in conflicts(file, {})]
        try:
            import xarray
            import h5netcdf  # noqa: F401  # the engine
        except ImportError:
            continue
        if hasattr(xarray, "open_datatree"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of axes without a scale
                    xarray.open_datatree(path, engine="h5netcdf").close()
            except ValueError as error:
                wrong.append(f"{path}: {error}")
    print("\n".join(wrong) or f"{len(paths)} files, no dimension of two lengths")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
