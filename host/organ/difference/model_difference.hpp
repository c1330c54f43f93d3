// Owns what two models have that the other has not: keys by value, tensors by bytes and by decoded
// weights. GGUF files, splits and extracted folders in any mixture, or safetensors models; tensors
// belong together by name.
#pragma once

#include "gguf/values/value.hpp"
#include "model/selection/selection.hpp"
#include "organ/source/organ_class.hpp"
#include "statistics/comparison/pair_comparison.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::organ {

struct DiffSettings {
  std::string a, b;
  std::string tensors;        ///< regular expression for whole names; empty: all
  std::int32_t threads = 0;   ///< 0: by the machine
  std::stop_token stop = {};  ///< looked at before each tensor
};

struct DiffSide {
  std::string path, format, architecture;
  std::uint64_t tensors = 0, keys = 0, bytes = 0;  ///< bytes of tensors
};

/// A value of one of the models.
struct KeyValue {
  std::string type, text;
  std::optional<std::uint64_t> count;  ///< of an array
  std::string digest;
};

/// A key that is not the same in both: `a` is absent where B added it, `b` where it is gone.
struct KeyDifference {
  std::string name;
  std::optional<KeyValue> a, b;
  std::optional<gguf::FirstDifference> first;  ///< of arrays of one type
};

enum class TensorState : std::uint8_t {
  kSameBytes,
  kSameValues,  ///< other bytes or another type, and every decoded float32 the same bit for bit
  kDifferent,
  kShape,       ///< not compared
  kNotFinite,   ///< weights that are NaN or infinite: no numbers
  kUnsupported  ///< a type that is not decoded; the bytes differ
};
/// "same-bytes", "same-values", "different", "shape", "not-finite", "unsupported".
std::string_view state_name(TensorState state);

struct TensorDifference {
  std::string name;
  OrganName organ;
  gguf::Tensor a, b;
  TensorState state = TensorState::kDifferent;
  /// Cosine, relative error against A, ...: NaN where there are none. Of equal bytes 1 and 0,
  /// without decoding.
  statistics::PairReport report;
};

struct LoneTensor : gguf::Tensor {
  OrganName organ;
};

struct ModelDifference {
  DiffSide a, b;
  std::uint64_t same_keys = 0;
  std::vector<KeyDifference> keys;        ///< in A's order, then those that only B has
  std::vector<TensorDifference> tensors;  ///< of both, in A's order
  std::vector<LoneTensor> only_a, only_b;
  bool same_order = true;  ///< tensors of both follow one another in the same order
  bool stopped = false;    ///< then the rest is empty

  /// Same keys, names, shapes, types and bytes. Their order, and how they lie in files, do not
  /// count.
  bool is_same() const;
};

/// Keys of a set of splits (split.*) say how files lie and are left out. Memory: headers, and some
/// 24 MiB for each thread. Errors: those of open_gguf() and open_model(), UsageError E-SELECTION,
/// those of reading.
ModelDifference diff_models(const DiffSettings& settings);

}  // namespace vindex::organ
