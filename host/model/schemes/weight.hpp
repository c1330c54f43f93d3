// Owns a quantised weight under construction: its codes, what was found beside them, and the
// wording of what is wrong. One function per scheme fills it.
#pragma once

#include "schemes.hpp"

#include "core/integers.hpp"

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace vindex::model {

/// Slices of one tensor: a bound that no model comes near.
inline constexpr std::int64_t kMaxSlices = 65'536;

/// Sides beyond this are refused before they are multiplied.
inline constexpr std::int64_t kMaxSide = std::numeric_limits<std::int32_t>::max();

std::string_view type_name(decode::ElementType type);
std::string shape_text(const std::vector<std::int64_t>& shape);
bool is_float_scale(decode::ElementType type);
/// F64, F32, F16, BF16: numbers as they are, in no blocks and with no scales.
bool is_full_float(decode::ElementType type);
bool is_float8(decode::ElementType type);
/// Number of elements; -1 where it does not fit.
std::int64_t element_count(const input::StoredTensor& tensor);
/// Powers of two: E8M0, also where it is stored as U8.
bool is_power_scale(decode::ElementType type);
decode::Encoding unsupported_encoding(std::string label, decode::ElementType type);

class Weight {
 public:
  Weight(const input::ModelFiles& files, const QuantClaims& quant, const SmallValues& small_values,
         const Found& companions, LogicalTensor& out)
      : claims(quant), values(small_values), found(companions), logical(out), files_(files) {}

  const input::StoredTensor& stored(std::int32_t tensor) const {
    return files_.tensors[static_cast<std::size_t>(tensor)];
  }
  const input::StoredTensor& codes() const { return stored(logical.codes); }
  /// The companion `part`, or null.
  const input::StoredTensor* companion(Part part) const {
    return found[part] < 0 ? nullptr : &stored(found[part]);
  }

  /// The last two sides of the codes as stored, or 0 where they have fewer.
  std::int64_t code_rows() const { return side(2); }
  std::int64_t code_cols() const { return side(1); }
  /// 2-D, or a stack of 2-D.
  bool is_matrix_or_stack() const { return codes().shape.size() == 2 || codes().shape.size() == 3; }

  /// Logical shape: the codes' leading side, then rows x cols.
  void set_shape(std::int64_t rows, std::int64_t cols);
  void forget_shape();
  /// Whether `scale` has the codes' leading side, then rows x cols. A vector of `rows` counts as
  /// rows x 1, one element in any form as 1 x 1. The codes must be a matrix or a stack.
  bool has_shape(const input::StoredTensor& scale, std::int64_t rows, std::int64_t cols) const;
  void use(decode::CompanionRole role, Part part) {
    logical.companions.push_back({role, found[part], std::nullopt});
  }
  /// The same, its bytes being `type` whatever the header says.
  void use_as(decode::CompanionRole role, Part part, decode::ElementType type) {
    logical.companions.push_back({role, found[part], type});
  }

  /// The first failure stands.
  void fail(std::string why);
  /// A scheme that is known by name only.
  void name_only(std::string label);
  void misshapen(const input::StoredTensor& scale, std::string_view wanted);
  void mistyped(const input::StoredTensor& scale);
  void missing(std::string_view suffix);
  void codes_misshapen();

  const QuantClaims& claims;
  const SmallValues& values;
  const Found& found;
  LogicalTensor& logical;

 private:
  std::int64_t side(std::size_t from_end) const {
    const std::vector<std::int64_t>& shape = codes().shape;
    return shape.size() < from_end ? 0 : shape[shape.size() - from_end];
  }

  const input::ModelFiles& files_;
};

/// 8-bit floats with one scale, one per row, one per 32 columns, or one per block, under any name.
void apply_float8(Weight& weight);
/// compressed-tensors int-quantized: I8 codes, scales as above, zero points.
void apply_scaled_int(Weight& weight);
/// compressed-tensors pack-quantized.
void apply_packed_int(Weight& weight);
/// MLX: affine, mxfp4, nvfp4.
void apply_mlx(Weight& weight);
/// GPTQ and AWQ.
void apply_gptq_or_awq(Weight& weight);
/// The name of the layout that the configuration claims, where it shares its tensors' names with
/// GPTQ's or AWQ's and is not read; else empty.
std::string refused_layout(const QuantClaims& claims, bool gptq);
/// FP4 codes, two per byte along the rows: NVFP4, or MXFP4.
void apply_fp4_pairs(Weight& weight, bool nvfp4);
/// gpt-oss: blocks [.., rows, groups, 16 bytes of 32 codes].
void apply_blocks(Weight& weight);
void apply_bnb4(Weight& weight);
void apply_bnb8(Weight& weight);
void apply_hqq(Weight& weight);
/// BitNet.
void apply_ternary(Weight& weight);

}  // namespace vindex::model
