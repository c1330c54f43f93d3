// Owns telling runs, parts and files apart, and naming the workers that have not finished.
#include "merge_inputs.hpp"

#include "core/files/path_kind.hpp"
#include "results/parts/output_path.hpp"
#include "results/parts/parts_folder.hpp"
#include "results/parts/share_record.hpp"
#include "results/reading/results_reader.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

namespace vindex::results {

namespace {

/// Names in a message at most.
constexpr std::size_t kMostNamed = 4;

void add_folder(MergeInputs& inputs, const std::string& folder, const std::string& output) {
  const PartFiles files = list_parts(folder);
  // Of the output itself and empty: a merge that ended while it removed what it had merged.
  const bool is_merged = file_exists(output) && is_same_file(folder, parts_folder(output));
  if (files.runs.empty() && files.parts.empty() && !is_merged) {
    throw MissingInputError("E-MERGE-EMPTY", printable(folder) + " holds no parts of a vindex run");
  }
  std::set<std::string> named;
  for (const std::string& tag : record_tags(folder)) {
    if (const auto record = read_record(folder, tag)) {
      for (const std::string& part : record->parts) {
        named.insert(folder + "/" + part);
      }
    }
  }
  const bool has_records = !named.empty();
  for (const std::string& part : files.parts) {
    const bool is_other = named.erase(part) == 0 && has_records;
    (is_other ? inputs.others : inputs.parts).push_back(part);
  }
  inputs.lost.insert(inputs.lost.end(), named.begin(), named.end());
  inputs.runs.insert(inputs.runs.end(), files.runs.begin(), files.runs.end());
  inputs.folders.push_back(folder);
}

/// Orders and drops repetitions.
void tidy(std::vector<std::string>& paths) {
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
}

std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + printable(names[i]);
  }
  return names.size() > kMostNamed ? text + " and more" : text;
}

/// "worker 1 of 3 has not finished" of every one of the counts whose workers left records or runs.
std::vector<std::string> unfinished_workers(const std::string& folder) {
  std::set<std::string> begun;
  std::set<std::int32_t> counts;
  bool is_claimed = false;
  for (const std::string& path : list_parts(folder).runs) {
    const std::string name = file_name_of(path);
    const std::string tag = name.substr(4, name.rfind('.') - 4);  // run-<tag>.h5
    begun.insert(tag);
    counts.insert(count_of_tag(tag));
    is_claimed = is_claimed || !share_of_tag(tag, count_of_tag(tag));
  }
  const std::vector<std::string> tags = record_tags(folder);
  const std::set<std::string> finished(tags.begin(), tags.end());
  if (counts.size() != 1 || *counts.begin() < 2) {
    return {};  // a single run, or several divisions: rows tell
  }
  const std::int32_t count = *counts.begin();
  std::vector<std::string> lines;
  if (is_claimed) {
    const auto done = std::count_if(tags.begin(), tags.end(), [&](const std::string& tag) {
      return share_of_tag(tag, count).has_value();
    });
    return {fmt::format("{} of {} claimed shares are finished", done, count)};
  }
  for (std::int32_t share = 0; share < count && lines.size() <= kMostNamed; ++share) {
    const std::string tag = worker_tag(share, count);
    if (!finished.contains(tag)) {
      lines.push_back(fmt::format("worker {} of {} has not {}", share, count,
                                  begun.contains(tag) ? "finished" : "begun"));
    }
  }
  return lines;
}

}  // namespace

MergeInputs sort_inputs(const std::vector<std::string>& given, const std::string& output) {
  MergeInputs inputs;
  for (std::string path : given) {
    while (path.size() > 1 && path.back() == '/') {
      path.pop_back();
    }
    const PathKind kind = path_kind(path);
    if (kind == PathKind::kAbsent) {
      throw MissingInputError("E-MERGE-MISSING", printable(path) + " does not exist");
    }
    if (kind == PathKind::kFolder) {
      add_folder(inputs, path, output);
      continue;
    }
    if (file_name_of(path).starts_with("part-")) {
      verify_part(path);
    }
    const ResultsReader reader(path, std::nullopt);
    if (!reader.header().part) {
      inputs.files.push_back(path);
    } else if (file_name_of(path).starts_with("part-")) {
      inputs.parts.push_back(path);
      // A part alone does not say what else there was to measure; its run does.
      const PartFiles beside = list_parts(folder_of(path));
      inputs.runs.insert(inputs.runs.end(), beside.runs.begin(), beside.runs.end());
    } else {
      inputs.runs.push_back(path);
    }
  }
  for (std::vector<std::string>* paths :
       {&inputs.runs, &inputs.files, &inputs.parts, &inputs.others, &inputs.lost}) {
    tidy(*paths);
  }
  return inputs;
}

void require_complete(const MergeInputs& inputs, std::span<const StoredRow* const> rows,
                      FileSchema schema) {
  constexpr const char* kAdvice =
      "the same workers again measure what is missing; --partial merges what is there";
  if (!inputs.lost.empty()) {
    throw MissingInputError(
        "E-PART-MISSING",
        fmt::format("{}: published and not there any more; {}", list_text(inputs.lost), kAdvice));
  }
  const auto is_missing = [](const StoredRow* row) {
    return row->status == MatrixStatus::kSkipped;
  };
  const auto first = std::find_if(rows.begin(), rows.end(), is_missing);
  if (first == rows.end()) {
    return;
  }
  std::string whose;
  for (const std::string& folder : inputs.folders) {
    if (const std::vector<std::string> lines = unfinished_workers(folder); !lines.empty()) {
      whose += fmt::format("{}: {}; ", printable(folder), list_text(lines));
    }
  }
  throw MissingInputError(
      "E-PART-MISSING",
      fmt::format("{} of {} {} are in no part, the first of them {}; {}{}",
                  std::count_if(rows.begin(), rows.end(), is_missing), rows.size(),
                  row_noun(schema), row_name(**first), whose, kAdvice));
}

}  // namespace vindex::results
