// Owns merging rows by their keys, and where the bulk of each lies.
#include "gathered_rows.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::results {

std::size_t GatheredRows::add(StoredRow row) {
  // No name holds a line feed: they are stored printable.
  const auto [place, is_new] = by_key_.emplace(
      fmt::format("{}\n{}", model::table_name(row.table), row_key(row)), rows_.size());
  if (is_new) {
    rows_.push_back(std::move(row));
  }
  return place->second;
}

void GatheredRows::add_file(const std::string& path) {
  const std::int32_t source = pool_.add(path);
  for (StoredRow& row : pool_.reader(source).all_rows(source)) {
    const std::size_t number = add(row);
    StoredRow& present = rows_[number];
    if (present.rows != row.rows || present.cols != row.cols) {
      throw ConfigurationError("E-MERGE-SHAPE",
                               printable(path) + ": matrix " + printable(row_key(row)) +
                                   " has another shape than elsewhere; these are different models");
    }
    if (outcome_rank(row.status) > 0 && outcome_rank(row.status) >= outcome_rank(present.status)) {
      present = std::move(row);
    }
  }
}

std::vector<const StoredRow*> GatheredRows::sorted() const {
  std::vector<const StoredRow*> rows;
  rows.reserve(rows_.size());
  for (const StoredRow& row : rows_) {
    rows.push_back(&row);
  }
  std::sort(rows.begin(), rows.end(),
            [](const StoredRow* a, const StoredRow* b) { return row_before(*a, *b); });
  return rows;
}

void GatheredRows::relocate(const std::string& path) {
  pool_.close_all();
  const std::int32_t source = pool_.add(path);
  std::vector<StoredRow*> rows;
  for (StoredRow& row : rows_) {
    rows.push_back(&row);
  }
  std::sort(rows.begin(), rows.end(),
            [](const StoredRow* a, const StoredRow* b) { return row_before(*a, *b); });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i]->bulk = {.memory = nullptr, .source = source, .row = static_cast<std::int64_t>(i)};
  }
}

const std::string& describing_file(const std::string& path, const RunFiles& run) {
  return run.has_file             ? path
         : run.files.runs.empty() ? run.files.parts.front()
                                  : run.files.runs.front();
}

std::string state_of(const RunFiles& run, std::span<const StoredRow* const> rows) {
  return !run.has_file ? "running" : count_statuses(rows).skipped == 0 ? "complete" : "partial";
}

FileSchema gather_run(const std::string& path, const RunFiles& run, GatheredRows& gathered,
                      std::optional<FileSchema> wanted) {
  // First, so that what is no results file is refused as itself.
  if (run.has_file && ResultsReader(path, wanted).header().part) {
    throw UsageError("E-RESULTS-PART",
                     printable(path) +
                         " is a part of a run; name the results file beside its folder, or merge "
                         "it first");
  }
  std::vector<std::string> files = run.files.runs;
  if (run.has_file) {
    files.push_back(path);
  }
  files.insert(files.end(), run.files.parts.begin(), run.files.parts.end());
  const ResultsReader first(files.front(), wanted);
  Fingerprint fingerprint = first.fingerprint();
  for (const std::string& file : files) {
    const Fingerprint found = ResultsReader(file, first.header().schema).fingerprint();
    require_same_fingerprint(fingerprint, found, file,
                             "its rows and those beside it do not go together");
    keep_derived_lines(fingerprint, found);
    gathered.add_file(file);
  }
  return first.header().schema;
}

}  // namespace vindex::results
