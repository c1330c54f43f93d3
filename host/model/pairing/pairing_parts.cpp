// Owns the record of a fused matrix that the other model stores as two, and the height of a head.
#include "pairing.hpp"

#include "model/config/model_config.hpp"

#include <vector>

namespace vindex::model {

MatrixRecord record_of_parts(const ModelIndex& index, const std::vector<std::int64_t>& parts,
                             const MatrixRecord& whole) {
  const MatrixRecord& key = index.matrices[static_cast<std::size_t>(parts.at(0))];
  const MatrixRecord& value = index.matrices[static_cast<std::size_t>(parts.at(1))];
  MatrixRecord record;
  record.tensor = key.tensor + " + " + value.tensor;
  record.layer = key.layer;
  record.block = key.block;
  record.role = whole.role;
  record.shard = key.shard;
  record.rows = whole.rows;
  record.cols = whole.cols;
  record.encoding = key.encoding;
  if (value.encoding.label != key.encoding.label) {
    record.encoding.label += " + " + value.encoding.label;
  }
  return record;
}

std::int64_t head_height(const input::ModelFiles& files, const std::string& role,
                         std::int64_t rows) {
  std::vector<Warning> known_warnings;
  Claims claims(files, known_warnings);
  auto heads = claims.number({"num_attention_heads", "n_head", "n_heads", "num_heads"},
                             {"attention.head_count"});
  if (role == "k_proj") {
    const auto shared = claims.number({"num_key_value_heads", "num_kv_heads", "kv_n_heads"},
                                      {"attention.head_count_kv"});
    heads = shared ? shared : heads;
  }
  if (!heads || heads->value == 0 || heads->value > static_cast<std::uint64_t>(rows)) {
    return 0;
  }
  const auto count = static_cast<std::int64_t>(heads->value);
  const std::int64_t height = rows / count;
  return rows % count == 0 && height % 2 == 0 ? height : 0;
}

}  // namespace vindex::model
