// Owns the names and the order of blocks, roles and tables as the results file spells them
// (docs: the results contract, /matrix/).
#include "model_index.hpp"

#include <algorithm>
#include <array>

namespace vindex::model {

namespace {
constexpr std::array<std::string_view, 10> kBlockNames = {
    "embedding",     "router", "attention", "dense_mlp", "routed_expert",
    "shared_expert", "ssm",    "norm",      "output",    "other"};

constexpr std::array<std::string_view, kResultTables> kTableNames = {"matrix", "imatrix",
                                                                     "product"};

constexpr std::array<std::string_view, 23> kRoleNames = {"q_proj",
                                                         "k_proj",
                                                         "v_proj",
                                                         "o_proj",
                                                         "qkv_proj",
                                                         "q_a_proj",
                                                         "q_b_proj",
                                                         "kv_a_proj",
                                                         "kv_b_proj",
                                                         "k_b_proj",
                                                         "v_b_proj",
                                                         "gate_proj",
                                                         "up_proj",
                                                         "gate_up_proj",
                                                         "down_proj",
                                                         "router",
                                                         "shared_expert_gate",
                                                         "embed_tokens",
                                                         "lm_head",
                                                         "in_proj",
                                                         "out_proj",
                                                         "x_proj",
                                                         "dt_proj"};
}  // namespace

std::string_view block_name(Block block) { return kBlockNames[static_cast<std::size_t>(block)]; }

std::optional<Block> block_of_name(std::string_view name) {
  const auto found = std::find(kBlockNames.begin(), kBlockNames.end(), name);
  if (found == kBlockNames.end()) {
    return std::nullopt;
  }
  return static_cast<Block>(found - kBlockNames.begin());
}

std::string_view table_name(ResultTable table) {
  return kTableNames[static_cast<std::size_t>(table)];
}

std::optional<ResultTable> table_of_name(std::string_view name) {
  const auto found = std::find(kTableNames.begin(), kTableNames.end(), name);
  if (found == kTableNames.end()) {
    return std::nullopt;
  }
  return static_cast<ResultTable>(found - kTableNames.begin());
}

std::int32_t role_rank(std::string_view role) {
  const auto found = std::find(kRoleNames.begin(), kRoleNames.end(), role);
  return static_cast<std::int32_t>(found - kRoleNames.begin());
}

}  // namespace vindex::model
