"""Groups of a results file as tables: pandas and xarray, by one reading of the columns."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from vindex._hdf5 import File
from vindex._text import without_secrets

if TYPE_CHECKING:
    import xarray as xr

# Columns that say what a row is, in this order, before its numbers.
_FIRST = (
    "tensor", "tensor_a", "tensor_b", "name", "stored", "slice", "layer", "expert", "block",
    "role", "shard", "rows", "cols", "shape", "encoding", "encoding_a", "encoding_b", "status",
    "reason", "method", "escalated",
)  # fmt: skip
_CATEGORIES = frozenset({"block", "role"})
# Without which a table of matrices is none.
_REQUIRED = frozenset(
    {"tensor", "slice", "layer", "block", "role", "rows", "cols", "status", "reason"}
)
# Axes whose values become columns of their own, as in `vindex export --format csv`.
_SPREAD = frozenset({"k", "angle", "threshold"})
# Groups that are no tables of rows.
_NO_TABLES = frozenset({"run", "resume", "spectra", "vectors"})


@dataclass(frozen=True)
class Table:
    """Where a table is and how its rows are counted."""

    group: str  # "matrix"
    index: str  # the dataset that numbers its rows: "matrix", "entry", "group", "pair"
    length: int


def table_names(file: File) -> list[str]:
    return [name for name in file.groups() if name not in _NO_TABLES]


def find_table(file: File, group: str) -> Table:
    """The table of `group` and the dimension scale that its rows are along.

    Raises:
        Error: E-RESULTS-SCHEMA (65) where it has none.
    """
    names = file.datasets(group)
    for name in (group, "group", "entry", "matrix", "pair", "shape"):
        if name in names:
            dataset = file.dataset(f"{group}/{name}")
            if dataset.ndim == 1 and dataset.is_scale and dataset.dtype.kind == "i":
                return Table(group, name, int(dataset.shape[0]))
    raise file.error("E-RESULTS-SCHEMA", f"{group} has no column that numbers its rows")


def order_of(name: str) -> tuple[int, str, int, str]:
    """Identifying columns first; then by name, a null beside its metric, k by number."""
    if name in _FIRST:
        return _FIRST.index(name), "", 0, ""
    plain = re.sub(r"(?<=at_)\d+", "", name)
    number = re.search(r"(?<=at_)\d+", name)
    return len(_FIRST), plain, int(number[0]) if number else 0, name


def spread_name(name: str, dimension: str, value: Any) -> str:
    """`var_at_k_null` at k = 64 is `var_at_64_null`; `angles_left` at 2 is `angles_left_2`."""
    if dimension == "k" and re.search(r"_k(?=_|$)", name):
        return re.sub(r"_k(?=_|$)", f"_{value}", name, count=1)
    return f"{name}_{value:g}" if isinstance(value, float) else f"{name}_{value}"


def read_column(file: File, table: Table, name: str) -> npt.NDArray[Any] | pd.Categorical:
    """Read column `name` of every row.

    Texts are an object array, flags and names categories, integers with a declared missing value
    float64 with NaN.

    Raises:
        Error: E-RESULTS-SCHEMA (65) where it has another number of rows than the table.
    """
    place = f"{table.group}/{name}"
    dataset = file.dataset(place)
    if dataset.ndim == 0 or dataset.shape[0] != table.length:
        raise file.error("E-RESULTS-SCHEMA", f"{place}: another number of rows than its table")
    if dataset.dtype.kind == "O":
        texts = np.array([*file.texts(place), None], dtype=object)[:-1]
        if dataset.ndim > 1:
            raise file.error("E-RESULTS-SCHEMA", f"{place}: unexpected rank")
        return categories_of(texts) if name in _CATEGORIES else texts
    values = file.rows(place)
    meanings = file.attribute(place, "flag_meanings")
    if meanings is not None:
        return _flags(file, place, values, str(meanings).split())
    missing = file.attribute(place, "_FillValue")
    if missing is not None and values.dtype.kind == "i":
        fill = np.ravel(missing)
        if fill.size != 1:
            raise file.error("E-RESULTS-SCHEMA", f"{place}: its missing value is no number")
        return np.where(values == fill[0], np.nan, values.astype(np.float64))
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def categories_of(texts: npt.NDArray[Any]) -> pd.Categorical:
    """Categories in the order in which they appear: in a results file, that of its schema."""
    codes, names = pd.factorize(texts)
    return pd.Categorical.from_codes(codes, categories=pd.Index(names))


def _flags(file: File, place: str, values: npt.NDArray[Any], names: list[str]) -> pd.Categorical:
    known = file.attribute(place, "flag_values")
    numbers = np.arange(len(names)) if known is None else np.ravel(known)
    if len(numbers) != len(names) or len(set(names)) != len(names):
        raise file.error("E-RESULTS-SCHEMA", f"{place}: its flags and their meanings do not agree")
    codes: npt.NDArray[np.int64] = np.full(values.shape, -1, dtype=np.int64)
    for code, number in enumerate(numbers):
        codes[values == number] = code
    if (codes < 0).any():
        raise file.error("E-RESULTS-SCHEMA", f"{place}: a value without a meaning")
    return pd.Categorical.from_codes(codes, categories=pd.Index(names))


def read_frame(file: File, group: str) -> pd.DataFrame:
    """Read the table of `group`, indexed by the number of the row in the file.

    Arrays of more axes than a table has are left out; `read_dataset` has them. Of columns whose
    integers may be missing, `attrs["integers"]` has the type in the file.
    """
    table = find_table(file, group)
    columns: dict[str, Any] = {}
    integers: dict[str, str] = {}
    for name in file.datasets(group):
        dataset = file.dataset(f"{group}/{name}")
        if name == table.index or dataset.ndim == 0 or dataset.ndim > 2:
            continue
        dimensions = file.dimensions(f"{group}/{name}")
        if dimensions[0] != table.index:
            continue  # a scale of another axis
        values = read_column(file, table, name)
        if dataset.ndim == 1:
            columns[name] = values
            if dataset.dtype.kind == "i" and getattr(values, "dtype", None) == np.float64:
                integers[name] = dataset.dtype.newbyteorder("=").name
        elif dimensions[1] in _SPREAD:
            scale = file.rows(f"{group}/{dimensions[1]}")
            if scale.shape != dataset.shape[1:]:
                raise file.error("E-RESULTS-SCHEMA", f"{group}/{name}: not along its scale")
            for position, value in enumerate(scale.tolist()):
                columns[spread_name(name, dimensions[1], value)] = np.asarray(values)[:, position]
    if group in ("matrix", "imatrix", "product") and (absent := _REQUIRED - columns.keys()):
        raise file.error("E-RESULTS-SCHEMA", f"{group} has no {', '.join(sorted(absent))}")
    index = pd.RangeIndex(table.length, name=table.index)
    ordered = {name: columns[name] for name in sorted(columns, key=order_of)}
    frame: pd.DataFrame = pd.DataFrame(ordered, index=index)
    frame.attrs["integers"] = integers
    return frame


def read_dataset(file: File, group: str) -> xr.Dataset:
    """Read the table of `group` with all its arrays along named dimensions.

    What identifies a row are coordinates.
    """
    import xarray as xr  # takes longer to load than many files take to read

    table = find_table(file, group)
    variables: dict[str, Any] = {}
    coordinates: set[str] = set()
    for name in file.datasets(group):
        place = f"{group}/{name}"
        dataset = file.dataset(place)
        dimensions = file.dimensions(place)
        attributes = {
            key: text
            for key in ("long_name", "units")
            if (text := file.attribute(place, key)) is not None
        }
        if dimensions[0:1] != (table.index,):
            values: Any = file.rows(place)
        else:
            values = read_column(file, table, name)
            if isinstance(values, pd.Categorical):
                values = np.asarray(values, dtype=object)
        variables[name] = (dimensions, values, attributes)
        named = file.attribute(place, "coordinates")
        coordinates.update(str(named).split() if named is not None else ())
        if dataset.is_scale:
            coordinates.add(name)
    try:
        found = xr.Dataset(variables, attrs=dict(file.attributes))
    except ValueError as failure:
        raise file.error(
            "E-RESULTS-SCHEMA", f"{group}: its columns do not fit together"
        ) from failure
    named = [name for name in variables if name in coordinates]
    with_coordinates: xr.Dataset = found.set_coords(named)
    return with_coordinates


def read_arrays(file: File) -> xr.Dataset:
    """The arrays at the root, which belong to no table: `/cka` and its kind."""
    import xarray as xr

    variables = {name: (file.dimensions(name), file.rows(name)) for name in file.datasets("/")}
    scales = [name for name, (dimensions, _) in variables.items() if dimensions == (name,)]
    arrays: xr.Dataset = xr.Dataset(variables).set_coords(scales)
    return arrays


def read_run(file: File) -> dict[str, Any]:
    """The JSON texts below `/run`, parsed."""
    run: dict[str, Any] = {}
    for name in file.datasets("run"):
        text = file.texts(f"run/{name}")
        try:
            run[name] = json.loads(without_secrets(text[0]))
        except (ValueError, IndexError, RecursionError) as failure:
            raise file.error("E-RESULTS-SCHEMA", f"run/{name} is no JSON text") from failure
    return run
