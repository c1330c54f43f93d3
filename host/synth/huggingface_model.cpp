// Owns the shards of a planned model, its index and its configuration, tensor after tensor.
#include "model_plan.hpp"

#include "core/integers.hpp"
#include "core/process/parallel.hpp"
#include "decode/encode/encode.hpp"
#include "write/safetensors_writer.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vindex::synth {
namespace {

using write::SafetensorsTensor;
using write::SafetensorsWriter;

// Where one stored tensor goes.
struct Place {
  std::size_t shard = 0;
  std::size_t index = 0;  // within the shard's list
};

// The stored tensors of one logical tensor: codes, then scale and shape where it has them.
struct StoredSet {
  std::vector<SafetensorsTensor> tensors;
  std::vector<Place> places;
};

StoredSet stored_set(const PlannedTensor& planned) {
  const decode::Encoding& encoding = planned.encoding;
  const std::int64_t rows = planned.recipe.rows;
  const std::int64_t cols = planned.recipe.cols;
  using decode::ElementType;
  StoredSet set;
  if (encoding.scheme == decode::Scheme::kFp8Block) {
    set.tensors = {
        {planned.name, ElementType::kF8E4M3, {rows, cols}},
        {planned.name + "_scale_inv",
         ElementType::kF32,
         {ceil_divide(rows, encoding.block_rows), ceil_divide(cols, encoding.block_cols)}}};
  } else if (encoding.scheme == decode::Scheme::kPackedInt) {
    set.tensors = {
        {planned.name + "_packed", ElementType::kI32, {rows, cols / 8}},
        {planned.name + "_scale", ElementType::kBF16, {rows, cols / encoding.block_cols}},
        {planned.name + "_shape", ElementType::kI32, {2}}};
  } else if (planned.is_vector) {
    set.tensors = {{planned.name, encoding.type, {cols}}};
  } else {
    set.tensors = {{planned.name, encoding.type, {rows, cols}}};
  }
  return set;
}

using Shards = std::vector<std::vector<SafetensorsTensor>>;

// Fills shards in the plan's order.
Shards assign_shards(const ModelPlan& plan, std::vector<StoredSet>& sets) {
  Shards shards(1);
  std::uint64_t filled = 0;
  const auto& breaks = plan.break_after_codes_of;
  for (std::size_t t = 0; t < sets.size(); ++t) {
    for (std::size_t part = 0; part < sets[t].tensors.size(); ++part) {
      const SafetensorsTensor& tensor = sets[t].tensors[part];
      const std::uint64_t bytes = stored_bytes(tensor);
      if (filled > 0 && filled + bytes > plan.shard_bytes) {
        shards.emplace_back();
        filled = 0;
      }
      sets[t].places.push_back({shards.size() - 1, shards.back().size()});
      shards.back().push_back(tensor);
      filled += bytes;
      if (part == 0 &&
          std::find(breaks.begin(), breaks.end(), plan.tensors[t].name) != breaks.end()) {
        shards.emplace_back();
        filled = 0;
      }
    }
  }
  return shards;
}

std::string shard_name(std::size_t shard, std::size_t count) {
  return count == 1 ? std::string("model.safetensors")
                    : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, count);
}

std::string index_text(const Shards& shards) {
  std::uint64_t total = 0;
  std::map<std::string, std::string> files;
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    for (const SafetensorsTensor& tensor : shards[shard]) {
      total += stored_bytes(tensor);
      files[tensor.name] = shard_name(shard, shards.size());
    }
  }
  return write::safetensors_index_text(total, files);
}

// What one thread holds: the largest matrix as floats and as codes with scales.
struct Buffers {
  std::vector<float> weights;
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
};

std::uint64_t largest_buffers(const ModelPlan& plan) {
  std::int64_t most = 1;
  for (const PlannedTensor& tensor : plan.tensors) {
    most = std::max(most, tensor.recipe.rows * tensor.recipe.cols);
  }
  return static_cast<std::uint64_t>(most) * 6;
}

}  // namespace

void write_huggingface_model(const ModelPlan& plan, write::OutputFolder& folder) {
  std::vector<StoredSet> sets;
  for (const PlannedTensor& tensor : plan.tensors) {
    sets.push_back(stored_set(tensor));
  }
  const Shards shards = assign_shards(plan, sets);
  std::vector<std::unique_ptr<SafetensorsWriter>> writers;
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    AtomicFile& file = folder.create(shard_name(shard, shards.size()));
    writers.push_back(std::make_unique<SafetensorsWriter>(
        file, shards[shard], write::SafetensorsMetadata{{"format", "pt"}},
        write::TensorOrder::kWidestFirst));
  }

  std::vector<TruthRow> truth(plan.tensors.size());
  std::vector<Buffers> buffers(thread_count(largest_buffers(plan)));
  for_each_index(plan.tensors.size(), buffers.size(), [&](std::size_t worker, std::size_t t) {
    const PlannedTensor& tensor = plan.tensors[t];
    const Recipe& recipe = tensor.recipe;
    const auto size = decode::encoded_size(tensor.encoding, recipe.rows, recipe.cols);
    expects(size.has_value(), "write_huggingface_model: a plan whose encodings fit");
    auto& [weights, codes, scales] = buffers[worker];
    weights.resize(static_cast<std::size_t>(recipe.rows * recipe.cols));
    codes.resize(size->code_bytes);
    scales.resize(size->scale_bytes);
    draw_weights(recipe, weights);
    const auto loss = decode::encode_matrix(tensor.encoding, weights.data(), recipe.rows,
                                            recipe.cols, recipe.cols, codes, scales);
    const auto write_part = [&](std::size_t part, std::span<const std::byte> bytes) {
      const Place place = sets[t].places[part];
      writers[place.shard]->write(place.index, 0, bytes);
    };
    write_part(0, codes);
    if (size->scale_bytes > 0) {
      write_part(1, scales);
    }
    if (sets[t].tensors.size() > 2) {
      const std::array<std::int32_t, 2> shape = {static_cast<std::int32_t>(recipe.rows),
                                                 static_cast<std::int32_t>(recipe.cols)};
      write_part(2, std::as_bytes(std::span(shape)));
    }
    truth[t] = {tensor.name, -1, tensor.encoding.label, recipe, loss, "", recipe.rows, recipe.cols};
  });

  for (const auto& writer : writers) {
    writer->finish();
  }
  folder.write_text("config.json", plan.config);
  if (shards.size() > 1) {
    folder.write_text("model.safetensors.index.json", index_text(shards));
  }
  std::vector<TruthRow> matrices;
  for (std::size_t t = 0; t < truth.size(); ++t) {
    if (!plan.tensors[t].is_vector) {
      matrices.push_back(std::move(truth[t]));
    }
  }
  folder.write_text("truth.json", truth_text(plan.spec, plan.seed, matrices));
  folder.publish();
}

}  // namespace vindex::synth
