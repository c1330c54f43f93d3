// Owns the names and the order of blocks, roles and tables as the results file spells them
// (docs: the results contract, /matrix/).
#include "model_index.hpp"

#include "core/text/text_parts.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace vindex::model {

namespace {
constexpr std::array<std::string_view, 10> kBlockNames = {
    "embedding",     "router", "attention", "dense_mlp", "routed_expert",
    "shared_expert", "ssm",    "norm",      "output",    "other"};

constexpr std::array<std::string_view, kResultTables> kTableNames = {"matrix", "imatrix",
                                                                     "product"};

const std::vector<std::string_view>& role_names() {
  static const auto names = split(
      "q_proj k_proj v_proj o_proj qkv_proj q_a_proj q_b_proj kv_a_proj kv_b_proj k_b_proj "
      "v_b_proj gate_proj up_proj gate_up_proj down_proj router shared_expert_gate embed_tokens "
      "lm_head in_proj out_proj x_proj dt_proj",
      ' ');
  return names;
}

template <typename Enumeration, std::size_t Count>
std::optional<Enumeration> enumerator_of(const std::array<std::string_view, Count>& names,
                                         std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt
                              : std::optional(static_cast<Enumeration>(found - names.begin()));
}

}  // namespace

std::string_view block_name(Block block) { return kBlockNames[static_cast<std::size_t>(block)]; }

std::optional<Block> block_of_name(std::string_view name) {
  return enumerator_of<Block>(kBlockNames, name);
}

std::string_view table_name(ResultTable table) {
  return kTableNames[static_cast<std::size_t>(table)];
}

std::optional<ResultTable> table_of_name(std::string_view name) {
  return enumerator_of<ResultTable>(kTableNames, name);
}

std::int32_t role_rank(std::string_view role) {
  const std::vector<std::string_view>& names = role_names();
  return static_cast<std::int32_t>(std::find(names.begin(), names.end(), role) - names.begin());
}

}  // namespace vindex::model
