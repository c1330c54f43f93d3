// Owns an experts run as the runner sees it: rows, their facts and works, workers, staging.
#include "expert_job.hpp"

#include <vindex/error.hpp>

#include <utility>

namespace vindex::commands {

ExpertJob::ExpertJob(engine::SelectedModel model, std::vector<model::ExpertGroup> groups,
                     std::vector<std::unique_ptr<Backend>> backends, const ExpertOptions& options,
                     std::vector<std::int32_t> calls, std::shared_ptr<ExpertTally> tally)
    : model_(std::move(model)),
      views_({{&model_.files, &model_.index}}),
      groups_(std::move(groups)),
      backends_(std::move(backends)),
      options_(options),
      calls_(std::move(calls)),
      tally_(std::move(tally)) {}

std::uint64_t ExpertJob::bytes_of(const model::ExpertGroup& group) const {
  std::uint64_t bytes = 0;
  for (const model::GroupMember& member : group.members) {
    if (member.error.empty()) {
      bytes += engine::stored_bytes(model_.index.matrices[static_cast<std::size_t>(member.matrix)]);
    }
  }
  return bytes;
}

engine::RowFacts ExpertJob::facts(std::int64_t row) const {
  const model::ExpertGroup& group = groups_[static_cast<std::size_t>(row)];
  return {.name = escaped(group.record.tensor),
          .unsupported = group.record.unsupported,
          .bytes = bytes_of(group),
          .cost = expert_flops(group)};
}

std::vector<engine::RowWork> ExpertJob::works(const std::vector<std::int64_t>& rows) const {
  constexpr std::uint64_t kRowBytes = 1000;
  std::vector<engine::RowWork> works;
  works.reserve(rows.size());
  for (const std::int64_t row : rows) {
    const model::ExpertGroup& group = groups_[static_cast<std::size_t>(row)];
    const ExpertMemory memory = expert_memory(model_.index, group, options_, *backends_.front());
    engine::RowWork work;
    work.row = row;
    work.name = group.record.tensor;
    work.cost = expert_flops(group);
    work.read_bytes = bytes_of(group) * (options_.vectors > 0 ? 2 : 1);
    work.reading = engine::Reading::kPieces;
    work.pieces = memory.pieces;
    work.workspace = memory.workspace;
    work.result_bytes = memory.row;
    work.output_bytes = memory.row + kRowBytes;
    works.push_back(std::move(work));
  }
  return works;
}

engine::WorkerLayout ExpertJob::worker_layout() const {
  return {.calls = calls_, .batch = 1, .held = 1};
}

std::unique_ptr<StagingBuffer> ExpertJob::make_staging(std::size_t bytes) {
  return backends_.front()->make_staging(bytes);
}

void ExpertJob::process(engine::UnitStream& unit, std::size_t device, engine::RowSink& rows) {
  for (const std::int64_t row : unit.unit->rows) {
    const model::ExpertGroup& group = groups_[static_cast<std::size_t>(row)];
    try {
      results::ResultRow made =
          measure_group(unit, model_.index, group, options_, *backends_[device]);
      made.index = row;
      tally_->flops += expert_flops(group);
      rows.push(std::move(made));
    } catch (const std::exception&) {
      rows.push_failed(row, std::current_exception());
    }
  }
}

}  // namespace vindex::commands
