#include <vindex/run/summary.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace vindex::run {

namespace {

std::string number(double value, const char* none = "-") {
  return std::isnan(value) ? std::string(none) : fmt::format("{:.4f}", value);
}

bool is_principal(std::int32_t block) {
  return block == static_cast<std::int32_t>(model::Block::kRoutedExpert) ||
         block == static_cast<std::int32_t>(model::Block::kRouter) ||
         block == static_cast<std::int32_t>(model::Block::kDenseMlp);
}

}  // namespace

std::string layer_table(std::span<const measure::LayerGroup> groups, std::size_t most_lines) {
  std::vector<const measure::LayerGroup*> shown;
  for (const measure::LayerGroup& group : groups) {
    if (groups.size() <= most_lines || is_principal(group.block)) {
      shown.push_back(&group);
    }
  }
  std::size_t role_width = 4;
  for (const auto* group : shown) {
    role_width = std::max(role_width, group->role.size());
  }
  std::string out =
      fmt::format("{:>5}  {:<13}  {:<{}}  {:>5}  {:>8} {:>18}  {:>8}  {:>6}\n", "layer", "block",
                  "role", role_width, "count", "var@64", "[q25, q75]", "noise", "ratio");
  for (const auto* group : shown) {
    const measure::Statistic& energy = (*group)[measure::LayerMetric::kVarAt64];
    const measure::Statistic& ratio = (*group)[measure::LayerMetric::kVarAt64Ratio];
    out += fmt::format(
        "{:>5}  {:<13}  {:<{}}  {:>5}  {:>8} {:>18}  {:>8}  {:>6}\n",
        group->layer < 0 ? "-" : std::to_string(group->layer),
        model::block_name(static_cast<model::Block>(group->block)), group->role, role_width,
        group->count, number(energy.median),
        std::isnan(energy.median) ? "-" : fmt::format("[{:.4f}, {:.4f}]", energy.q25, energy.q75),
        number(group->var_at_64_null),
        std::isnan(ratio.median) ? "-" : fmt::format("{:.3f}", ratio.median));
  }
  if (shown.size() < groups.size()) {
    out += fmt::format("({} further groups are in /layer/ of the file)\n",
                       groups.size() - shown.size());
  }
  return out;
}

std::string outcome_text(const RunOutcome& outcome) {
  std::string out =
      fmt::format("{} of {} matrices", outcome.done_before + outcome.measured_now, outcome.total);
  out += fmt::format(" in {:.1f} s", outcome.seconds);
  if (outcome.done_before > 0) {
    out += fmt::format(", {} of them from an earlier run", outcome.done_before);
  }
  const auto count = [&](std::int64_t value, const char* what) {
    if (value > 0) {
      out += fmt::format(", {} {}", value, what);
    }
  };
  count(outcome.escalated, "escalated to strict");
  count(outcome.not_finite, "not finite");
  count(outcome.unsupported, "unsupported");
  count(outcome.failed, "failed");
  out += "\n";
  if (outcome.reading.bytes() > 0) {
    out += shard::reading_text(outcome.reading, outcome.reading_engine) + "\n";
  }
  for (const std::string& trouble : outcome.troubles) {
    out += "  " + trouble + "\n";
  }
  const std::int64_t told = static_cast<std::int64_t>(outcome.troubles.size());
  const std::int64_t all = outcome.not_finite + outcome.unsupported + outcome.failed;
  if (all > told) {
    out +=
        fmt::format("  ({} more; /matrix/status and /matrix/reason have them all)\n", all - told);
  }
  return out;
}

}  // namespace vindex::run
