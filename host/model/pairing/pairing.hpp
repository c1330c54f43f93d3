// Owns which matrices of two models belong together: by name where both have it, else by place.
#pragma once
#include "model/model_index.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vindex::model {

/// Layers [first_a, last_a] of A stand beside as many of B from first_b on.
struct LayerRange {
  std::int32_t first_a = 0, last_a = 0, first_b = 0;
};
/// Empty: every layer beside the one of its number.
using LayerMap = std::vector<LayerRange>;

/// Reads "0-10:4-14,20:22". Errors: UsageError E-MAP (64) naming the part that is wrong.
LayerMap parse_layer_map(const std::string& text);

/// Layer of B that stands beside layer `layer` of A: the same for one below 0 and where the map is
/// empty; nothing for one that it does not name.
std::optional<std::int32_t> mapped_layer(const LayerMap& map, std::int32_t layer);

struct MatrixPair {
  std::int64_t a = 0, b = 0;  ///< indices into ModelIndex::matrices
  /// Of a side that stores the matrix in parts, all of them, the first one above among them: keys
  /// (turned) and values of every head in turn, which stand below each other in it. Else empty.
  std::vector<std::int64_t> parts_a = {}, parts_b = {};

  /// All matrices of a side.
  std::vector<std::int64_t> of(bool first) const {
    const std::vector<std::int64_t>& parts = first ? parts_a : parts_b;
    return parts.empty() ? std::vector<std::int64_t>{first ? a : b} : parts;
  }
};

struct Unpaired {
  std::int64_t matrix = 0;  ///< index into its model's matrices
  std::string reason;
};

struct Pairing {
  std::vector<MatrixPair> pairs;  ///< in the order of A's matrices
  std::vector<Unpaired> a, b;     ///< in the order of their model's matrices
};

/// Pairs the rows of /matrix/ of two models; shapes (rows x cols) must be equal. A matrix whose
/// tensor and slice have one name in both models is paired by it, unless `map` moves its layer.
/// Every other one is paired by layer (through `map`), block, role, expert and slice, where a slice
/// that only repeats the expert's number counts as none, so that an expert in a stack meets one
/// with a tensor of its own. Where several of one model share such a place, shape decides; what
/// remains ambiguous stays unpaired, and so does every layer that a map does not name. A kv_b_proj
/// that the other model stores as stacks of k_b_proj (transposed) and v_b_proj, as llama.cpp does,
/// is a pair with all of them together.
Pairing pair_matrices(const ModelIndex& a, const ModelIndex& b, const LayerMap& map);

/// What the parts of a side of `pair` make up, `whole` being the other side: a record of its own,
/// named after the stacks, that no file stores.
MatrixRecord record_of_parts(const ModelIndex& index, const std::vector<std::int64_t>& parts,
                             const MatrixRecord& whole);

/// Rows of a head of `files`' q_proj or k_proj (`role`) of `rows` rows, as the model states its
/// heads; 0 where it does not, or they cannot be halved.
std::int64_t head_height(const input::ModelFiles& files, const std::string& role,
                         std::int64_t rows);

}  // namespace vindex::model
