// Owns what a layer of a dump costs, and its way to a row.
#include "routing_job.hpp"

#include "engine/units/row_slabs.hpp"
#include "engine/units/unit_stream.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <optional>

namespace vindex::commands {

RoutingJob::RoutingJob(model::Dump dump, std::vector<RoutedLayer> layers, std::int64_t scale,
                       std::int32_t threads)
    : dump_(std::move(dump)),
      views_({{&dump_.files, &dump_.index}}),
      layers_(std::move(layers)),
      scale_(scale),
      threads_(threads) {}

const model::MatrixRecord& RoutingJob::record(std::int64_t row) const {
  const RoutedLayer& layer = layers_[static_cast<std::size_t>(row)];
  return dump_.index.matrices[static_cast<std::size_t>(layer.matrix)];
}

engine::RowFacts RoutingJob::facts(std::int64_t row) const {
  const model::MatrixRecord& matrix = record(row);
  engine::RowFacts facts;
  facts.name = escaped(matrix.tensor);
  facts.bytes = engine::stored_bytes(matrix);
  facts.cost = static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols);
  return facts;
}

std::vector<engine::RowWork> RoutingJob::works(const std::vector<std::int64_t>& rows) const {
  std::vector<engine::RowWork> works;
  for (const std::int64_t row : rows) {
    const model::MatrixRecord& matrix = record(row);
    const std::int64_t before = row - 1;
    engine::RowWork work;
    work.row = row;
    work.name = matrix.tensor;
    std::uint64_t slabs = engine::slab_memory(matrix.cols, 1, false);
    std::uint64_t streamed = engine::slab_memory(matrix.cols, 1, true);
    const std::uint64_t tallies = engine::routing_row_bytes(
        matrix.rows, matrix.cols, before < 0 ? 0 : record(before).cols, scale_);
    for (const std::int64_t one : {row, before}) {
      if (one < 0) {
        continue;
      }
      const model::MatrixRecord& read = record(one);
      work.matrices.push_back({0, layers_[static_cast<std::size_t>(one)].matrix});
      work.read_bytes += engine::stored_bytes(read);
      work.slot = std::max(work.slot, engine::staged_bytes(read).slot);
      // Slabs are of as many tokens as this layer's.
      const auto values = static_cast<std::uint64_t>(engine::slab_rows(matrix.cols)) *
                          static_cast<std::uint64_t>(read.cols);
      if (one == before) {
        slabs += values * sizeof(float);
        streamed += values * (sizeof(float) + sizeof(double));
      }
    }
    work.cost = static_cast<double>(work.read_bytes);
    work.result_bytes = engine::routing_arrays_bytes(scale_);
    work.output_bytes = work.result_bytes / 2;
    work.workspace = work.min_workspace = slabs + tallies;
    work.streamed = work.streamed_workspace = streamed + tallies;
    works.push_back(std::move(work));
  }
  return works;
}

engine::WorkerLayout RoutingJob::worker_layout() const {
  return {.calls = {threads_}, .batch = 1, .held = 2};
}

results::ResultRow RoutingJob::route(engine::UnitStream& unit, std::int64_t row) {
  const auto logits_of = [&](std::int64_t one, std::size_t input) {
    return engine::RoutedLogits{layers_[static_cast<std::size_t>(one)].router, *unit.input(input),
                                record(one).layer};
  };
  std::optional<engine::RoutedLogits> before;
  if (row > 0) {
    before.emplace(logits_of(row - 1, 1));
  }
  return engine::routing_row(logits_of(row, 0), before ? &*before : nullptr, scale_, nulls_);
}

void RoutingJob::process(engine::UnitStream& unit, std::size_t /*device*/, engine::RowSink& rows) {
  const std::int64_t number = unit.unit->rows.front();
  results::ResultRow row;
  try {
    for (std::size_t i = 0; i < unit.size(); ++i) {
      unit.wait(i);
      unit.require_read(i);
    }
    row = route(unit, number);
    for (std::size_t i = 0; i < unit.size(); ++i) {
      unit.require_read(i);  // what was read slab by slab is believed only now
    }
  } catch (const std::exception&) {
    row = engine::failed_row(std::current_exception());
  }
  row.index = number;
  rows.push(std::move(row));
}

}  // namespace vindex::commands
