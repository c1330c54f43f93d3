// Owns the sorting of a model's tensors into organs by their names, GGUF's and Hugging Face's. The
// first that matches wins, norms before what they belong to: attn_q_norm is a norm.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace vindex::organ {

enum class OrganClass : std::uint8_t {
  kAdapter,   ///< LoRA factors
  kNorm,      ///< norms of every kind
  kEmbed,     ///< token, position and type embeddings, output heads
  kRouter,    ///< what chooses experts
  kOrgan,     ///< feed-forward networks, experts among them
  kSkeleton,  ///< attention, state space and other mixers over positions
  kOther,
};
inline constexpr std::size_t kOrganClasses = 7;

struct OrganName {
  OrganClass organ_class = OrganClass::kOther;
  bool is_bias = false;
  std::int32_t block = -1;  ///< blk.N, layers.N, h.N; -1: in no block

  bool operator==(const OrganName&) const = default;
};

OrganName classify(std::string_view tensor_name);

/// "adapter", "norm", "embed", "router", "organ", "skeleton", "other".
std::string_view class_name(OrganClass organ_class);
/// The folder that an extracted class lies in: the name, "organs" for kOrgan.
std::string_view class_folder(OrganClass organ_class);

/// Classes of a list like "organ,skeleton" as --type takes it; empty or "all" are all of them.
/// "organ" is organ and router, since experts are useless without what chooses them; "ffn" is organ
/// alone. Errors: UsageError E-ORGAN-TYPE.
std::set<OrganClass> parse_classes(std::string_view list);

/// `name` ("blk.4.attn_q.weight") with its block's number replaced; the name itself where it has no
/// block.
std::string with_block(std::string_view name, std::int32_t block);

}  // namespace vindex::organ
