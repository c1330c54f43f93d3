// Owns that search, and reading the values of small tensors.
#include "transformer_tensors.hpp"

#include "core/integers.hpp"
#include "decode/decode_matrix.hpp"
#include "model/families/families.hpp"
#include "model/schemes/weight.hpp"
#include "model/selection/selection.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::model {

namespace {

constexpr std::string_view kTensor = "E-TRACE-TENSOR";

/// "3 {layer}.self_attn.q_proj.bias": of one tensor under every wrapper's name.
std::string place_name(const TensorName& name) {
  std::string text = fmt::format("{} {}", name.layer, name.key);
  for (std::size_t i = 0; i < name.number_count; ++i) {
    text += fmt::format(" {}", name.numbers[i]);
  }
  // A name that ends in _bias says so in its key.
  if (name.bias && !name.key.ends_with("bias")) {
    text += " bias";
  }
  return text;
}

/// The number of values, and whether they are a list: all sides but one are 1.
std::optional<std::int64_t> vector_length(const input::StoredTensor& tensor) {
  std::int64_t length = 1;
  for (const std::int64_t side : tensor.shape) {
    if (side < 1 || (side > 1 && length > 1)) {
      return std::nullopt;
    }
    length = std::max(length, side);
  }
  return length;
}

}  // namespace

TransformerTensors::TransformerTensors(const input::ModelFiles& files, const ModelIndex& index,
                                       Dialect dialect)
    : files_(files), index_(index), dialect_(dialect) {
  used_tensors_.assign(files.tensors.size(), false);
  used_matrices_.assign(index.matrices.size(), false);
  names_.reserve(files.tensors.size());
  TensorName name;
  for (std::size_t i = 0; i < files.tensors.size(); ++i) {
    read_tensor_name(files.tensors[i].name, dialect, name);
    if (!name.tower) {
      names_.try_emplace(place_name(name), static_cast<std::int32_t>(i));
      last_layer_ = std::max(last_layer_, name.layer);
    }
  }
  for (std::size_t i = 0; i < index.matrices.size(); ++i) {
    const MatrixRecord& matrix = index.matrices[i];
    if (matrix.table == ResultTable::kMatrix && matrix.expert < 0) {
      places_[{matrix.layer, matrix.block, matrix.role}].push_back(static_cast<std::int64_t>(i));
    }
  }
  add_features(FeatureRole::kGate);
  add_features(FeatureRole::kUp);
}

void TransformerTensors::add_features(FeatureRole role) {
  for (const FeatureMatrix& one : feature_matrices(files_, index_, {}, role)) {
    const MatrixRecord& matrix = record(one.matrix);
    Features& there = features_[{matrix.layer, matrix.block, matrix.expert}];
    bool& has = role == FeatureRole::kGate ? there.has_gate : there.has_up;
    if (has) {
      refuse(fmt::format("{} is one of two for the same part of a feed-forward", name(one.matrix)));
    }
    has = true;
    (role == FeatureRole::kGate ? there.gate : there.up) = one;
  }
}

void TransformerTensors::refuse(const std::string& why) const {
  throw FormatError(std::string(kTensor), printable(files_.path), why);
}

std::optional<std::int32_t> TransformerTensors::stored(std::int32_t layer,
                                                       std::string_view name) const {
  const auto found = names_.find(layer < 0 ? fmt::format("-1 {}", name)
                                           : fmt::format("{} {{layer}}.{}", layer, name));
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

VectorRef TransformerTensors::find_vector(std::int32_t layer, std::string_view name,
                                          std::int64_t count) {
  const auto tensor = stored(layer, name);
  return tensor ? stored_vector(*tensor, count) : VectorRef();
}

VectorRef TransformerTensors::stored_vector(std::int32_t tensor, std::int64_t count) {
  const input::StoredTensor& found = files_.tensors[static_cast<std::size_t>(tensor)];
  if (vector_length(found) != count) {
    refuse(fmt::format("{} is {}, where {} values are needed", printable(found.name),
                       shape_text(found.shape), count));
  }
  used_tensors_[static_cast<std::size_t>(tensor)] = true;
  return {.tensor = tensor, .count = count};
}

VectorRef TransformerTensors::vector(std::int32_t layer, std::string_view name,
                                     std::int64_t count) {
  const VectorRef found = find_vector(layer, name, count);
  if (!found) {
    refuse(layer < 0 ? fmt::format("there is no {}", name)
                     : fmt::format("layer {} has no {}", layer, name));
  }
  return found;
}

std::int64_t TransformerTensors::find(std::int32_t layer, Block block,
                                      std::string_view role) const {
  const auto found = places_.find({layer, block, role});
  if (found == places_.end()) {
    return -1;
  }
  if (found->second.size() > 1) {
    refuse(fmt::format("{} and {} are both {} of layer {}", name(found->second[0]),
                       name(found->second[1]), role, layer));
  }
  return found->second.front();
}

std::vector<std::int64_t> TransformerTensors::slices(std::int32_t layer, Block block,
                                                     std::string_view role) const {
  const auto found = places_.find({layer, block, role});
  std::vector<std::int64_t> ordered =
      found == places_.end() ? std::vector<std::int64_t>() : found->second;
  std::sort(ordered.begin(), ordered.end(),
            [&](std::int64_t a, std::int64_t b) { return record(a).slice < record(b).slice; });
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (record(ordered[i]).slice != static_cast<std::int32_t>(i)) {
      refuse(fmt::format("slice {} is not where {} should be", name(ordered[i]), i));
    }
  }
  return ordered;
}

void TransformerTensors::require_shape(std::int64_t index, std::int64_t rows, std::int64_t cols) {
  const MatrixRecord& matrix = record(index);
  if (!matrix.unsupported.empty()) {
    refuse(fmt::format("{}: {}", name(index), matrix.unsupported));
  }
  if ((rows >= 0 && matrix.rows != rows) || (cols >= 0 && matrix.cols != cols)) {
    const auto shown = [](std::int64_t side) {
      return side < 0 ? std::string("any") : std::to_string(side);
    };
    refuse(fmt::format("{} is {} x {}, where {} x {} is needed", name(index), matrix.rows,
                       matrix.cols, shown(rows), shown(cols)));
  }
  used_matrices_[static_cast<std::size_t>(index)] = true;
}

std::int64_t TransformerTensors::matrix(std::int32_t layer, Block block, std::string_view role,
                                        std::int64_t rows, std::int64_t cols) {
  const std::int64_t index = find(layer, block, role);
  if (index < 0) {
    refuse(layer < 0 ? fmt::format("there is no {}", role)
                     : fmt::format("layer {} has no {}", layer, role));
  }
  require_shape(index, rows, cols);
  return index;
}

Linear TransformerTensors::linear(std::int32_t layer, Block block, std::string_view role,
                                  std::int64_t rows, std::int64_t cols, bool biased) {
  const std::int64_t index = matrix(layer, block, role, rows, cols);
  return rows_of(index, {0, 1, record(index).rows}, biased);
}

Linear TransformerTensors::rows_of(std::int64_t index, const FeatureRows& rows, bool biased) {
  Linear out{.weight = {.matrix = index, .rows = rows}, .bias = {}};
  if (const VectorRef whole = bias_of(index)) {
    out.bias = {.tensor = whole.tensor,
                .first = whole.first + rows.first,
                .step = rows.step,
                .count = rows.count};
  } else if (biased) {
    refuse(fmt::format("{} has no bias", name(index)));
  }
  return out;
}

VectorRef TransformerTensors::bias_of(std::int64_t index) {
  const MatrixRecord& matrix = record(index);
  TensorName parts;
  read_tensor_name(matrix.tensor, dialect_, parts);
  const std::string base = place_name(parts);
  std::optional<std::int32_t> tensor;
  for (const char* suffix : {" bias", "_bias"}) {
    if (const auto found = names_.find(base + suffix); found != names_.end()) {
      tensor = found->second;
      break;
    }
  }
  if (!tensor) {
    return {};
  }
  const input::StoredTensor& found = files_.tensors[static_cast<std::size_t>(*tensor)];
  used_tensors_[static_cast<std::size_t>(*tensor)] = true;
  if (matrix.slice < 0 && vector_length(found) == matrix.rows) {
    return {.tensor = *tensor, .count = matrix.rows};
  }
  if (matrix.slice >= 0 && found.shape.size() == 2 && matrix.slice < found.shape[0] &&
      found.shape[1] == matrix.rows) {
    return {.tensor = *tensor, .first = matrix.slice * matrix.rows, .count = matrix.rows};
  }
  refuse(fmt::format("{} is {}, where one value for each of {} rows is needed",
                     printable(found.name), shape_text(found.shape), matrix.rows));
}

FeedForward TransformerTensors::feed_forward(std::int32_t layer, Block block, std::int32_t expert,
                                             std::int64_t hidden) {
  const auto found = features_.find({layer, block, expert});
  if (found == features_.end()) {
    return {};
  }
  const Features& there = found->second;
  if (!there.has_gate || !there.has_up) {
    refuse(fmt::format("{} has no {} beside it",
                       name(there.has_gate ? there.gate.matrix : there.up.matrix),
                       there.has_gate ? "up_proj" : "gate_proj"));
  }
  const std::int64_t neurons = there.gate.rows.count;
  require_shape(there.gate.matrix, -1, hidden);
  require_shape(there.up.matrix, -1, hidden);
  if (there.up.rows.count != neurons) {
    refuse(fmt::format("{} has {} rows, {} has {}", name(there.up.matrix), there.up.rows.count,
                       name(there.gate.matrix), neurons));
  }
  if (there.gate.down < 0) {
    refuse(fmt::format("{} has no down_proj with {} columns", name(there.gate.matrix), neurons));
  }
  require_shape(there.gate.down, hidden, neurons);
  FeedForward out;
  out.neurons = neurons;
  out.gate = rows_of(there.gate.matrix, there.gate.rows);
  out.up = rows_of(there.up.matrix, there.up.rows);
  out.down = rows_of(there.gate.down, {0, 1, hidden});
  return out;
}

void TransformerTensors::require_all_used(std::int64_t layers) const {
  const auto is_inside = [&](std::int32_t layer) { return layer >= 0 && layer < layers; };
  const auto refuse_name = [&](const std::string& name) {
    refuse(fmt::format("{} is no part of what this family computes", name));
  };
  for (std::size_t i = 0; i < index_.matrices.size(); ++i) {
    const MatrixRecord& matrix = index_.matrices[i];
    // Some GGUF files hold kv_b and what it is made of.
    const bool is_double = matrix.role == "k_b_proj" || matrix.role == "v_b_proj";
    if (matrix.table != ResultTable::kMatrix || !is_inside(matrix.layer) || is_double) {
      continue;
    }
    if (!used_matrices_[i] && !used_tensors_[static_cast<std::size_t>(matrix.codes.tensor)]) {
      refuse_name(matrix_name(matrix));
    }
  }
  TensorName name;
  for (std::size_t i = 0; i < files_.tensors.size(); ++i) {
    read_tensor_name(files_.tensors[i].name, dialect_, name);
    const bool counts =
        is_norm_name(name.last) || name.bias || name.last == "sinks" || name.last == "attn_sinks";
    if (!name.tower && is_inside(name.layer) && counts && !used_tensors_[i]) {
      refuse_name(printable(files_.tensors[i].name));
    }
  }
}

}  // namespace vindex::model
