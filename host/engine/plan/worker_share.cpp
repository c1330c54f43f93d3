// Owns the rules by which variables become a share.
#include "worker_share.hpp"

#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace vindex::engine {

namespace {

constexpr std::int64_t kMaxShares = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void refuse_worker(const std::string& wish, const std::string& why) {
  throw UsageError("E-WORKER", fmt::format("--worker `{}`: {}", printable(wish), why));
}

/// A whole number that is not negative. Errors: refuse_worker().
std::int64_t number_of(const std::string& wish, std::string_view name, const std::string& value) {
  const auto number = whole_number<std::int64_t>(value);
  if (!number || *number < 0) {
    refuse_worker(wish, fmt::format("{}={} is no whole number", name, printable(value)));
  }
  return *number;
}

results::WorkerShare share_of(const std::string& wish, std::int64_t index, std::int64_t count,
                              const std::string& source) {
  if (count < 1 || count > kMaxShares || index < 0 || index >= count) {
    refuse_worker(wish, fmt::format("worker {} of {} cannot be ({})", index, count, source));
  }
  return {.index = static_cast<std::int32_t>(index), .count = static_cast<std::int32_t>(count)};
}

/// The task's number from 0 in its array, however that is numbered.
ChosenShare share_of_array(const std::string& wish, const SchedulerVariables& set) {
  const auto number = [&](std::string_view name, const std::string& value, std::int64_t otherwise) {
    return value.empty() ? otherwise : number_of(wish, name, value);
  };
  if (set.slurm_array_task_count.empty()) {
    refuse_worker(wish, "SLURM_ARRAY_TASK_ID is set and SLURM_ARRAY_TASK_COUNT is not");
  }
  const std::int64_t id = number("SLURM_ARRAY_TASK_ID", set.slurm_array_task_id, 0);
  const std::int64_t count = number("SLURM_ARRAY_TASK_COUNT", set.slurm_array_task_count, 0);
  const std::int64_t first = number("SLURM_ARRAY_TASK_MIN", set.slurm_array_task_min, 0);
  const std::int64_t step = number("SLURM_ARRAY_TASK_STEP", set.slurm_array_task_step, 1);
  const std::int64_t tasks = number("SLURM_STEP_NUM_TASKS", set.slurm_step_num_tasks, 1);
  ChosenShare chosen;
  chosen.source =
      fmt::format("SLURM_ARRAY_TASK_ID={}, _COUNT={}, _MIN={}, _STEP={}", id, count, first, step);
  if (step < 1 || count > kMaxShares || first > kMaxShares || step > kMaxShares || id < first ||
      (id - first) % step != 0 || (id - first) / step >= count ||
      (!set.slurm_array_task_max.empty() &&
       number_of(wish, "SLURM_ARRAY_TASK_MAX", set.slurm_array_task_max) !=
           first + (count - 1) * step)) {
    refuse_worker(wish,
                  fmt::format("the numbers of the array leave gaps ({}); give it a first, a last "
                              "and a step, or write i/n",
                              chosen.source));
  }
  std::int64_t index = (id - first) / step;
  std::int64_t all = count;
  if (tasks > 1 && tasks <= kMaxShares) {  // a step of several tasks in each task of the array
    index = index * tasks + number_of(wish, "SLURM_PROCID", set.slurm_procid);
    all = count * tasks;
    chosen.source +=
        fmt::format(", SLURM_PROCID={}, SLURM_STEP_NUM_TASKS={}", set.slurm_procid, tasks);
  }
  chosen.share = share_of(wish, index, all, chosen.source);
  return chosen;
}

ChosenShare share_of_scheduler(const std::string& wish, std::optional<std::int64_t> count,
                               const SchedulerVariables& set) {
  if (!set.slurm_array_task_id.empty()) {
    return share_of_array(wish, set);
  }
  ChosenShare chosen;
  if (!set.slurm_procid.empty() && !set.slurm_ntasks.empty()) {
    chosen.source = fmt::format("SLURM_PROCID={}, SLURM_NTASKS={}", printable(set.slurm_procid),
                                printable(set.slurm_ntasks));
    chosen.share = share_of(wish, number_of(wish, "SLURM_PROCID", set.slurm_procid),
                            number_of(wish, "SLURM_NTASKS", set.slurm_ntasks), chosen.source);
    return chosen;
  }
  if (!set.job_completion_index.empty()) {
    chosen.source = fmt::format("JOB_COMPLETION_INDEX={}", printable(set.job_completion_index));
    if (!count) {
      refuse_worker(wish,
                    "JOB_COMPLETION_INDEX says which worker this is and not of how many: write "
                    "auto/n");
    }
    chosen.share = share_of(wish, number_of(wish, "JOB_COMPLETION_INDEX", set.job_completion_index),
                            *count, chosen.source);
    return chosen;
  }
  refuse_worker(
      wish,
      "none of SLURM_ARRAY_TASK_ID, SLURM_PROCID with SLURM_NTASKS, and JOB_COMPLETION_INDEX is "
      "set; write i/n");
}

}  // namespace

ChosenShare worker_share(const std::string& wish, const SchedulerVariables& variables) {
  if (wish.empty()) {
    return {};
  }
  const std::size_t slash = wish.find('/');
  const std::string_view index = std::string_view(wish).substr(0, slash);
  std::optional<std::int64_t> count;
  if (slash != std::string::npos) {
    count = whole_number<std::int64_t>(std::string_view(wish).substr(slash + 1));
  }
  if (index == "auto" && (count || slash == std::string::npos)) {
    ChosenShare chosen = share_of_scheduler(wish, count, variables);
    if (count && *count != chosen.share.count) {
      refuse_worker(wish, fmt::format("the scheduler has {} workers ({})", chosen.share.count,
                                      chosen.source));
    }
    return chosen;
  }
  const auto own = whole_number<std::int64_t>(index);
  if (!own || !count || *count < 1 || *count > kMaxShares || *own < 0 || *own >= *count) {
    refuse_worker(wish, "write i/n with 0 <= i < n, or auto");
  }
  return {share_of(wish, *own, *count, ""), ""};
}

}  // namespace vindex::engine
