// Owns setting a stored tensor of one model beside one of another: whether their bytes are equal,
// and what their decoded weights have in common (statistics/comparison/pair_comparison.hpp), whole
// or on evenly spaced rows. Tensors are seen as stored: rows of ne[0] weights.
#pragma once

#include "gguf_source.hpp"

#include "backend/backend.hpp"
#include "gguf/header.hpp"
#include "input/model_files.hpp"
#include "statistics/comparison/pair_comparison.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::organ {

/// Where a tensor lies. `source` must outlive what is made of it.
struct PlacedTensor : gguf::Tensor {
  ByteSource* source = nullptr;
};

/// A tensor where it lies: number `index` of a GGUF model; one of `model`, as GGUF would have it.
PlacedTensor placed(const GgufSource& model, std::size_t index);
PlacedTensor placed(const input::ModelFiles& model, const input::StoredTensor& tensor);

/// Product of the dimensions; headers that were read have none that overflows.
std::uint64_t element_count(std::span<const std::uint64_t> dimensions);

/// Equal up to trailing ones, which GGUF may write or not.
bool same_shape(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b);

/// "4096 x 11008": as in the file.
std::string shape_text(std::span<const std::uint64_t> dimensions);

/// Reads both up to the first piece that differs. False where types or sizes do.
bool same_bytes(const PlacedTensor& a, const PlacedTensor& b);

struct PairSample {
  statistics::PairReport report;  ///< kUnsupported where a side has no decoder
  std::uint64_t values = 0;       ///< weights compared
  std::uint64_t of = 0;           ///< weights there are
};

/// Compares the decoded weights of two tensors of one shape: all, or where there are more than
/// `most` (0: no limit) those of evenly spaced rows, the first and the last among them. Memory: a
/// few slabs of 4 MiB. Errors: those of ByteSource::read().
PairSample compare_tensors(const PlacedTensor& a, const PlacedTensor& b, std::uint64_t most = 0);

}  // namespace vindex::organ
