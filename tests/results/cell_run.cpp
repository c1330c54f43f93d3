// Owns the descriptions and rows of these runs, by kind of file.
#include "cell_run.hpp"

#include "commands/cka/cka_cells.hpp"
#include "commands/experts/experts_cells.hpp"
#include "commands/token_tables/activations_cells.hpp"
#include "commands/token_tables/routing_cells.hpp"
#include "commands/trace/output/trace_cells.hpp"
#include "results/runs/run_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vindex::results::testing {

namespace {

constexpr std::int64_t kExperts = 4;
constexpr std::size_t kSide = kExperts;

/// A number of (row, column) that every share, cosine and lift may be.
double small(std::int64_t row, std::size_t column) {
  return 0.1 + 0.01 * static_cast<double>(row) + 0.001 * static_cast<double>(column);
}

/// A symmetric square with `diagonal`.
ArrayCell square(std::int64_t row, std::size_t number, float diagonal) {
  std::vector<float> values(kSide * kSide);
  for (std::size_t i = 0; i < kSide; ++i) {
    for (std::size_t j = 0; j < kSide; ++j) {
      values[i * kSide + j] =
          i == j ? diagonal
                 : static_cast<float>(small(row, number)) + 0.01F * static_cast<float>(i + j);
    }
  }
  return ArrayCell(std::move(values));
}

ArrayCell falling(std::int64_t row, std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = (1.0 + 0.1 * static_cast<double>(row)) / static_cast<double>(i + 1);
  }
  return ArrayCell(std::move(values));
}

ArrayCell loads(std::int64_t row) {
  const double tilt = 0.01 * static_cast<double>(row + 1);
  return ArrayCell(std::vector<double>{0.25 + 2 * tilt, 0.25, 0.25, 0.25 - 2 * tilt});
}

ArrayCell constant(std::size_t count, double value) {
  return ArrayCell(std::vector<double>(count, value));
}

}  // namespace

std::vector<FileSchema> cell_kinds() {
  std::vector<FileSchema> kinds;
  for (const Schema& schema : schemas()) {
    // Pairs and stored features have tests of their own.
    if (!schema.has_spectra && schema.id != FileSchema::kCompare &&
        schema.id != FileSchema::kGateVectors) {
      kinds.push_back(schema.id);
    }
  }
  return kinds;
}

RunDescription cell_run(FileSchema schema, std::int32_t layers) {
  RunDescription run;
  run.schema = schema;
  run.model = "tiny";
  run.backend = "cpu";
  run.title = "a test";
  run.history = "vindex test";
  run.command_json = run.settings_json = run.inputs_json = run.environment_json = "{}";
  run.config_json = R"({"experts": 4})";
  run.fingerprint = {{"numeric version", "1"}};
  const CellTable& table = *schema_of(schema).cells;
  const char* role = schema == FileSchema::kExperts   ? "gate_proj"
                     : schema == FileSchema::kCka     ? "hidden"
                     : schema == FileSchema::kRouting ? "router_logits"
                     : schema == FileSchema::kTrace   ? "hidden"
                                                      : "mlp";
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    model::MatrixRecord record;
    record.tensor = fmt::format("{}.{}", role, layer);
    record.layer = layer;
    record.block =
        schema == FileSchema::kExperts ? model::Block::kRoutedExpert : model::Block::kOther;
    record.role = role;
    record.rows = 64;
    record.cols = schema == FileSchema::kRouting ? kExperts : 16;
    record.encoding.label = "F32";
    run.matrices.push_back(record);
  }
  for (const ScaleColumn& scale : table.scales) {
    run.scales.emplace(scale.name, scale.name == "threshold"
                                       ? ScaleValues(std::vector<double>{0.001, 0.01, 0.1})
                                   : scale.name == "layers_b" ? ScaleValues::counted(layers)
                                                              : ScaleValues::counted(kExperts));
  }
  for (const CellColumn& column : table.cells) {
    if (column.presence == Presence::kOptional) {
      run.optional_columns.emplace_back(column.name);
    }
  }
  for (const ArrayColumn& column : table.arrays) {
    if (column.presence == Presence::kOptional) {
      run.optional_columns.emplace_back(column.name);
    }
  }
  if (schema == FileSchema::kCka) {
    run.compare.other_model = "tiny";
  }
  run.attributes = {
      {"tokens", std::int64_t{64}}, {"fraction", 0.1}, {"rule", std::string("softmax, top 2")}};
  return run;
}

ResultRow cell_row(const RunDescription& run, std::int64_t index) {
  const CellTable& table = *schema_of(run.schema).cells;
  ResultRow row;
  row.index = index;
  row.status = MatrixStatus::kMeasured;
  row.cells = empty_cells(table);
  for (std::size_t i = 0; i < table.cells.size(); ++i) {
    row.cells[i] = table.cells[i].integer || table.cells[i].range.min == 1.0
                       ? 1.0 + static_cast<double>(index)
                       : small(index, i);
  }
  row.arrays.resize(table.arrays.size());
  for (std::size_t i = 0; i < table.arrays.size(); ++i) {
    const ArrayColumn& column = table.arrays[i];
    const std::string scale(column.dims[0]);
    row.arrays[i] = !column.dims[1].empty() ? square(index, i, 1.0F)
                    : column.name == "load" ? loads(index)
                    : scale == "expert"     ? falling(index, kSide)
                                        : constant(run.scales.at(scale).size(), small(index, i));
  }
  if (run.schema == FileSchema::kRouting) {
    row.cells[engine::routing_cell("dead_experts")] = 0.0;
    row.arrays[engine::routing_array("mean_weight")] = ArrayCell();
  }
  if (run.schema == FileSchema::kExperts) {
    row.cells[commands::experts_cell("experts")] = kExperts;
  }
  if (run.schema == FileSchema::kActivations) {
    row.arrays[engine::activations_array("sparsity")] =
        ArrayCell(std::vector<double>{0.01, 0.1, small(index, 5) + 0.3});
  }
  if (run.schema == FileSchema::kTrace) {
    row.cells[commands::trace_cell("pooled_prompts")] = kExperts;
    row.cells[commands::trace_cell("perplexity")] =
        std::exp(row.cells[commands::trace_cell("loss")]);
    row.arrays[commands::trace_array("sparsity")] =
        ArrayCell(std::vector<double>{0.01, 0.1, small(index, 5) + 0.3});
  }
  if (run.schema == FileSchema::kCka) {
    std::vector<double>& cka = row.arrays[commands::cka_array("cka")].doubles;
    for (std::size_t i = 0; i < cka.size(); ++i) {
      const double distance = std::abs(static_cast<double>(i) - static_cast<double>(index));
      cka[i] = 1.0 - 0.1 * distance;
      row.arrays[commands::cka_array("ci_low")].doubles[i] = cka[i] - 0.02;
      row.arrays[commands::cka_array("ci_high")].doubles[i] = std::min(1.0, cka[i] + 0.01);
    }
  }
  return row;
}

void write_cells(const std::string& path, const RunDescription& run) {
  auto store = open_run_store(path, run, {}, false);
  for (std::size_t i = 0; i < run.matrices.size(); ++i) {
    store->add(cell_row(run, static_cast<std::int64_t>(i)));
  }
  store->publish_file();
}

}  // namespace vindex::results::testing
