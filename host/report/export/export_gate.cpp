// Owns the export `gate-vectors`, the MoE vindex layout:
//   gate_vectors.bin         float32, little-endian, [moe_layers, n_experts, num_feats, hidden], no
//                            header: the top right singular vectors of every expert's gate_proj
//   gate_vectors_index.json  model_config.moe {n_routed_experts, hidden_size}, num_feats,
//                            layers {"L": {file_offset (bytes), shape, median_var64, q25_var64,
//                            q75_var64}}
// (Source: the public index of Divinci-AI's kimi-k2-instruct-vindex.) Singular values, which that
// layout leaves out, stand beside the vectors in /vectors/.
#include "export_gate.hpp"

#include "core/json/json_document.hpp"
#include "report/text/text_sink.hpp"
#include "statistics/samples/quantile.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <bit>
#include <map>

namespace vindex::report {

namespace {

using Experts = std::map<std::int32_t, const results::StoredRow*>;

[[noreturn]] void cannot(const std::string& why) {
  throw UsageError("E-EXPORT-VECTORS", "gate-vectors: " + why);
}

std::map<std::int32_t, Experts> gate_layers(const std::vector<results::StoredRow>& rows) {
  std::map<std::int32_t, Experts> layers;
  bool any = false;
  for (const results::StoredRow& row : rows) {
    any = any || row.vector_count > 0;
    if (row.block == model::Block::kRoutedExpert && row.role == "gate_proj") {
      layers[row.layer][row.expert >= 0 ? row.expert : row.slice] = &row;
    }
  }
  if (!any) {
    cannot("the file holds no singular vectors; measure with --vectors K");
  }
  if (layers.empty()) {
    cannot("the file has no gate_proj of routed experts");
  }
  return layers;
}

/// The layout has a place for every expert.
void require_all_drawn(const std::map<std::int32_t, Experts>& layers) {
  for (const auto& [layer, experts] : layers) {
    const results::StoredRow& first = *experts.begin()->second;
    if (first.draw_of > static_cast<std::int64_t>(experts.size())) {
      throw UsageError("E-EXPORT-SAMPLE",
                       fmt::format("gate-vectors: the file is a sample, {} of {} experts of layer "
                                   "{}; measure the others first (--sample {})",
                                   experts.size(), first.draw_of, layer, first.draw_of));
    }
  }
}

void require_uniform(const std::map<std::int32_t, Experts>& layers) {
  const results::StoredRow& first = *layers.begin()->second.begin()->second;
  for (const auto& [layer, experts] : layers) {
    if (experts.size() != layers.begin()->second.size()) {
      cannot(fmt::format("layer {} has {} experts, layer {} has {}", layer, experts.size(),
                         layers.begin()->first, layers.begin()->second.size()));
    }
    for (const auto& [expert, row] : experts) {
      if (row->vector_count != first.vector_count || row->cols != first.cols) {
        cannot(fmt::format("{} has {} vectors of length {}, {} has {} of length {}",
                           printable(row->tensor), row->vector_count, row->cols,
                           printable(first.tensor), first.vector_count, first.cols));
      }
    }
  }
}

}  // namespace

void export_gate_vectors(ExportInput& input, const std::string& folder) {
  static_assert(std::endian::native == std::endian::little, "the layout is little-endian");
  const std::map<std::int32_t, Experts> layers = gate_layers(input.rows);
  require_all_drawn(layers);
  require_uniform(layers);
  const results::StoredRow& first = *layers.begin()->second.begin()->second;
  const std::size_t experts = layers.begin()->second.size();
  make_output_folder(folder);
  const std::string target = folder + "/gate_vectors.bin";
  AtomicFile file(target);
  Json index;
  index["schema"] = "vindex-gate-vectors/1";
  index["model"] = input.reader.description().model;
  index["dtype"] = "float32";
  index["model_config"]["moe"] = {{"n_routed_experts", experts}, {"hidden_size", first.cols}};
  index["num_feats"] = first.vector_count;
  Json& entries = index["layers"] = Json::object();
  std::uint64_t offset = 0;
  for (const auto& [layer, members] : layers) {
    std::vector<double> var64;
    const std::uint64_t start = offset;
    for (const auto& [expert, row] : members) {
      const SingularVectors vectors = input.reader.spectra().read_vectors(row->bulk.row);
      const std::span<const std::byte> bytes = std::as_bytes(std::span(vectors.right));
      file.write(offset, bytes);
      offset += bytes.size();
      var64.push_back(var_at_64(*row));
    }
    Json& entry = entries[std::to_string(layer)];
    entry["file_offset"] = start;
    entry["shape"] = {experts, first.vector_count, first.cols};
    entry["median_var64"] = Json(statistics::quantile(var64, 0.5));
    entry["q25_var64"] = Json(statistics::quantile(var64, 0.25));
    entry["q75_var64"] = Json(statistics::quantile(var64, 0.75));
    entry["var64_null"] = Json(var_at_64_null(*members.begin()->second));
  }
  file.publish();
  TextSink sink(folder + "/gate_vectors_index.json");
  sink.write(index.dump(2) + "\n");
  sink.finish();
}

}  // namespace vindex::report
