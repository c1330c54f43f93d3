// Owns what an array of Python is to a measurement: two dimensions of float32, row-major.
#pragma once

#include <cstdint>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <span>
#include <vector>

namespace vindex_python {

/// A matrix that Python holds, of F64, F32, F16 or BF16, with any strides. Made and destroyed with
/// the interpreter's lock; read without it.
class Weights {
 public:
  /// Of a numpy array (ml_dtypes' bfloat16 too), or of whatever speaks DLPack or the buffer
  /// protocol. Errors: vindex::UsageError (64) E-ARRAY for what is no such array, another type of
  /// number, another device, memory that is not there or a shape that reaches beyond it, E-SHAPE
  /// for other than two dimensions or a side of 0; what the array's own export raises.
  explicit Weights(nanobind::handle array);

  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }

  /// rows x cols, row-major: the array's own memory where that is float32 without gaps, else
  /// `converted`, which gets every weight, F64 rounded to the nearest float32 as `vindex measure`
  /// does it.
  std::span<const float> float32(std::vector<float>& converted) const;

 private:
  enum class Type { kF64, kF32, kF16, kBf16 };

  nanobind::ndarray<nanobind::ro> array_;
  Type type_ = Type::kF32;
  std::int64_t rows_ = 0, cols_ = 0;
};

}  // namespace vindex_python
