// Owns finding the tensors of a forward pass: small ones by name, matrices by their place in the
// index, each with the shape that it must have; and telling what is left that nothing takes.
#pragma once

#include "features.hpp"
#include "transformer.hpp"

#include "input/model_files.hpp"
#include "model/families/tensor_name.hpp"
#include "model/model_index.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace vindex::model {

/// Errors of all: FormatError (65) E-TRACE-TENSOR, naming the tensor.
class TransformerTensors {
 public:
  /// Both must outlive this.
  TransformerTensors(const input::ModelFiles& files, const ModelIndex& index, Dialect dialect);

  /// The weight called `name` in `layer` (-1: outside the layers) of the table of families
  /// ("input_layernorm"), a vector of `count` values; one without tensor where there is none.
  VectorRef find_vector(std::int32_t layer, std::string_view name, std::int64_t count);
  /// The same; one that is absent is refused.
  VectorRef vector(std::int32_t layer, std::string_view name, std::int64_t count);

  /// Stored tensor `tensor` as a vector of `count` values.
  VectorRef stored_vector(std::int32_t tensor, std::int64_t count);

  /// The matrix `role` of `block` in `layer` (-1: outside); -1: there is none.
  std::int64_t find(std::int32_t layer, Block block, std::string_view role) const;
  /// The slices called so, in order; empty where there are none.
  std::vector<std::int64_t> slices(std::int32_t layer, Block block, std::string_view role) const;
  /// find(), one that is absent is refused; rows and columns other than these too (-1: any).
  std::int64_t matrix(std::int32_t layer, Block block, std::string_view role, std::int64_t rows,
                      std::int64_t cols);
  /// All rows of it, with its bias where one is stored; `biased`: one must be.
  Linear linear(std::int32_t layer, Block block, std::string_view role, std::int64_t rows,
                std::int64_t cols, bool biased = false);
  /// Rows of matrix `index` with the part of its bias, where one is stored.
  Linear rows_of(std::int64_t index, const FeatureRows& rows, bool biased = false);
  /// Refuses another shape (-1: any) or what cannot be decoded.
  void require_shape(std::int64_t index, std::int64_t rows, std::int64_t cols);

  /// Gate, up and down of the feed-forward at a place, whatever is stored apart or fused; without
  /// matrices where nothing is there. `expert` -1: there are none.
  FeedForward feed_forward(std::int32_t layer, Block block, std::int32_t expert,
                           std::int64_t hidden);

  const MatrixRecord& record(std::int64_t index) const {
    return index_.matrices[static_cast<std::size_t>(index)];
  }
  std::string name(std::int64_t index) const { return matrix_name(record(index)); }
  [[noreturn]] void refuse(const std::string& why) const;

  /// Refuses a matrix of layers, a norm, a bias or sinks in layers [0, layers) that nothing above
  /// was asked for: what takes part in the model but not in its family.
  void require_all_used(std::int64_t layers) const;
  /// The largest number of a layer with tensors; -1: there is none.
  std::int32_t last_layer() const { return last_layer_; }

 private:
  using Place = std::tuple<std::int32_t, Block, std::string_view>;
  using ExpertPlace = std::tuple<std::int32_t, Block, std::int32_t>;
  struct Features {
    FeatureMatrix gate, up;
    bool has_gate = false, has_up = false;
  };

  std::optional<std::int32_t> stored(std::int32_t layer, std::string_view name) const;
  VectorRef bias_of(std::int64_t index);
  void add_features(FeatureRole role);

  const input::ModelFiles& files_;
  const ModelIndex& index_;
  Dialect dialect_;
  std::unordered_map<std::string, std::int32_t> names_;  ///< "LAYER name[.#][.bias]"
  std::map<Place, std::vector<std::int64_t>> places_;
  std::map<ExpertPlace, Features> features_;
  std::vector<bool> used_tensors_, used_matrices_;
  std::int32_t last_layer_ = -1;
};

}  // namespace vindex::model
