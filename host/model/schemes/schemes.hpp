// Owns the rules by which codes and companions make a logical weight: shapes, types and block
// geometry of every scheme of quantised safetensors; the table of companions (which suffix beside
// which codes is what); reading the few bytes, beside the headers, that say what shapes are
// (`weight_shape`, HQQ's `shape`, `nbits` and `group_size`, bitsandbytes' `quant_state`); and
// telling weights of schemes that are not read, by the method that the configuration names and by
// names of tensors that only such a scheme has: what they hold (code books, rotated or reordered
// codes) must not pass for a weight. docs/models/families.md lists the schemes.
#pragma once
#include "input/model_files.hpp"
#include "model/config/model_config.hpp"
#include "model/logical_tensor.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::model {

/// Values of small stored tensors.
class SmallValues {
 public:
  SmallValues() = default;
  /// Reads those of `tensors` (indices into `files.tensors`) that hold 1 to 4096 bytes. Neighbours
  /// within a page share one read, and `threads` (as in IndexOptions) read: on a network store each
  /// is a trip. Errors: those of the sources, the first in the order of shards and offsets.
  SmallValues(const input::ModelFiles& files, std::vector<std::int32_t> tensors,
              std::int32_t threads);

  /// The bytes of `tensor`; empty where it is -1 or was not read.
  std::span<const std::byte> bytes(std::int32_t tensor) const;
  /// The first number in `tensor`, of I32, I64 or U8.
  std::optional<std::int64_t> number(std::int32_t tensor) const;
  /// The number in `tensor`, of F32.
  std::optional<float> real(std::int32_t tensor) const;
  /// The numbers in `tensor`, where it is a vector of at most four elements of those; else none.
  std::vector<std::int64_t> numbers(std::int32_t tensor) const;
  /// The two numbers in `tensor`, where it is a vector of two elements of those.
  std::optional<std::array<std::int64_t, 2>> pair(std::int32_t tensor) const;

 private:
  struct Place {
    std::int32_t tensor = -1;
    std::size_t begin = 0;  ///< in `bytes_`
    std::size_t size = 0;
  };
  std::optional<std::int64_t> element(std::int32_t tensor, std::size_t index) const;

  const input::ModelFiles* files_ = nullptr;
  std::vector<Place> places_;  ///< by tensor
  std::vector<std::byte> bytes_;
};

/// What a companion is to its weight.
enum class Part : std::uint8_t {
  kScale,
  kZeroPoint,
  kGroupIndex,
  kGlobalScale,
  kTable,        // the weights of codes
  kNestedScale,  // scales of the scales
  kNestedTable,
  kShape,      // value: the logical rows and columns
  kBits,       // value: bits per weight
  kGroupSize,  // value: weights per scale
  kAxis,       // value: 0 or 1
  kPacking,    // value: text
  kFormat,     // value: how the codes lie
  kState,      // value: JSON
  kUnused,     // belongs to the weight, says nothing about it (activation scales)
  kCount
};

/// What a companion's name says about the scheme; where several do, the largest counts.
enum class Hint : std::uint8_t {
  kNone,
  kScaleInverse,  // _scale_inv
  kScale,         // weight_scale, .scale, qscale_weight
  kBnb4,          // absmax, quant_map, quant_state
  kBnb8,          // SCB
  kMlx,           // scales + biases
  kNvfp4,         // weight_scale_2, weight_global_scale
};

/// The companions found beside one tensor of codes.
struct Found {
  std::array<std::int32_t, static_cast<std::size_t>(Part::kCount)> parts;  ///< -1 where absent
  Hint hint = Hint::kNone;

  Found() { parts.fill(-1); }
  std::int32_t operator[](Part part) const { return parts[static_cast<std::size_t>(part)]; }
};

/// Which name the codes have.
enum class CodeName : std::uint8_t { kWeight, kPacked, kQweight, kHqq, kBlocks };

/// Fills shape, encoding, companions and `unsupported` of `logical`, whose codes are set.
void apply_scheme(const input::ModelFiles& files, const QuantClaims& claims,
                  const SmallValues& values, CodeName code_name, const Found& found,
                  LogicalTensor& logical);

/// How sure a suffix is: a strong one is a companion even where its codes are absent; a weak one
/// only beside codes of a packed or 8-bit type.
enum class Strength : std::uint8_t { kStrong, kWeak };

/// A tensor `base + suffix` belongs to codes `base + codes`.
struct CompanionRow {
  std::string_view suffix;
  std::string_view codes;
  Part part = Part::kUnused;
  Hint hint = Hint::kNone;
  Strength strength = Strength::kStrong;
};

/// The rows of a container, in order of precedence.
std::span<const CompanionRow> companion_rows(input::ContainerFormat format);

/// One weight of such a scheme: all that is stored of it.
struct ForeignWeight {
  std::string name;                  ///< logical: "model.layers.0.mlp.up_proj.weight"
  std::string scheme;                ///< "aqlm", "torchao"
  std::vector<std::int32_t> stored;  ///< into ModelFiles::tensors, the largest first
};

/// The weights of schemes that are not read. `bound[i]`: tensor i is codes or a companion of a
/// scheme that is. No tensor is in two of them.
std::vector<ForeignWeight> foreign_weights(const input::ModelFiles& files,
                                           const QuantClaims& claims,
                                           const std::vector<bool>& bound);

}  // namespace vindex::model
