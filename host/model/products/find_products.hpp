// Owns finding the products of a model: LoRA pairs, and heads of attention, for which it is told
// which rows and columns are whose head, by pure functions of shapes and of claimed counts. Shapes
// are believed; a claim that they contradict cuts nothing.
#pragma once

#include "product.hpp"

#include "model/config/model_config.hpp"
#include "model/families/families.hpp"
#include "model/logical_tensor.hpp"
#include "model/model_index.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vindex::model {

struct MatrixSides {
  std::int64_t rows = 0;  ///< out
  std::int64_t cols = 0;  ///< in
};

/// What a model says of its heads.
struct HeadClaims {
  std::int64_t heads = 0;              ///< of queries; 0: unknown
  std::vector<std::int64_t> kv_heads;  ///< each serves some layers; empty: layers differ, or unsaid
  bool gated = false;                  ///< a gate of the same height may follow every head's query
};

/// Rows that head number h has in a matrix: `count` from
/// first + (h div per_group) * group_stride + (h mod per_group) * stride.
struct HeadRows {
  std::int64_t count = 0;
  std::int64_t first = 0;
  std::int64_t stride = 0;
  std::int64_t per_group = 1;
  std::int64_t group_stride = 0;

  std::int64_t at(std::int64_t head) const {
    return first + head / per_group * group_stride + head % per_group * stride;
  }
};

/// Heads of one attention; those of queries share keys and values in groups of heads / kv_heads.
struct HeadCut {
  std::string error;  ///< why there is no cut; else empty
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  HeadRows query, key, value;  ///< of keys and values by key-value head

  std::int64_t group() const { return heads / kv_heads; }
};

/// Of separate q, k and v. Without `v` keys serve as values. `o` must take the values of all heads.
HeadCut cut_separate(const HeadClaims& claims, MatrixSides q, MatrixSides k,
                     std::optional<MatrixSides> v, std::optional<MatrixSides> o);

/// Of q, k and v in one matrix, every head of `o`'s columns / heads rows: [q; k; v], or `grouped`,
/// per key-value head [its queries; k; v].
HeadCut cut_fused(const HeadClaims& claims, MatrixSides qkv, MatrixSides o, bool grouped);

/// Throws where a model would have more rows of heads, or of pairs, than any has (the largest
/// mixtures have half as many matrices of experts). Errors: FormatError E-MODEL-PRODUCTS.
void check_product_count(const std::string& path, std::size_t count);

/// The row of a product whose factors fit each other. What a factor cannot be, it cannot be either:
/// `unsupported` names the first. Everything else but names is filled.
MatrixRecord product_record(Product product);

/// Two rows for every head of every attention that the tables know, qk_head and ov_head, from the
/// matrices of `index`. Warnings where head counts are absent or do not fit the shapes (the layer
/// is left out). Errors: UsageError E-HEADS where there is not one; FormatError E-MODEL-PRODUCTS.
std::vector<MatrixRecord> head_products(const std::string& path, Claims& claims, ModelIndex& index);

/// One row for every LoRA pair. A pair without partner, or whose factors do not fit, is a row that
/// is unsupported. Errors: those of AdapterConfig; FormatError E-LORA-DOUBLE where two tensors
/// are one factor, E-MODEL-PRODUCTS; UsageError E-LORA where there is no pair.
std::vector<MatrixRecord> adapter_products(const input::ModelFiles& files,
                                           const std::vector<LogicalTensor>& logicals,
                                           const Naming& naming, std::vector<Warning>& warnings);

/// LoRA factors among the tensors, for a hint.
std::int64_t count_adapter_factors(const std::vector<LogicalTensor>& logicals,
                                   input::ContainerFormat format);

}  // namespace vindex::model
