#include "schemes.hpp"

#include <vindex/core/checked.hpp>
#include <vindex/core/error.hpp>

#include <fmt/format.h>

#include <limits>

namespace vindex::model {

namespace {

using decode::CompanionRole;
using decode::ElementType;
using shard::StoredTensor;

constexpr std::int64_t kMostSide = std::numeric_limits<std::int32_t>::max();

std::string_view type_name(ElementType type) { return decode::element_type_row(type).name; }

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

bool is_float_scale(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kBF16 || type == ElementType::kF16;
}

bool is_power_scale(ElementType type) {
  return type == ElementType::kF8E8M0 || type == ElementType::kU8;
}

decode::Encoding unsupported_encoding(std::string label, ElementType type) {
  decode::Encoding encoding;
  encoding.scheme = decode::Scheme::kUnsupported;
  encoding.type = type;
  encoding.label = std::move(label);
  return encoding;
}

/// One weight under construction: the codes, what was found beside them, and how a failure reads.
class Weight {
 public:
  Weight(const shard::ModelFiles& files, const QuantClaims& quant, const Found& companions,
         LogicalTensor& out)
      : claims(quant), found(companions), logical(out), files_(files) {}

  const StoredTensor& stored(std::int32_t tensor) const {
    return files_.tensors[static_cast<std::size_t>(tensor)];
  }
  const StoredTensor& codes() const { return stored(logical.codes); }

  /// The last two sides of the codes as stored, or 0 where they have fewer.
  std::int64_t code_rows() const { return side(codes(), 2); }
  std::int64_t code_cols() const { return side(codes(), 1); }
  /// 2-D, or a stack of 2-D.
  bool is_matrix_or_stack() const { return codes().shape.size() == 2 || codes().shape.size() == 3; }

  /// Logical shape: the codes' leading sides, then rows x cols.
  void set_shape(std::int64_t rows, std::int64_t cols) {
    logical.shape = codes().shape;
    if (logical.shape.size() >= 2) {
      logical.shape[logical.shape.size() - 2] = rows;
      logical.shape[logical.shape.size() - 1] = cols;
    }
  }
  void fail(std::string why) {
    if (logical.unsupported.empty()) {
      logical.unsupported = std::move(why);
    }
  }
  /// A scheme that is known by name only.
  void name_only(std::string label) {
    fail(fmt::format("scheme not supported: {}", label));
    logical.encoding = unsupported_encoding(std::move(label), codes().type);
  }
  void forget_shape() {
    logical.shape.clear();
    logical.shape_known = false;
  }

  /// True where stored tensor `scale` has the codes' leading sides, then rows x cols; a vector of
  /// `rows` counts as rows x 1, one element in any form as 1 x 1.
  bool has_shape(const StoredTensor& scale, std::int64_t rows, std::int64_t cols) const {
    const std::vector<std::int64_t>& shape = scale.shape;
    const std::size_t lead = codes().shape.size() - 2;
    if (lead == 0 && cols == 1 && shape.size() == 1) {
      return shape[0] == rows;
    }
    if (lead == 0 && cols == 1 && rows == 1 && shape.empty()) {
      return true;
    }
    if (shape.size() != lead + 2 || shape[lead] != rows || shape[lead + 1] != cols) {
      return false;
    }
    return lead == 0 || shape[0] == codes().shape[0];
  }
  void misshapen(const StoredTensor& scale, std::string_view wanted) {
    fail(fmt::format("scale misshapen: {} is {}, {}", printable(scale.name),
                     shape_text(scale.shape), wanted));
  }
  void mistyped(const StoredTensor& scale) {
    fail(
        fmt::format("scale of wrong type: {} is {}", printable(scale.name), type_name(scale.type)));
  }
  void missing(std::string_view suffix) {
    fail(fmt::format("scale missing: {}{}", printable(base()), suffix));
  }
  void use(CompanionRole role, std::int32_t tensor) {
    logical.companions.push_back({role, tensor});
  }

  const QuantClaims& claims;
  const Found& found;
  LogicalTensor& logical;

 private:
  static std::int64_t side(const StoredTensor& tensor, std::size_t from_end) {
    return tensor.shape.size() < from_end ? 0 : tensor.shape[tensor.shape.size() - from_end];
  }
  std::string base() const {
    const std::string& name = logical.name;
    return name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name;
  }

  const shard::ModelFiles& files_;
};

/// fp8 codes with a scale per block: DeepSeek-V3's weight_scale_inv, which multiplies.
void apply_fp8_block(Weight& weight) {
  // Without a claim the only geometry in use is assumed, and the scale's shape must confirm it.
  const auto [block_rows, block_cols] =
      weight.claims.block.value_or(std::pair<std::int32_t, std::int32_t>{128, 128});
  weight.logical.encoding = decode::fp8_block_encoding(block_rows, block_cols);
  if (weight.codes().type != ElementType::kF8E4M3) {
    weight.logical.encoding = unsupported_encoding(
        fmt::format("{}/{}x{}", type_name(weight.codes().type), block_rows, block_cols),
        weight.codes().type);
    weight.fail(fmt::format("scheme not supported: {}", weight.logical.encoding.label));
    return;
  }
  if (weight.found.scale < 0) {
    weight.missing(".weight_scale_inv");
    return;
  }
  if (!weight.is_matrix_or_stack()) {
    weight.fail(fmt::format("codes misshapen: {} is {}", printable(weight.codes().name),
                            shape_text(weight.codes().shape)));
    return;
  }
  const StoredTensor& scale = weight.stored(weight.found.scale);
  const std::int64_t rows = ceil_divide(weight.code_rows(), block_rows);
  const std::int64_t cols = ceil_divide(weight.code_cols(), block_cols);
  if (!weight.has_shape(scale, rows, cols)) {
    weight.misshapen(scale, fmt::format("{}x{} blocks of {} need {}x{}", block_rows, block_cols,
                                        shape_text(weight.codes().shape), rows, cols));
    return;
  }
  if (!is_float_scale(scale.type) && scale.type != ElementType::kF8E8M0) {
    weight.mistyped(scale);
    return;
  }
  weight.use(CompanionRole::kScale, weight.found.scale);
}

/// fp8 codes with one scale, one per row, or one per 32 columns (weight_scale), or per block
/// (DeepSeek-V4's `.scale`). All are blocks of some geometry.
void apply_fp8_scale(Weight& weight) {
  const std::string_view type = type_name(weight.codes().type);
  weight.logical.encoding = unsupported_encoding(std::string(type), weight.codes().type);
  if (weight.codes().type != ElementType::kF8E4M3) {
    weight.fail(fmt::format("scheme not supported: {} with weight_scale", type));
    return;
  }
  if (weight.found.scale < 0) {
    weight.missing(".weight_scale");
    return;
  }
  const StoredTensor& scale = weight.stored(weight.found.scale);
  const std::int64_t rows = weight.code_rows();
  const std::int64_t cols = weight.code_cols();
  if (!weight.is_matrix_or_stack() || rows < 1 || cols < 1 || rows > kMostSide ||
      cols > kMostSide) {
    weight.fail(fmt::format("codes misshapen: {} is {}", printable(weight.codes().name),
                            shape_text(weight.codes().shape)));
    return;
  }
  std::pair<std::int64_t, std::int64_t> block{0, 0};
  std::string label;
  if (is_power_scale(scale.type) && weight.has_shape(scale, rows, ceil_divide(cols, 32))) {
    block = {1, 32};
    label = "/mx32";
  } else if (scale.type == ElementType::kU8) {
    weight.misshapen(scale, fmt::format("groups of 32 need {}x{}", rows, ceil_divide(cols, 32)));
    return;
  } else if (weight.has_shape(scale, 1, 1)) {
    block = {rows, cols};
    label = "/tensor";
  } else if (weight.has_shape(scale, rows, 1)) {
    block = {1, cols};
    label = "/channel";
  } else {
    const auto [block_rows, block_cols] =
        weight.claims.block.value_or(std::pair<std::int32_t, std::int32_t>{128, 128});
    if (!weight.has_shape(scale, ceil_divide(rows, block_rows), ceil_divide(cols, block_cols))) {
      weight.misshapen(scale,
                       fmt::format("one, {} or {}x{} scales are needed", rows,
                                   ceil_divide(rows, block_rows), ceil_divide(cols, block_cols)));
      return;
    }
    block = {block_rows, block_cols};
    label = fmt::format("/{}x{}", block_rows, block_cols);
  }
  if (!is_float_scale(scale.type) && !is_power_scale(scale.type)) {
    weight.mistyped(scale);
    return;
  }
  weight.logical.encoding = decode::fp8_block_encoding(static_cast<std::int32_t>(block.first),
                                                       static_cast<std::int32_t>(block.second));
  weight.logical.encoding.label = std::string(type) + label;
  weight.use(CompanionRole::kScale, weight.found.scale);
}

/// Number of 32-bit words that `cols` codes of `bits` fill when packed densely.
std::int64_t words_of(std::int64_t cols, std::int32_t bits) {
  const auto all =
      checked_multiply(static_cast<std::uint64_t>(cols), static_cast<std::uint64_t>(bits));
  return all ? static_cast<std::int64_t>(*all / 32 + (*all % 32 != 0 ? 1 : 0)) : -1;
}

/// The width that makes `cols` codes fill `words`: the claimed one if it does, else the only one
/// that does, else 0.
std::int32_t width_of(const QuantClaims& claims, std::int64_t cols, std::int64_t words) {
  for (const QuantGroup& group : claims.groups) {
    if (group.bits >= 1 && group.bits <= 8 && words_of(cols, group.bits) == words) {
      return group.bits;
    }
  }
  std::int32_t found = 0;
  for (std::int32_t bits = 1; bits <= 8; ++bits) {
    if (words_of(cols, bits) == words) {
      if (found != 0) {
        return 0;
      }
      found = bits;
    }
  }
  return found;
}

/// Columns per scale: the claimed group if `scales` confirms it, else what the shape says, else -1.
/// 0 means one scale per row.
std::int64_t group_of(const QuantClaims& claims, std::int64_t cols, std::int64_t scales) {
  for (const QuantGroup& group : claims.groups) {
    if (group.group > 0 && ceil_divide(cols, group.group) == scales) {
      return group.group;
    }
  }
  if (scales == 1) {
    return 0;
  }
  return scales > 1 && cols % scales == 0 ? cols / scales : -1;
}

/// compressed-tensors pack-quantized: words of offset-binary codes, a scale per group.
void apply_packed_int(Weight& weight) {
  const StoredTensor& codes = weight.codes();
  weight.logical.encoding = unsupported_encoding("INT", codes.type);
  if (!weight.is_matrix_or_stack()) {
    weight.forget_shape();
    weight.fail(
        fmt::format("codes misshapen: {} is {}", printable(codes.name), shape_text(codes.shape)));
    return;
  }
  const std::int64_t words = weight.code_cols();
  const std::int64_t rows = weight.code_rows();
  const std::int32_t claimed_bits =
      weight.claims.groups.size() == 1 ? weight.claims.groups[0].bits : 0;

  std::int64_t cols = 0;
  if (weight.found.shape_value) {
    const auto [value_rows, value_cols] = *weight.found.shape_value;
    if (value_rows != rows || value_cols < 1 || value_cols > kMostSide) {
      weight.forget_shape();
      weight.fail(fmt::format("weight_shape contradicts the codes: it says {}x{}, {} is {}",
                              value_rows, value_cols, printable(codes.name),
                              shape_text(codes.shape)));
      return;
    }
    cols = value_cols;
  } else if (claimed_bits >= 1 && claimed_bits <= 8 && words >= 0 && words <= kMostSide &&
             words * 32 % claimed_bits == 0) {
    cols = words * 32 / claimed_bits;
  } else {
    weight.forget_shape();
    weight.fail(weight.found.shape >= 0 ? "weight_shape unreadable: it must hold two integers"
                                        : "weight_shape missing");
    return;
  }
  const std::int32_t bits = width_of(weight.claims, cols, words);
  if (bits == 0) {
    weight.forget_shape();
    weight.fail(
        fmt::format("weight_shape contradicts the codes: no width of 1 to 8 bits packs {} "
                    "columns into {} words",
                    cols, words));
    return;
  }
  weight.set_shape(rows, cols);
  weight.logical.encoding = unsupported_encoding(fmt::format("INT{}", bits), codes.type);
  if (weight.found.scale < 0) {
    weight.missing(".weight_scale");
    return;
  }
  const StoredTensor& scale = weight.stored(weight.found.scale);
  const std::int64_t scales = scale.shape.empty() ? 0 : scale.shape.back();
  const std::int64_t group = group_of(weight.claims, cols, scales);
  if (group < 0 || !weight.has_shape(scale, rows, scales)) {
    weight.misshapen(scale, fmt::format("it must be {} rows of groups of {} columns", rows, cols));
    return;
  }
  weight.logical.encoding = decode::packed_int_encoding(bits, static_cast<std::int32_t>(group));
  if (!is_float_scale(scale.type)) {
    weight.mistyped(scale);
    return;
  }
  if (weight.found.zero_point >= 0) {
    weight.name_only(weight.logical.encoding.label + "/asym");
    return;
  }
  if (weight.claims.groups.size() == 1 && !weight.claims.groups[0].symmetric) {
    weight.fail("zero points missing: the configuration says symmetric false");
    return;
  }
  if (weight.found.group_index >= 0) {
    weight.fail("scheme not supported: group indices (weight_g_idx)");
    return;
  }
  weight.use(CompanionRole::kScale, weight.found.scale);
}

/// GPTQ packs along the rows of its transposed codes, AWQ along the columns.
void apply_gptq_or_awq(Weight& weight) {
  const StoredTensor& codes = weight.codes();
  const StoredTensor* scales =
      weight.found.scale < 0 ? nullptr : &weight.stored(weight.found.scale);
  const bool pair = codes.shape.size() == 2 && scales != nullptr && scales->shape.size() == 2 &&
                    scales->shape[0] > 0 && codes.shape[0] > 0 && codes.shape[1] > 0 &&
                    codes.shape[0] < kMostSide && codes.shape[1] < kMostSide;
  if (!pair) {
    weight.forget_shape();
    weight.name_only("INT/gptq");
    return;
  }
  const std::int64_t outputs = scales->shape[1];
  const std::int64_t groups = scales->shape[0];
  const bool gptq = outputs == codes.shape[1];
  std::int64_t bits = weight.claims.bits;
  if (!gptq) {
    bits = outputs > 0 && codes.shape[1] * 32 % outputs == 0 ? codes.shape[1] * 32 / outputs : 0;
  } else if (weight.found.zero_point >= 0) {
    const StoredTensor& zeros = weight.stored(weight.found.zero_point);
    if (zeros.shape.size() == 2 && zeros.shape[1] > 0 && zeros.shape[1] < kMostSide &&
        zeros.shape[1] * 32 % outputs == 0) {
      bits = zeros.shape[1] * 32 / outputs;
    }
  }
  if (bits < 1 || bits > 8) {
    weight.forget_shape();
    weight.name_only(gptq ? "INT/gptq" : "INT/awq");
    return;
  }
  const std::int64_t inputs = gptq ? codes.shape[0] * 32 / bits : codes.shape[0];
  weight.set_shape(outputs, inputs);
  weight.name_only(
      fmt::format("INT{}/g{}/{}", bits, ceil_divide(inputs, groups), gptq ? "gptq" : "awq"));
}

/// FP4 codes, two per byte along the rows; the group follows from the scale's shape.
void apply_fp4_pairs(Weight& weight, std::string label) {
  if (weight.is_matrix_or_stack() && weight.code_cols() < kMostSide) {
    weight.set_shape(weight.code_rows(), weight.code_cols() * 2);
  } else {
    weight.forget_shape();
  }
  weight.name_only(std::move(label));
}

/// gpt-oss: blocks [.., rows, groups, 16 bytes of 32 codes].
void apply_blocks(Weight& weight) {
  const std::vector<std::int64_t>& shape = weight.codes().shape;
  if ((shape.size() == 4 || shape.size() == 3) && shape.back() == 16 &&
      shape[shape.size() - 2] < kMostSide) {
    weight.logical.shape.assign(shape.begin(), shape.end() - 1);
    weight.logical.shape.back() *= 32;
  } else {
    weight.forget_shape();
  }
  weight.name_only("MXFP4");
}

/// What `weight` with weight_scale (or `.scale`) is, told by the type of its codes.
void apply_scaled(Weight& weight) {
  const ElementType type = weight.codes().type;
  const StoredTensor* scale = weight.found.scale < 0 ? nullptr : &weight.stored(weight.found.scale);
  if (type == ElementType::kU8 ||
      (type == ElementType::kI8 && scale != nullptr && scale->type == ElementType::kF8E8M0)) {
    const bool ternary = scale != nullptr && (scale->shape.empty() || scale->shape.back() == 1) &&
                         type == ElementType::kU8;
    if (ternary && weight.is_matrix_or_stack() && weight.code_rows() < kMostSide) {
      weight.set_shape(weight.code_rows() * 4, weight.code_cols());
      weight.name_only("TERNARY");
    } else {
      apply_fp4_pairs(weight, "MXFP4");
    }
  } else if (type == ElementType::kI8) {
    weight.name_only("INT8/row");
  } else {
    apply_fp8_scale(weight);
  }
}

}  // namespace

void apply_scheme(const shard::ModelFiles& files, const QuantClaims& claims, CodeName code_name,
                  const Found& found, LogicalTensor& logical) {
  Weight weight(files, claims, found, logical);
  switch (code_name) {
    case CodeName::kPacked:
      if (weight.codes().type == ElementType::kI32) {
        apply_packed_int(weight);
      } else {
        const bool nvfp4 =
            found.hint == Hint::kNvfp4 ||
            (found.scale >= 0 && weight.stored(found.scale).type == ElementType::kF8E4M3);
        apply_fp4_pairs(weight, nvfp4 ? "NVFP4" : "MXFP4");
      }
      return;
    case CodeName::kQweight:
      apply_gptq_or_awq(weight);
      return;
    case CodeName::kHqq:
      weight.forget_shape();
      weight.name_only("INT/hqq");
      return;
    case CodeName::kBlocks:
      apply_blocks(weight);
      return;
    case CodeName::kWeight:
      break;
  }
  switch (found.hint) {
    case Hint::kScaleInverse:
      apply_fp8_block(weight);
      return;
    case Hint::kBnb4:
      weight.forget_shape();
      weight.name_only("NF4");
      return;
    case Hint::kBnb8:
      weight.name_only("INT8/row");
      return;
    case Hint::kMlx:
      weight.forget_shape();
      weight.name_only("INT/mlx");
      return;
    case Hint::kNvfp4:
      apply_fp4_pairs(weight, "NVFP4");
      return;
    case Hint::kScale:
    case Hint::kNone:
      apply_scaled(weight);
      return;
  }
}

}  // namespace vindex::model
