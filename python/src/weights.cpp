// Owns the ways in which arrays arrive (the buffer protocol, DLPack, bits of bfloat16), their
// checks, and the copy to float32.
#include "weights.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <nanobind/stl/string.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace nb = nanobind;

namespace vindex_python {

namespace {

constexpr const char* kWanted = "a matrix is a numpy array or a DLPack tensor in the CPU's memory";
constexpr const char* kTypes = "F64, F32, F16 and BF16 are measured";

[[noreturn]] void refuse(const std::string& what) { throw vindex::UsageError("E-ARRAY", what); }

/// What Python's str() gives.
std::string text_of(const nb::object& object) { return nb::str(nb::handle(object)).c_str(); }

std::string kind_of(nb::handle object) { return text_of(object.type().attr("__name__")); }

/// Memory of the CPU: kDLCPU, kDLCUDAHost, kDLROCMHost. Source: DLPack 1.1, dlpack.h.
bool is_of_cpu(std::int64_t device) { return device == 1 || device == 3 || device == 11; }

void require_cpu(nb::handle array) {
  if (!nb::hasattr(array, "__dlpack_device__")) {
    return;
  }
  const nb::object device = array.attr("__dlpack_device__")();
  if (!is_of_cpu(nb::cast<std::int64_t>(nb::int_(device[0])))) {
    refuse(kind_of(array) + " on a device: " + kWanted + "; copy it there first");
  }
}

/// numpy exports ml_dtypes' bfloat16 by no protocol: its bits, as integers. Null: it is none.
nb::object bits_of_bfloat16(nb::handle array) {
  const nb::handle numpy_array = nb::module_::import_("numpy").attr("ndarray");
  if (!nb::isinstance(array, numpy_array) ||
      text_of(array.attr("dtype").attr("name")) != "bfloat16") {
    return {};
  }
  return array.attr("view")("uint16");
}

/// What the capsules of DLPack point to. Source: DLPack 1.1, dlpack.h.
struct ManagedTensor {
  nb::dlpack::dltensor tensor;
  void* context;
  void* deleter;
};
struct VersionedTensor {
  std::uint32_t major, minor;
  void* context;
  void* deleter;
  std::uint64_t flags;
  nb::dlpack::dltensor tensor;
};

/// Null where `object` is no capsule that can be taken.
const nb::dlpack::dltensor* tensor_in(nb::handle object) {
  if (PyCapsule_IsValid(object.ptr(), "dltensor") != 0) {
    void* const found = PyCapsule_GetPointer(object.ptr(), "dltensor");
    return &static_cast<const ManagedTensor*>(found)->tensor;
  }
  if (PyCapsule_IsValid(object.ptr(), "dltensor_versioned") != 0) {
    void* const found = PyCapsule_GetPointer(object.ptr(), "dltensor_versioned");
    return &static_cast<const VersionedTensor*>(found)->tensor;
  }
  return nullptr;
}

/// The capsule that `array` exports by itself; nothing where it has none or wants to be asked in
/// another way.
nb::object exported(nb::handle array) {
  if (tensor_in(array) != nullptr || !nb::hasattr(array, "__dlpack__")) {
    return nb::borrow(array);
  }
  try {
    nb::object capsule = array.attr("__dlpack__")();
    return tensor_in(capsule) != nullptr ? capsule : nb::object();
  } catch (nb::python_error&) {
    return {};
  }
}

nb::ndarray<nb::ro> imported(nb::handle array) {
  const nb::object capsule = exported(array);
  const nb::handle source = capsule.is_valid() ? nb::handle(capsule) : array;
  if (const auto* const tensor = tensor_in(source);
      tensor != nullptr && tensor->ndim > 0 && tensor->shape == nullptr) {
    refuse(kind_of(array) + ": a DLPack tensor without a shape");
  }
  nb::ndarray<nb::ro> out;
  if (nb::try_cast(source, out)) {
    return out;
  }
  if (nb::hasattr(array, "__dlpack__")) {
    array.attr("__dlpack__")();  // raises what is wrong with it
  }
  refuse(kind_of(array) + ": " + kWanted);
}

/// Whether the page of `address` is one of this process; the kernel may not say.
bool may_be_memory(std::uintptr_t address) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  return ::mincore(reinterpret_cast<void*>(address - address % page), page, &resident) == 0 ||
         errno != ENOMEM;
}

/// Whether a matrix of `rows` x `cols` with steps of so many elements of `bytes` bytes can lie at
/// `data`: not at nothing, within the addresses that there are, and with memory at both ends. What
/// hands over a tensor is believed in everything else.
bool can_lie_at(std::uintptr_t data, std::int64_t rows, std::int64_t cols, std::int64_t row_step,
                std::int64_t col_step, int bytes) {
  using Wide = __int128;
  constexpr Wide kBeyond = Wide{1} << 57U;  // five levels of pages
  constexpr Wide kLeast = 4096;
  if (Wide{rows} * cols > std::numeric_limits<std::int64_t>::max() / 8) {
    return false;
  }
  Wide low = data;
  Wide high = Wide{data} + bytes;
  for (const auto& [count, step] : {std::pair{rows, row_step}, std::pair{cols, col_step}}) {
    const Wide reach = (Wide{count} - 1) * step * bytes;
    (reach < 0 ? low : high) += reach;
  }
  return low >= kLeast && high <= kBeyond && may_be_memory(static_cast<std::uintptr_t>(low)) &&
         may_be_memory(static_cast<std::uintptr_t>(high - 1));
}

float float_of_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16U;
  const std::uint32_t exponent = (half >> 10U) & 0x1FU;
  std::uint32_t fraction = half & 0x3FFU;
  if (exponent == 0x1F) {
    return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13U));
  }
  if (exponent == 0) {  // fraction * 2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return sign == 0 ? value : -value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
}

/// Element by element, in tiles, so that neither side is walked far apart from its neighbours.
template <typename Element, typename Convert>
void copy(const std::byte* from, std::int64_t rows, std::int64_t cols, std::int64_t row_step,
          std::int64_t col_step, float* to, const Convert& convert) {
  constexpr std::int64_t kTile = 64;
  for (std::int64_t i0 = 0; i0 < rows; i0 += kTile) {
    for (std::int64_t j0 = 0; j0 < cols; j0 += kTile) {
      for (std::int64_t i = i0; i < std::min(i0 + kTile, rows); ++i) {
        for (std::int64_t j = j0; j < std::min(j0 + kTile, cols); ++j) {
          Element element;
          std::memcpy(
              &element,
              from + (i * row_step + j * col_step) * static_cast<std::int64_t>(sizeof(Element)),
              sizeof(Element));
          to[i * cols + j] = convert(element);
        }
      }
    }
  }
}

}  // namespace

Weights::Weights(nb::handle array) {
  require_cpu(array);
  const nb::object bits = bits_of_bfloat16(array);
  array_ = imported(bits.is_valid() ? nb::handle(bits) : array);
  if (!is_of_cpu(array_.device_type())) {
    refuse(kind_of(array) + " on a device: " + kWanted + "; copy it there first");
  }
  const nb::dlpack::dtype type = array_.dtype();
  const auto is_type = [&](nb::dlpack::dtype_code code, int width) {
    return type.code == static_cast<std::uint8_t>(code) && type.bits == width && type.lanes == 1;
  };
  using Code = nb::dlpack::dtype_code;
  if (bits.is_valid() || is_type(Code::Bfloat, 16)) {
    type_ = Type::kBf16;
  } else if (is_type(Code::Float, 16)) {
    type_ = Type::kF16;
  } else if (is_type(Code::Float, 32)) {
    type_ = Type::kF32;
  } else if (is_type(Code::Float, 64)) {
    type_ = Type::kF64;
  } else {
    const std::string name = nb::hasattr(array, "dtype") ? text_of(array.attr("dtype")) : "other";
    refuse("numbers of type " + name + ": " + kTypes + "; convert them first");
  }
  if (array_.ndim() != 2) {
    throw vindex::UsageError("E-SHAPE", "an array of " + std::to_string(array_.ndim()) +
                                            " dimensions: a matrix has two; give one at a time");
  }
  rows_ = static_cast<std::int64_t>(array_.shape(0));
  cols_ = static_cast<std::int64_t>(array_.shape(1));
  if (rows_ < 1 || cols_ < 1) {
    throw vindex::UsageError("E-SHAPE", std::to_string(rows_) + " x " + std::to_string(cols_) +
                                            ": a matrix has at least one row and one column");
  }
  if (!can_lie_at(reinterpret_cast<std::uintptr_t>(array_.data()), rows_, cols_, array_.stride(0),
                  array_.stride(1), type.bits / 8)) {
    refuse(kind_of(array) + " of " + std::to_string(rows_) + " x " + std::to_string(cols_) +
           ": its memory is not there, or less than this shape and these strides reach");
  }
}

std::span<const float> Weights::float32(std::vector<float>& converted) const {
  const auto* const data = static_cast<const std::byte*>(array_.data());
  const std::int64_t row_step = array_.stride(0);
  const std::int64_t col_step = array_.stride(1);
  const auto count = static_cast<std::size_t>(rows_ * cols_);
  const bool has_no_gaps = (cols_ == 1 || col_step == 1) && (rows_ == 1 || row_step == cols_);
  if (type_ == Type::kF32 && has_no_gaps &&
      reinterpret_cast<std::uintptr_t>(data) % alignof(float) == 0) {
    return {reinterpret_cast<const float*>(data), count};
  }
  converted.resize(count);
  const auto fill = [&]<typename Element>(Element /*type*/, const auto& convert) {
    copy<Element>(data, rows_, cols_, row_step, col_step, converted.data(), convert);
  };
  switch (type_) {
    case Type::kF64:
      fill(double{}, [](double value) { return static_cast<float>(value); });
      break;
    case Type::kF32:
      fill(float{}, [](float value) { return value; });
      break;
    case Type::kF16:
      fill(std::uint16_t{}, float_of_half);
      break;
    case Type::kBf16:
      fill(std::uint16_t{}, [](std::uint16_t bits) {
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
      });
      break;
  }
  return converted;
}

}  // namespace vindex_python
