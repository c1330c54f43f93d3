// Owns the section on indexing a model: every shard's header is read and checked, tensors are put
// together, named and put in order, as `inspect`, `plan` and `measure` begin. The model is one of
// many experts in INT4 with scales and shapes beside the codes; its data are holes that take no
// room.
#include "section.hpp"

#include "core/integers.hpp"
#include "core/json/json_document.hpp"
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "model/index/index_model.hpp"
#include "model/model_index.hpp"
#include "write/output_folder.hpp"
#include "write/safetensors_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace vindex::throughput {

namespace {

constexpr std::int64_t kExperts = 384;
constexpr std::int64_t kTensorsPerShard = 3240;
constexpr std::int64_t kRows = 64;
constexpr std::int64_t kCols = 256;
constexpr std::int64_t kGroup = 32;
constexpr std::array kRoles = {"gate_proj", "up_proj", "down_proj"};

/// Codes, scales and shape of weight `number`.
std::array<write::SafetensorsTensor, 3> weight_tensors(std::int64_t number) {
  using decode::ElementType;
  const std::int64_t expert = number / 3;
  const std::string base =
      fmt::format("model.layers.{}.mlp.experts.{}.{}.weight", 1 + expert / kExperts,
                  expert % kExperts, kRoles[static_cast<std::size_t>(number % 3)]);
  return {{{base + "_packed", ElementType::kI32, {kRows, kCols / 8}},
           {base + "_scale", ElementType::kBF16, {kRows, kCols / kGroup}},
           {base + "_shape", ElementType::kI64, {2}}}};
}

/// Writes shards, index and configuration of a model of about `tensors` stored tensors.
void write_model(std::int64_t tensors, const std::string& path) {
  const std::int64_t weights = std::max<std::int64_t>(tensors / 3, 1);
  const std::int64_t per_shard = kTensorsPerShard / 3;
  const std::int64_t shards = ceil_divide(weights, per_shard);
  write::OutputFolder folder(path);
  std::map<std::string, std::string> map;
  std::uint64_t bytes = 0;
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
    std::vector<write::SafetensorsTensor> stored;
    for (std::int64_t i = shard * per_shard; i < std::min(weights, (shard + 1) * per_shard); ++i) {
      for (write::SafetensorsTensor& tensor : weight_tensors(i)) {
        map[tensor.name] = name;
        bytes += write::stored_bytes(tensor);
        stored.push_back(std::move(tensor));
      }
    }
    const std::array<std::int64_t, 2> sides = {kRows, kCols};
    write::SafetensorsWriter writer(folder.create(name), stored, {},
                                    write::TensorOrder::kWidestFirst);
    for (std::size_t i = 2; i < stored.size(); i += 3) {
      writer.write(i, 0, std::as_bytes(std::span(sides)));
    }
  }
  folder.write_text("model.safetensors.index.json", write::safetensors_index_text(bytes, map));
  const Json config = {
      {"model_type", "kimi_k2"},
      {"quantization_config",
       {{"quant_method", "compressed-tensors"},
        {"format", "pack-quantized"},
        {"config_groups",
         {{"group_0",
           {{"weights",
             {{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", kGroup}}},
            {"targets", {"Linear"}}}}}}}}};
  folder.write_text("config.json", config.dump(2));
  folder.publish();
}

}  // namespace

void index_section(Section& section) {
  const BenchSettings& settings = section.settings;
  const ScratchFolder scratch(settings.folder);
  std::string model = settings.model;
  if (model.empty()) {
    model = scratch.file("model");
    section.say(fmt::format("writing {} tensors to {}", settings.index_tensors, printable(model)));
    write_model(settings.index_tensors, model);
  }
  std::size_t tensors = 0;
  std::size_t files = 0;
  std::string encoding = "mixed";
  std::vector<double> processor;
  Row row{.name = "probe.index", .route = "page-cache", .unit = "seconds"};
  row.samples = take_samples(settings.sampling, [&] {
    const double start = wall_seconds();
    const double processor_start = process_seconds();
    const input::ModelFiles opened =
        input::open_model(model, {.model_config = "", .threads = settings.threads});
    const model::ModelIndex index = model::index_model(opened, {.threads = settings.threads});
    const double seconds = wall_seconds() - start;
    processor.push_back(process_seconds() - processor_start);
    tensors = opened.tensors.size();
    files = opened.shards.size();
    const auto& matrices = index.matrices;
    if (!matrices.empty() && std::all_of(matrices.begin(), matrices.end(), [&](const auto& matrix) {
          return matrix.encoding.label == matrices.front().encoding.label;
        })) {
      encoding = matrices.front().encoding.label;
    }
    return seconds;
  });
  if (row.samples.empty()) {
    return;
  }
  processor.erase(processor.begin());  // the warm-up
  row.batch = static_cast<std::int64_t>(tensors);
  row.encoding = encoding;
  row.note = fmt::format("{} tensors in {} files: {:.3g} tensors per second", tensors, files,
                         static_cast<double>(tensors) / best_of(row));
  Row times = row;
  times.name = "probe.index.processor";
  times.samples = processor;
  times.note = "user and system time of all threads";
  section.add(std::move(row));
  section.add(std::move(times));
}

}  // namespace vindex::throughput
