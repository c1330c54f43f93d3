// Owns the report of a graft, for readers and for programs: findings, what is taken, what is not.
#include "graft_report.hpp"

#include "core/json/json_document.hpp"
#include "core/text/size_text.hpp"
#include "core/text/text_table.hpp"
#include "organ/source/tensor_pair.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

namespace vindex::organ {
namespace {

/// Grafted tensors that read alike: of one class, block and pair of types.
struct GraftGroup {
  std::size_t count = 0;
  std::uint64_t bytes = 0;
};
using Groups = std::map<std::tuple<std::int32_t, OrganClass, std::string, std::string>, GraftGroup>;

std::string grafted_text(const GraftReport& report, std::size_t width) {
  Groups groups;
  for (const GraftedTensor& tensor : report.grafted) {
    const std::string before = tensor.host_type
                                   ? std::string(decode::element_type_name(*tensor.host_type))
                                   : std::string("-");
    GraftGroup& group = groups[{tensor.organ.block, tensor.organ.organ_class, before,
                                std::string(decode::element_type_name(tensor.donor_type))}];
    ++group.count;
    group.bytes += tensor.bytes;
  }
  std::vector<std::vector<std::string>> rows = {
      {"block", "class", "tensors", "host", "donor", "size"}};
  for (const auto& [key, group] : groups) {
    const auto& [block, organ_class, before, after] = key;
    rows.push_back({block < 0 ? "-" : std::to_string(block), std::string(class_name(organ_class)),
                    std::to_string(group.count), before, after, data_text(group.bytes)});
  }
  return table_text(
      rows,
      {{.right = true}, {}, {.right = true}, {.min_width = 6}, {.min_width = 6}, {.right = true}},
      width);
}

std::string finding_text(const GraftFinding& finding, bool force) {
  const bool forced = force && finding.level == Level::kError && finding.can_be_forced;
  std::string text = fmt::format("{:<5} {}: {}", forced ? "force" : level_name(finding.level),
                                 finding.id, finding.what);
  if (!finding.host.empty() || !finding.donor.empty()) {
    text += fmt::format("; host {}, donor {}", finding.host, finding.donor);
  }
  return finding.advice.empty() ? text : text + ": " + finding.advice;
}

std::string refusals_text(const GraftReport& report, std::size_t width) {
  constexpr std::size_t kMost = 12;  // what follows from one cause reads alike
  std::vector<std::vector<std::string>> rows = {{"not taken", "why"}};
  for (const Refusal& refusal :
       std::span(report.refusals).first(std::min(report.refusals.size(), kMost))) {
    rows.push_back({excerpt(refusal.tensor), excerpt(refusal.reason)});
  }
  std::string text =
      table_text(rows, {{.min_width = 24}, {.min_width = 20, .keep = Keep::kStart}}, width);
  if (report.refusals.size() > kMost) {
    text += fmt::format("(and {} more: --json has them all)\n", report.refusals.size() - kMost);
  }
  return text;
}

Json graft_side_json(const GraftSide& side) {
  return {{"path", side.path},
          {"architecture", side.architecture},
          {"name", side.name},
          {"tensors", side.tensors},
          {"files", side.files}};
}

Json finding_json(const GraftFinding& finding, bool force) {
  return {{"id", finding.id},
          {"level", level_name(finding.level)},
          {"forced", force && finding.level == Level::kError && finding.can_be_forced},
          {"what", finding.what},
          {"host", Json::given(finding.host)},
          {"donor", Json::given(finding.donor)},
          {"advice", Json::given(finding.advice)}};
}

Json grafted_tensor_json(const GraftedTensor& tensor) {
  return {
      {"name", tensor.name},
      {"donor_name", tensor.donor_name},
      {"class", class_name(tensor.organ.organ_class)},
      {"block", tensor.organ.block},
      {"ne", tensor.dimensions},
      {"host_type", tensor.host_type ? Json(decode::element_type_name(*tensor.host_type)) : Json()},
      {"donor_type", decode::element_type_name(tensor.donor_type)},
      {"bytes", tensor.bytes}};
}

}  // namespace

std::string graft_text(const GraftReport& report, std::size_t width) {
  const auto side = [&](const char* role, const GraftSide& model) {
    return wrapped_text(
               fmt::format(
                   "{:<5} {} ({}, {} tensors in {} file{})", role, printable(model.path),
                   model.architecture.empty() ? "no architecture" : printable(model.architecture),
                   model.tensors, model.files, model.files == 1 ? "" : "s"),
               width, 6) +
           "\n";
  };
  std::string text = side("host", report.host) + side("donor", report.donor);
  const auto findings_text = [&](bool are_errors) {
    std::string lines;
    for (const GraftFinding& finding : report.findings) {
      if ((finding.level == Level::kError) == are_errors) {
        lines += wrapped_text(finding_text(finding, report.settings.force), width, 6) + "\n";
      }
    }
    return lines.empty() ? lines : "\n" + lines;
  };
  // The cause before what follows from it.
  text += findings_text(true);
  if (!report.grafted.empty() && report.outcome != GraftOutcome::kRefused) {
    text += "\n" + grafted_text(report, width);
  }
  if (!report.refusals.empty()) {
    text += "\n" + refusals_text(report, width);
  }
  text += findings_text(false);
  std::string end =
      fmt::format("\n{} of {} tensors from the donor", report.grafted.size(), report.host.tensors);
  if (report.outcome == GraftOutcome::kWritten) {
    const ComposeReport& written = report.written;
    end += fmt::format(
        ": {} written, {}{}", printable(written.files.front()), data_text(written.bytes),
        written.files.size() == 1 ? "" : fmt::format(" in {} files", written.files.size()));
  } else {
    end += fmt::format(" ({}): nothing written", outcome_name(report.outcome));
  }
  return text + wrapped_text(end, width, 2) + "\n";
}

std::string graft_json(const GraftReport& report) {
  const GraftSettings& settings = report.settings;
  Json document = {{"schema", "organ-graft/1"},
                   {"outcome", outcome_name(report.outcome)},
                   {"host", graft_side_json(report.host)},
                   {"donor", graft_side_json(report.donor)},
                   {"type", settings.types.empty() ? "all" : settings.types},
                   {"layers", Json::given(settings.layers)},
                   {"map", Json::given(settings.map)},
                   {"allow_missing", settings.allow_missing},
                   {"force", settings.force}};
  document["findings"] = Json::list(report.findings, [&](const GraftFinding& finding) {
    return finding_json(finding, settings.force);
  });
  const auto likeness = [](const Likeness& one) {
    return Json{{"tensor", one.tensor},
                {"cosine", Json::given(one.cosine)},
                {"values", one.values},
                {"of", one.of}};
  };
  document["ancestry"] = {{"most_values", kAncestryValues},
                          {"warn_below", kUnlikeCosine},
                          {"refuse_below", kUnrelatedCosine},
                          {"tensors", Json::list(report.likeness, likeness)}};
  document["grafted"] = Json::list(report.grafted, grafted_tensor_json);
  document["dropped"] = report.dropped;
  document["refused"] = Json::list(report.refusals, [](const Refusal& refusal) {
    return Json{{"tensor", refusal.tensor},
                {"kind", refusal_name(refusal.kind)},
                {"fatal", refusal.is_fatal},
                {"reason", refusal.reason}};
  });
  document["output"] = Json();
  if (report.outcome == GraftOutcome::kWritten) {
    document["output"] = {{"files", report.written.files}, {"bytes", report.written.bytes}};
  }
  return document.dump(2) + "\n";
}

}  // namespace vindex::organ
