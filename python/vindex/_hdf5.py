"""Reading of results files that takes nothing in them for granted.

What is checked is what the program itself checks, with its error ids: links that lead out of the
file, layouts and filters that no results file has, sizes that the file cannot hold, numbers and
texts against their digests.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import math
import os
import stat
import weakref
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from vindex._text import printable, without_secrets
from vindex.errors import Error

# Schemas that this version reads, with the major version that it knows of each.
KNOWN_MAJOR = {
    "vindex-results": 1,
    "vindex-compare": 1,
    "vindex-experts": 1,
    "vindex-cka": 1,
    "vindex-activations": 1,
    "vindex-routing": 1,
    "vindex-trace": 1,
    "vindex-gate-vectors": 1,
}
_FILTERS = {h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_FLETCHER32}
_MOST_CHUNK_ELEMENTS = 1 << 27
_DEFLATE_AT_MOST = 1032  # bytes from one, by zlib's technical details
_SLACK_BYTES = 1 << 16
_MOST_SEARCHED = 1024  # chunks whose places are looked at: the library walks through all for each


class File:
    """A results file, open for reading.

    It stays what it was when it was opened: a run publishes by renaming a new file over it.
    """

    def __init__(self, path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> None:
        self.path = os.fsdecode(path)
        self.label = printable(self.path)
        self._file = _open(self.path, self.label)
        self._size = os.stat(self.path).st_size
        self._finalizer = weakref.finalize(self, self._file.close)
        self._checked: set[str] = set()
        self._sealed: set[str] = set()
        self._digests: dict[str, _Digest | None] = {}
        try:
            self.attributes = self._read_attributes()
            self.schema = self._check_schema()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """May be called again."""
        self._finalizer()

    @property
    def is_open(self) -> bool:
        return bool(self._finalizer.alive)

    def groups(self, parent: str = "/") -> list[str]:
        """Names of the groups right below `parent`; none where there is no such group."""
        return [name for name in self._names(parent) if not self._is_dataset(parent, name)]

    def datasets(self, parent: str) -> list[str]:
        """Names of the datasets right below `parent`."""
        return [name for name in self._names(parent) if self._is_dataset(parent, name)]

    def dataset(self, name: str) -> h5py.Dataset:
        """Dataset `name`, checked to be one that a results file can have.

        Raises:
            Error: E-RESULTS-SCHEMA, E-RESULTS-LAYOUT, E-RESULTS-LINK (65).
        """
        with self._reading(name):
            if name in self._checked and self.is_open:
                return self._file[name]
            dataset = self._follow(name)
            if not isinstance(dataset, h5py.Dataset):
                raise self.error("E-RESULTS-SCHEMA", f"{printable(name)} is missing")
            self._check(name, dataset)
            self._checked.add(name)
            return dataset

    def rows(self, name: str, first: int = 0, count: int | None = None) -> npt.NDArray[Any]:
        """Numbers of dataset `name`, rows `first` to `first + count`.

        They are compared with the digest of their blocks where the dataset has one; of an older
        file, the chunks are counted.

        Raises:
            Error: E-RESULTS-DATA (65) where they are not what was written.
        """
        dataset = self.dataset(name)
        if h5py.check_string_dtype(dataset.dtype) is not None or dataset.ndim == 0:
            raise self.error("E-RESULTS-SCHEMA", f"{printable(name)}: unexpected data type")
        with self._reading(name):
            values: npt.NDArray[Any] = dataset[first : None if count is None else first + count]
            self._verify(name, dataset, first, values)
            return values

    def texts(self, name: str) -> list[str]:
        """Strings of dataset `name`, verified against its digest where it has one."""
        dataset = self.dataset(name)
        if h5py.check_string_dtype(dataset.dtype) is None:
            raise self.error("E-RESULTS-SCHEMA", f"{printable(name)}: unexpected data type")
        with self._reading(name):
            raw = [dataset[()]] if dataset.ndim == 0 else self._raw_texts(name, dataset)
            digest = dataset.attrs.get("sha256")
        texts = [text if isinstance(text, bytes) else str(text).encode() for text in raw]
        if digest is not None and digest != sha256_of(texts):
            raise self.error("E-RESULTS-DATA", f"{printable(name)}: its texts are damaged")
        return [text.decode("utf-8", "backslashreplace") for text in texts]

    def _verify(
        self, name: str, dataset: h5py.Dataset, first: int, values: npt.NDArray[Any]
    ) -> None:
        if name not in self._digests:
            text = dataset.attrs.get("sha256")
            self._digests[name] = None if text is None else _Digest.of(str(text), dataset)
            if text is None:
                _require_chunks(dataset)
        digest = self._digests[name]
        if digest is not None and values.size:
            digest.check(dataset, first, values)

    def _raw_texts(self, name: str, dataset: h5py.Dataset) -> list[Any]:
        """Strings as they are stored; each has its own bytes in the file.

        Any number of them may refer to the same bytes of a file made by hand: their lengths are
        summed before they are read where they lie in one piece, and while they are read elsewhere.
        """
        offset = dataset.id.get_offset()
        step = 64
        if offset is not None and dataset.id.get_create_plist().get_nfilters() == 0:
            places = os.pread(self._file.id.get_vfd_handle(), 16 * dataset.size, offset)
            # length, address of the heap (8 bytes), number in it
            lengths = np.frombuffer(places[: len(places) // 16 * 16], "<u4")[::4]
            self._require_room(name, int(lengths.astype(np.int64).sum()))
            step = max(1, dataset.shape[0])
        raw: list[Any] = []
        total = 0
        for first in range(0, dataset.shape[0], step):
            piece = dataset[first : first + step].ravel().tolist()
            total += sum(map(len, piece))
            self._require_room(name, total)
            raw += piece
        return raw

    def _require_room(self, name: str, text_bytes: int) -> None:
        if text_bytes > self._size:
            raise self.error(
                "E-RESULTS-DATA", f"{printable(name)}: longer texts than the file holds"
            )

    def dimensions(self, name: str) -> tuple[str, ...]:
        """Names of the axes of dataset `name`: of the scales attached, else `NAME_axis0`, ..."""
        dataset = self.dataset(name)
        base = name.rsplit("/", 1)[-1]
        with self._reading(name):
            self._check_seal(name, dataset)
            if dataset.is_scale:
                return (base,)
            names = [found[0].rsplit("/", 1)[-1] if found else "" for found in _scales_of(dataset)]
        return tuple(name or f"{base}_axis{axis}" for axis, name in enumerate(names))

    def attribute(self, name: str, key: str) -> Any:
        """An attribute of dataset `name`; None where it has none."""
        dataset = self.dataset(name)
        with self._reading(name):
            self._check_seal(name, dataset)
            return dataset.attrs.get(key)

    def error(self, id: str, text: str) -> Error:
        return Error(65, id, f"{self.label}: {text}")

    def _names(self, parent: str) -> list[str]:
        with self._reading(parent):
            group = self._follow(parent)
            return sorted(group) if isinstance(group, h5py.Group) else []

    def _is_dataset(self, parent: str, name: str) -> bool:
        with self._reading(name):
            return isinstance(self._follow(f"{parent}/{name}"), h5py.Dataset)

    def _follow(self, name: str) -> Any:
        """The object at `name` by hard links alone; None where there is none."""
        if not self.is_open:
            raise Error(64, "E-CLOSED", f"{self.label} was closed; open it again")
        item: Any = self._file["/"]
        for part in name.strip("/").split("/"):
            if not part:
                continue
            link = item.get(part, getlink=True) if isinstance(item, h5py.Group) else None
            if link is None:
                return None
            if not isinstance(link, h5py.HardLink):
                raise self.error(
                    "E-RESULTS-LINK",
                    f"{printable(name)}: a soft or external link; those are not followed",
                )
            item = item[part]
        return item

    def _check(self, name: str, dataset: h5py.Dataset) -> None:
        where = printable(name)
        create = dataset.id.get_create_plist()
        layouts = (h5py.h5d.CHUNKED, h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT)
        filters = {create.get_filter(i)[0] for i in range(create.get_nfilters())}
        if (
            create.get_layout() not in layouts
            or create.get_external_count()
            or not filters <= _FILTERS
        ):
            raise self.error(
                "E-RESULTS-LAYOUT",
                f"{where}: a virtual or external dataset, or a filter other than shuffle, deflate, "
                "fletcher32",
            )
        text = h5py.check_string_dtype(dataset.dtype)
        if text is None and dataset.dtype.kind not in "if":
            raise self.error("E-RESULTS-SCHEMA", f"{where}: unexpected data type")
        if dataset.shape is None or dataset.ndim > 4:
            raise self.error("E-RESULTS-SCHEMA", f"{where}: unexpected rank")
        elements = math.prod(dataset.shape)
        chunk = math.prod(dataset.chunks or (0,))
        width = 16 if text is not None else dataset.dtype.itemsize
        stored = min(dataset.id.get_storage_size(), self._size)
        claimed = max(elements, chunk) * width if elements else 0
        if chunk > _MOST_CHUNK_ELEMENTS or claimed > stored * _DEFLATE_AT_MOST + _SLACK_BYTES:
            raise self.error("E-RESULTS-SCHEMA", f"{where}: impossible size")

    def _read_attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        with self._reading("/"):
            for key, value in self._file.attrs.items():
                if isinstance(value, bytes):
                    value = value.decode("utf-8", "backslashreplace")
                found[key] = value.item() if isinstance(value, np.generic) else value
        if not _is_sealed(found):
            raise self.error("E-RESULTS-DATA", "the attributes of the file are damaged")
        # Files of earlier versions may hold addresses as they were given.
        return {
            key: without_secrets(value) if isinstance(value, str) else value
            for key, value in found.items()
        }

    def _check_seal(self, name: str, dataset: h5py.Dataset) -> None:
        """Compare the text attributes of a dataset and its scales with their digest, once."""
        if name in self._sealed:
            return
        found = dict(dataset.attrs.items())
        if "DIMENSION_LIST" in found:
            found["DIMENSION_LIST"] = " ".join(
                scale for scales in _scales_of(dataset) for scale in scales
            )
        if not _is_sealed(found):
            raise self.error("E-RESULTS-DATA", f"{printable(name)}: its attributes are damaged")
        self._sealed.add(name)

    def _check_schema(self) -> str:
        name = self.attributes.get("schema_name")
        known = KNOWN_MAJOR.get(name) if isinstance(name, str) else None
        if known is None:
            raise self.error("E-RESULTS-SCHEMA", "an HDF5 file, but no vindex results file")
        version = str(self.attributes.get("schema_version", ""))
        major, dot, _ = version.partition(".")
        if not (dot and major.isascii() and major.isdigit() and int(major) >= 1):
            raise self.error(
                "E-RESULTS-VERSION", f"schema version '{printable(version)}' is not a version"
            )
        if int(major) > known:
            raise self.error(
                "E-RESULTS-VERSION",
                f"written in schema {printable(version)}, this package knows {known}; use a newer "
                "vindex",
            )
        if self.attributes.get("status") not in ("complete", "partial"):
            status = printable(str(self.attributes.get("status")))
            raise self.error("E-RESULTS-SCHEMA", f"status '{status}' is unknown")
        return str(name)

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """What libhdf5 reports becomes an error of ours that names the place."""
        try:
            yield
        except (OSError, RuntimeError, KeyError, ValueError, TypeError, UnicodeError) as failure:
            raise self.error(
                "E-RESULTS-DATA",
                f"{printable(name)}: cannot be read: a checksum is wrong or the file is damaged",
            ) from failure


class _Digest:
    """The digests of a dataset's blocks of rows, and which blocks were compared with them."""

    DIGITS = 16

    def __init__(self, rows: int, digests: list[str]) -> None:
        self._rows = rows
        self._digests = digests
        self._checked: set[int] = set()

    @classmethod
    def of(cls, text: str, dataset: h5py.Dataset) -> _Digest:
        rows, *digests = text.split(" ")
        block = int(rows)
        if block < 1 or len(digests) != -(-dataset.shape[0] // block):
            raise ValueError("no digest of these rows")
        return cls(block, digests)

    def check(self, dataset: h5py.Dataset, first: int, values: npt.NDArray[Any]) -> None:
        """Raise ValueError where `values`, rows from `first` on, are not what was written."""
        last = first + len(values)
        for block in range(first // self._rows, (last - 1) // self._rows + 1):
            if block in self._checked:
                continue
            begin = block * self._rows
            end = min(begin + self._rows, dataset.shape[0])
            is_inside = first <= begin and end <= last
            rows = values[begin - first : end - first] if is_inside else dataset[begin:end]
            little = np.ascontiguousarray(rows, rows.dtype.newbyteorder("<"))
            if hashlib.sha256(little.tobytes()).hexdigest()[: self.DIGITS] != self._digests[block]:
                raise ValueError("not what its digest is of")
            self._checked.add(block)


def require_written(dataset: h5py.Dataset, first: int, values: npt.NDArray[Any]) -> None:
    """Raise ValueError where `values`, rows of `dataset` from `first` on, are not what was written.

    For texts, `values` is all of them.
    """
    digest = dataset.attrs.get("sha256")
    if h5py.check_string_dtype(dataset.dtype) is not None:
        texts = [text if isinstance(text, bytes) else str(text).encode() for text in values.flat]
        if digest is not None and digest != sha256_of(texts):
            raise ValueError("texts are damaged")
    elif digest is None:
        _require_chunks(dataset)
    elif values.size:
        _Digest.of(str(digest), dataset).check(dataset, first, values)


def _require_chunks(dataset: h5py.Dataset) -> None:
    """Raise ValueError where a chunk is missing: the library would give fill values for it."""
    if dataset.chunks is None or 0 in dataset.shape:
        return
    wanted = math.prod(
        -(-side // step) for side, step in zip(dataset.shape, dataset.chunks, strict=True)
    )
    found = dataset.id.get_num_chunks()
    places = set()
    if found == wanted <= _MOST_SEARCHED:
        create = dataset.id.get_create_plist()
        kinds = [create.get_filter(i)[0] for i in range(create.get_nfilters())]
        required = sum(1 << i for i, kind in enumerate(kinds) if kind != h5py.h5z.FILTER_DEFLATE)
        for number in range(found):
            chunk = dataset.id.get_chunk_info(number)
            if chunk.filter_mask & required == 0 and all(
                at < side and at % step == 0
                for at, side, step in zip(
                    chunk.chunk_offset, dataset.shape, dataset.chunks, strict=True
                )
            ):
                places.add(tuple(chunk.chunk_offset))
        found = len(places)
    if found != wanted:
        raise ValueError("a chunk is missing")


def _scales_of(dataset: h5py.Dataset) -> list[list[str]]:
    """Paths of the scales of each axis."""
    scales: list[list[str]] = []
    for axis in range(0 if dataset.is_scale else dataset.ndim):
        found: list[str] = []
        h5py.h5ds.iterate(dataset.id, axis, lambda scale, found=found: found.append(
            (h5py.h5i.get_name(scale) or b"").decode("utf-8", "backslashreplace")
        ))  # fmt: skip
        scales.append(found)
    return scales


def _is_sealed(found: dict[str, Any]) -> bool:
    """Whether text attributes are those of their digest, where they have one."""
    signed = found.get("attributes_sha256")
    if signed is None:
        return True
    digest, *names = str(signed).split(" ")
    texts = [part for name in names for part in (name, _text_of(found.get(name, "")))]
    return digest == sha256_of([text.encode("utf-8", "surrogateescape") for text in texts])


def _text_of(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def sha256_of(texts: list[bytes]) -> str:
    """The digest of a list of texts: each followed by a NUL byte."""
    digest = hashlib.sha256()
    for first in range(0, len(texts), 4096):
        digest.update(b"".join(text + b"\0" for text in texts[first : first + 4096]))
    return digest.hexdigest()


def _open(path: str, label: str) -> h5py.File:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise Error(66, "E-RESULTS-KIND", f"{label} is not a regular file")
        with open(path, "rb"):
            pass
    except OSError as failure:
        raise _of_system(failure, label) from None
    except ValueError:  # a NUL character
        raise Error(66, "E-RESULTS-MISSING", f"{label} does not exist") from None
    try:
        return _opened(path)
    except (OSError, RuntimeError, ValueError) as failure:
        if getattr(failure, "errno", None) in (errno.EIO, errno.EACCES, errno.ENOMEM):
            raise _of_system(failure, label) from None
        raise Error(
            65, "E-RESULTS-HDF5", f"{label}: no HDF5 file, or a damaged or truncated one"
        ) from None


def _opened(path: str) -> h5py.File:
    """Locks as other users of HDF5 in this process do, or not at all where locks do not work."""
    try:
        return h5py.File(path, "r")
    except OSError as failure:
        if "lock" not in str(failure):
            raise
        return h5py.File(path, "r", locking=False)


def _of_system(failure: OSError | RuntimeError | ValueError, label: str) -> Error:
    number = getattr(failure, "errno", None) or errno.EIO
    if number in (errno.ENOENT, errno.ENOTDIR):
        return Error(66, "E-RESULTS-MISSING", f"{label} does not exist")
    code = 77 if number in (errno.EACCES, errno.EPERM) else 74
    return Error(code, "E-RESULTS-OPEN", f"cannot open {label}: {os.strerror(number)}")
