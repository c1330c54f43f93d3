// Owns the JSON document and the text of an inspection.
#include "inspect.hpp"

#include "core/json/json_document.hpp"
#include "core/text/size_text.hpp"
#include "core/text/text_table.hpp"
#include "core/text/utf8.hpp"
#include "input/open/open_model.hpp"
#include "input/verify_files.hpp"
#include "model/families/architecture_facts.hpp"
#include "model/index/index_model.hpp"
#include "model/products/product.hpp"
#include "model/selection/selection.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace vindex::model {

namespace {

/// A row of by_block: matrices of one kind and shape.
struct Group {
  std::int64_t matrices = 0;
  std::uint64_t bytes = 0;
};

/// Ordered as the results are: block, role's rank, then the names and sides.
using InspectGroupKey =
    std::tuple<Block, std::int32_t, std::string, std::string, std::int64_t, std::int64_t>;

/// Of the codes and what belongs to them.
std::uint64_t encoded_bytes(const MatrixRecord& matrix) {
  std::uint64_t bytes = matrix.codes.bytes;
  for (const CompanionPart& companion : matrix.companions) {
    bytes += companion.part.bytes;
  }
  return bytes;
}

std::map<InspectGroupKey, Group> groups_of(const ModelIndex& index) {
  std::map<InspectGroupKey, Group> groups;
  const MatrixRecord* previous = nullptr;
  Group* group = nullptr;  // of `previous`: neighbours are mostly alike
  for (const MatrixRecord& matrix : index.matrices) {
    if (matrix.table != ResultTable::kMatrix) {
      continue;
    }
    if (previous == nullptr || matrix.block != previous->block || matrix.role != previous->role ||
        matrix.rows != previous->rows || matrix.cols != previous->cols ||
        matrix.encoding.label != previous->encoding.label) {
      group = &groups[{matrix.block, role_rank(matrix.role), matrix.role, matrix.encoding.label,
                       matrix.rows, matrix.cols}];
    }
    previous = &matrix;
    ++group->matrices;
    group->bytes += encoded_bytes(matrix);
  }
  return groups;
}

std::int64_t matrix_count(const ModelIndex& index) {
  return std::count_if(
      index.matrices.begin(), index.matrices.end(),
      [](const MatrixRecord& matrix) { return matrix.table == ResultTable::kMatrix; });
}

/// The LoRA pairs of an adapter that can be measured.
struct PairTotals {
  std::int64_t pairs = 0;
  std::int64_t min_rank = 0, max_rank = 0;
};

PairTotals pairs_of(const ModelIndex& index) {
  PairTotals totals;
  for (const MatrixRecord& matrix : index.matrices) {
    if (matrix.product == nullptr || !matrix.unsupported.empty()) {
      continue;
    }
    const std::int64_t rank = matrix.product->rank();
    totals.min_rank = totals.pairs == 0 ? rank : std::min(totals.min_rank, rank);
    totals.max_rank = std::max(totals.max_rank, rank);
    ++totals.pairs;
  }
  return totals;
}

struct Totals {
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
};

Totals totals_of(const input::ModelFiles& files, const ModelIndex& index) {
  Totals totals;
  for (const TensorRecord& tensor : index.tensors) {
    totals.parameters += static_cast<std::uint64_t>(tensor.count);
  }
  for (const input::StoredTensor& tensor : files.tensors) {
    totals.bytes += tensor.bytes;
  }
  return totals;
}

std::string_view format_name(const input::ModelFiles& files) {
  return files.format == input::ContainerFormat::kGguf ? "gguf" : "safetensors";
}

/// `text` where it is valid UTF-8, so that scripts see the name itself; else what people see.
std::string json_text(const std::string& text) { return is_utf8(text) ? text : printable(text); }

Json number_or_null(const std::optional<std::int64_t>& number) {
  return number ? Json(*number) : Json(nullptr);
}

/// `text` as a JSON string. Names are plain ASCII but for hostile ones.
std::string quoted(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
  });
  return plain ? fmt::format("\"{}\"", text) : Json(json_text(text)).dump();
}

/// The list as text, a tensor a line: a document of 200,000 objects would take longer to build and
/// to print than the model to read.
std::string tensor_list(const input::ModelFiles& files, const ModelIndex& index) {
  std::string list;
  for (const TensorRecord& tensor : index.tensors) {
    std::string stored;
    std::uint64_t bytes = 0;
    for (const std::int32_t i : tensor.stored) {
      const input::StoredTensor& part = files.tensors[static_cast<std::size_t>(i)];
      stored += (stored.empty() ? "" : ",") + quoted(part.name);
      bytes += part.bytes;
    }
    fmt::format_to(std::back_inserter(list),
                   R"({}    {{"name": {}, "stored": [{}], "block": {}, "role": {}, "layer": {}, )"
                   R"("shape": [{}], "encoding": {}, "count": {}, "bytes": {}, "in_matrix": {}, )"
                   R"("reason": {}}})",
                   list.empty() ? "\n" : ",\n", quoted(tensor.name), stored,
                   quoted(std::string(block_name(tensor.block))), quoted(tensor.role), tensor.layer,
                   fmt::join(tensor.shape, ","), quoted(tensor.encoding), tensor.count, bytes,
                   tensor.in_matrix, quoted(tensor.reason));
  }
  return list;
}

/// What of the matrices can be measured, and what reading them costs.
std::string measurable_text(const ModelIndex& index) {
  std::int64_t count = 0;
  std::uint64_t bytes = 0;
  for (const MatrixRecord& matrix : index.matrices) {
    if (matrix.table == ResultTable::kMatrix && matrix.unsupported.empty()) {
      ++count;
      bytes += encoded_bytes(matrix);
    }
  }
  return fmt::format("{}, {} to read", count, data_text(bytes));
}

std::string optional_text(const std::optional<std::int64_t>& number) {
  return number ? fmt::format("{}", *number) : "-";
}

std::string sides_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

std::string inspect_json(const input::ModelFiles& files, const ModelIndex& index,
                         bool with_tensor_list) {
  const Totals totals = totals_of(files, index);
  Json document = {{"schema", "vindex-inspect/1"},
                   {"model", json_text(files.path)},
                   {"format", format_name(files)},
                   {"architecture", json_text(index.shape.architecture)},
                   {"layers", number_or_null(index.shape.layers)},
                   {"experts", number_or_null(index.shape.experts)},
                   {"experts_per_token", number_or_null(index.shape.experts_per_token)},
                   {"shared_experts", number_or_null(index.shape.shared_experts)},
                   {"dense_first_layers", number_or_null(index.shape.dense_first_layers)},
                   {"quantisation", json_text(index.shape.quantisation)},
                   {"tensors", index.tensors.size()},
                   {"matrices", matrix_count(index)},
                   {"parameters", totals.parameters},
                   {"bytes", totals.bytes}};
  Json by_block = Json::array();
  for (const auto& [key, group] : groups_of(index)) {
    const auto& [block, rank, role, encoding, rows, cols] = key;
    by_block.push_back({{"block", block_name(block)},
                        {"role", json_text(role)},
                        {"encoding", encoding},
                        {"matrices", group.matrices},
                        {"rows", rows},
                        {"cols", cols},
                        {"bytes", group.bytes}});
  }
  document["by_block"] = std::move(by_block);
  Json warnings = Json::array();
  for (const auto* list : {&files.warnings, &index.warnings}) {
    for (const Warning& warning : *list) {
      warnings.push_back({{"id", warning.id}, {"text", json_text(warning.text)}});
    }
  }
  if (const PairTotals pairs = pairs_of(index); pairs.pairs > 0) {
    document["lora"] = {
        {"pairs", pairs.pairs}, {"least_rank", pairs.min_rank}, {"most_rank", pairs.max_rank}};
  }
  document["warnings"] = std::move(warnings);
  document["attention"] = architecture_json(architecture_facts(files));
  std::string text = document.dump(2);
  if (with_tensor_list) {
    text.resize(text.size() - 2);  // without the last line break and brace
    text += ",\n  \"tensor_list\": [" + tensor_list(files, index) + "\n  ]\n}";
  }
  return text + '\n';
}

std::string inspect_text(const input::ModelFiles& files, const ModelIndex& index,
                         bool with_tensor_list, const InspectWidths& widths) {
  const Totals totals = totals_of(files, index);
  const ModelShape& shape = index.shape;
  std::string out = fmt::format("{}\n", printable(files.path));
  out += table_text(
      {{"format", fmt::format("{}, {} file{}", format_name(files), files.shards.size(),
                              files.shards.size() == 1 ? "" : "s")},
       {"architecture", printable(shape.architecture)},
       {"layers", optional_text(shape.layers)},
       {"experts", shape.experts
                       ? fmt::format("{}, {} per token, {} shared, {} dense layers first",
                                     *shape.experts, optional_text(shape.experts_per_token),
                                     optional_text(shape.shared_experts),
                                     optional_text(shape.dense_first_layers))
                       : std::string("-")},
       {"quantisation", printable(shape.quantisation)},
       {"parameters", fmt::format("{}", totals.parameters)},
       {"size", data_text(totals.bytes)},
       {"tensors", fmt::format("{}", index.tensors.size())},
       {"matrices", fmt::format("{}", matrix_count(index))},
       {"measurable", measurable_text(index)}},
      {{}, {.min_width = 20, .keep = Keep::kStart}}, widths.tables, 2);
  if (const PairTotals pairs = pairs_of(index); pairs.pairs > 0) {
    out += fmt::format(
        "  an adapter: {} LoRA pair{} of rank {}{}\n", pairs.pairs, pairs.pairs == 1 ? "" : "s",
        pairs.min_rank,
        pairs.max_rank == pairs.min_rank ? std::string() : fmt::format(" to {}", pairs.max_rank));
  }

  std::vector<std::vector<std::string>> rows = {
      {"block", "role", "encoding", "count", "rows", "cols", "size"}};
  for (const auto& [key, group] : groups_of(index)) {
    const auto& [block, rank, role, encoding, height, width] = key;
    rows.push_back({std::string(block_name(block)), printable(role), encoding,
                    fmt::format("{}", group.matrices), fmt::format("{}", height),
                    fmt::format("{}", width), data_text(group.bytes)});
  }
  out += '\n' + table_text(rows,
                           {{.min_width = 8},
                            {.min_width = 8},
                            {.min_width = 10},
                            {.right = true},
                            {.right = true},
                            {.right = true},
                            {.right = true}},
                           widths.tables);

  if (with_tensor_list) {
    rows = {{"tensor", "block", "role", "encoding", "shape", "note"}};
    for (const TensorRecord& tensor : index.tensors) {
      rows.push_back({printable(tensor.name), std::string(block_name(tensor.block)),
                      printable(tensor.role), tensor.encoding, sides_text(tensor.shape),
                      printable(tensor.reason)});
    }
    out += '\n' +
           table_text(
               rows,
               {{.min_width = 24}, {.dropped_as = 1}, {.dropped_as = 2}, {.min_width = 10}, {}, {}},
               widths.list);
  }
  if (const std::string unmeasured = unmeasured_text(index); !unmeasured.empty()) {
    out += '\n' + wrapped_text("note: " + unmeasured, widths.tables, 6) + '\n';
  }
  for (const auto* list : {&files.warnings, &index.warnings}) {
    for (const Warning& warning : *list) {
      out += fmt::format("warning {}: {}\n", warning.id, printable(warning.text));
    }
  }
  return out;
}

std::string inspect_model(const InspectSettings& settings, const InspectWidths& widths) {
  // Static, so that nothing is given back: freeing a million names one by one takes as long as
  // reading them.
  static const input::ModelFiles& files = *new input::ModelFiles(input::open_model(
      settings.model, {.model_config = settings.model_config, .adapter = settings.lora}));
  static const ModelIndex& index =
      *new ModelIndex(index_model(files, {.reshape_out = settings.reshape_out,
                                          .lora = settings.lora,
                                          .tied = TiedOutput::kComparePlaces}));
  if (settings.verify) {
    input::verify_files(files, 0, {});
  }
  return settings.json ? inspect_json(files, index, settings.tensor_list) + "\n"
                       : inspect_text(files, index, settings.tensor_list, widths);
}

}  // namespace vindex::model
