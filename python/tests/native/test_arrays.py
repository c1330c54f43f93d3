"""What is taken for a matrix: types, strides, protocols, and what is refused."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from model_files import TYPES, weights
from vindex import _native
from vindex.errors import Error

FLOAT, BFLOAT = 2, 4  # DLDataTypeCode
CPU, CUDA, CUDA_HOST = 1, 2, 3  # DLDeviceType


class DLTensor(ctypes.Structure):
    """Source: DLPack 1.0, dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class DLManagedTensor(ctypes.Structure):
    """Source: DLPack 1.0, dlpack.h; the form before versions."""

    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Tensor:
    """A library's tensor that speaks nothing but DLPack, as it did before versions."""

    def __init__(self, array: npt.NDArray[Any], code: int, bits: int, device: int = CPU) -> None:
        self.array, self.device, self.exports, self.deleted = array, device, 0, 0
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.strides = (ctypes.c_int64 * array.ndim)(*(s // array.itemsize for s in array.strides))
        self.managed = DLManagedTensor()
        self.managed.tensor = DLTensor(
            array.ctypes.data, device, 0, array.ndim, code, bits, 1, self.shape, self.strides, 0
        )
        self.deleter = DELETER(self._delete)
        self.managed.deleter = self.deleter

    def _delete(self, _: int) -> None:
        self.deleted += 1

    def __dlpack__(self, **_: Any) -> Any:
        self.exports += 1
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = (
            ctypes.py_object,
            [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
        )
        return new(ctypes.addressof(self.managed), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)


class Relay:
    """Hands on numpy's own export, versions and all."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def sigma(array: Any) -> npt.NDArray[np.float64]:
    return _native.spectrum(array)["sigma"]


def unaligned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    raw = np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:]
    return raw.view(array.dtype).reshape(array.shape)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_is_its_float32(dtype: Any) -> None:
    array = weights(60, 40).astype(dtype)
    assert (sigma(array) == sigma(array.astype(np.float32))).all()


def test_halves_are_converted_bit_for_bit() -> None:
    # Each of the 65,536 as a row's only weight: sigma are their magnitudes.
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    for chunk in halves[np.isfinite(halves)].reshape(-1, 64):
        exact = np.sort(np.abs(chunk.astype(np.float64)))[::-1]
        found = _native.spectrum(np.diag(chunk), mode="strict")["sigma"]
        assert np.abs(found - exact).max() <= 1e-12 * exact[0]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[::2],
        lambda a: a[:, ::3],
        lambda a: a[::-1, ::-1],
        lambda a: a[5:, 7:],
        np.asfortranarray,
        lambda a: np.broadcast_to(a[:1], a.shape),
    ],
)
def test_strides_are_followed(dtype: Any, view: Any) -> None:
    array = view(weights(130, 90).astype(dtype))
    whole = np.array(array, dtype=np.float32, order="C")
    assert (sigma(array) == sigma(whole)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_unaligned_memory_is_read(dtype: Any) -> None:
    array = weights(30, 20).astype(dtype)
    assert (sigma(unaligned(array)) == sigma(array)).all()


def test_memory_that_cannot_be_written_is_read() -> None:
    array = weights(30, 20)
    expected = sigma(array)
    array.flags.writeable = False
    assert (sigma(array) == expected).all()
    assert (sigma(memoryview(array)) == expected).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_dlpack_is_taken(dtype: Any) -> None:
    array = weights(50, 30).astype(dtype)
    assert (sigma(Relay(array)) == sigma(array)).all()
    tensor = Tensor(array, FLOAT, array.itemsize * 8)
    assert (sigma(tensor) == sigma(array)).all()
    assert tensor.exports == tensor.deleted == 1


def test_bfloat16_of_dlpack_is_taken() -> None:
    array = weights(50, 30).astype(ml_dtypes.bfloat16)
    tensor = Tensor(array.T.view(np.uint16), BFLOAT, 16)
    assert (sigma(tensor) == sigma(array.T)).all()
    assert tensor.deleted == 1


def test_pinned_memory_is_the_cpus() -> None:
    array = weights(50, 30)
    assert (sigma(Tensor(array, FLOAT, 32, CUDA_HOST)) == sigma(array)).all()


def test_torch_tensors_are_taken() -> None:
    torch = pytest.importorskip("torch")
    array = weights(50, 30)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        tensor = torch.from_numpy(array).to(dtype)
        assert (sigma(tensor.T) == sigma(tensor.float().numpy().T)).all()
    # A parameter as it is.
    assert (sigma(torch.from_numpy(array).requires_grad_()) == sigma(array)).all()


def test_devices_are_refused_untouched() -> None:
    tensor = Tensor(weights(4, 4), FLOAT, 32, CUDA)
    with pytest.raises(Error, match=r"Tensor on a device: .* copy it there first") as caught:
        sigma(tensor)
    assert (caught.value.code, caught.value.id) == (64, "E-ARRAY")
    assert tensor.exports == 0


HUGE = 2**62


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((HUGE, 2), (2, 1)), ((2, HUGE), (HUGE, 1)), ((2**32, 2**32), (2**32, 1)),
        ((2**31, 2**31), None),
        ((2**33, 2**31), None), ((2**40, 4), (4, 1)), ((4, 4), (HUGE, 1)), ((4, 4), (1, -HUGE)),
        ((4, 4), (-(2**40), 1)), ((2**31, 2**31), (0, 0)), ((2**63 - 1, 2**63 - 1), (0, 0)),
        ((2**63 - 1, 1), (1, 1)),
    ],
)  # fmt: skip
def test_shapes_beyond_the_memory_are_refused(
    shape: tuple[int, int], strides: tuple[int, int] | None
) -> None:
    for code, bits in ((FLOAT, 32), (FLOAT, 64), (BFLOAT, 16)):
        tensor = Tensor(weights(4, 4).astype(np.float64), code, bits)
        tensor.shape[:] = shape
        if strides is None:
            tensor.managed.tensor.strides = None
        else:
            tensor.strides[:] = strides
        with pytest.raises((Error, MemoryError)) as caught:
            sigma(tensor)
        assert getattr(caught.value, "id", "E-ARRAY") == "E-ARRAY"


@pytest.mark.parametrize("shape", [(-1, 4), (4, -1), (-(2**63), 4), (0, HUGE), (HUGE, 0)])
def test_shapes_that_are_none_are_refused(shape: tuple[int, int]) -> None:
    tensor = Tensor(weights(4, 4), FLOAT, 32)
    tensor.shape[:] = shape
    with pytest.raises(Error, match="at least one row"):
        sigma(tensor)


@pytest.mark.parametrize("offset", [0, 8, 4096, 2**47, 2**63, 2**64 - 64])
def test_memory_that_is_none_is_refused(offset: int) -> None:
    tensor = Tensor(weights(4, 4), FLOAT, 32)
    tensor.managed.tensor.data = None
    tensor.managed.tensor.byte_offset = offset
    with pytest.raises(Error, match="memory is not there") as caught:
        sigma(tensor)
    assert (caught.value.code, caught.value.id) == (64, "E-ARRAY")
    assert tensor.deleted == 1


def test_dimensions_that_are_none_are_refused() -> None:
    for ndim in (-1, 0, 1, 3, 2**31 - 1, -(2**31)):
        tensor = Tensor(weights(4, 4), FLOAT, 32)
        tensor.shape = (ctypes.c_int64 * 8)(*[2] * 8)
        tensor.managed.tensor.shape = tensor.shape
        tensor.managed.tensor.ndim = ndim
        tensor.managed.tensor.strides = None
        with pytest.raises(Error):
            sigma(tensor)
    for strides in (None, True):
        tensor = Tensor(weights(4, 4), FLOAT, 32)
        tensor.managed.tensor.shape = None
        if strides is None:
            tensor.managed.tensor.strides = None
        with pytest.raises(Error, match="without a shape"):
            sigma(tensor)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16, np.complex64, np.bool_])
def test_other_types_are_refused_by_name(dtype: Any) -> None:
    with pytest.raises(Error, match=np.dtype(dtype).name) as caught:
        sigma(np.ones((4, 4), dtype))
    assert (caught.value.code, caught.value.id) == (64, "E-ARRAY")


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, np.longdouble, np.dtype("O")])
def test_types_that_numpy_cannot_export_are_refused(dtype: Any) -> None:
    with pytest.raises((Error, BufferError, TypeError)):
        sigma(np.ones((4, 4), dtype))


def test_swapped_bytes_are_refused() -> None:
    with pytest.raises((Error, BufferError)):
        sigma(weights(4, 4).astype(">f4"))


@pytest.mark.parametrize("what", [None, "weights", 3.0, [[1.0, 2.0], [3.0, 4.0]], {}, object()])
def test_what_is_no_array_is_refused(what: Any) -> None:
    with pytest.raises(Error, match=type(what).__name__) as caught:
        sigma(what)
    assert (caught.value.code, caught.value.id) == (64, "E-ARRAY")


@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 4), (0, 4), (4, 0), (0, 0)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(Error) as caught:
        sigma(np.ones(shape, np.float32))
    assert (caught.value.code, caught.value.id) == (64, "E-SHAPE")


def test_an_array_is_not_kept() -> None:
    array = weights(20, 10)
    before = sys.getrefcount(array)
    for _ in range(10):
        sigma(array)
        with pytest.raises(Error):
            _native.spectrum(array, mode="none")
    assert sys.getrefcount(array) == before


def test_sigma_outlives_everything_else() -> None:
    found = _native.spectrum(weights(200, 100))
    values = found["sigma"]
    copy = values.copy()
    del found
    for seed in range(5):
        sigma(weights(200, 100, seed))
    assert (values == copy).all()
    values[0] = 1.0  # ours to change
