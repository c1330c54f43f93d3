// Owns merging parts folders of several workers or machines into one results file.
#include "merge.hpp"

#include "merge_inputs.hpp"

#include "core/files/path_kind.hpp"
#include "core/files/temporary_files.hpp"
#include "results/parts/output_path.hpp"
#include "results/parts/parts_folder.hpp"
#include "results/parts/publish.hpp"
#include "results/parts/run_lock.hpp"
#include "results/reading/gathered_rows.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace vindex::results {

namespace {

/// Errors: ConfigurationError E-RESULTS-KIND where it is of another schema.
Fingerprint fingerprint_of(const std::string& source, FileSchema schema) {
  try {
    return ResultsReader(source, schema).fingerprint();
  } catch (const FormatError& error) {
    if (error.id() == "E-RESULTS-KIND") {
      throw ConfigurationError(error.id(), error.what());
    }
    throw;
  }
}

/// Every part is whole and of the run of `description`, which gets the derived lines of all.
void require_one_run(FileDescription& description, const std::vector<std::string>& sources) {
  for (const std::string& source : sources) {
    if (file_name_of(source).starts_with("part-")) {
      verify_part(source);
    }
    const Fingerprint found = fingerprint_of(source, description.schema);
    require_same_fingerprint(description.fingerprint, found, source,
                             "parts of different runs do not go together");
    keep_derived_lines(description.fingerprint, found);
  }
}

}  // namespace

MergeOutcome merge_parts(const std::vector<std::string>& parts, const std::string& path,
                         bool partial) {
  if (parts.empty()) {
    throw UsageError("E-MERGE-EMPTY", "no parts given");
  }
  const std::string output = resolve_output(path);
  require_replaceable(output);
  const MergeInputs inputs = sort_inputs(parts, output);
  for (const std::string& file : inputs.files) {
    if (is_same_file(file, output)) {
      throw OutputError("E-OUT-INPUT", printable(path) + " is also an input of the merge");
    }
  }
  // What an earlier run of the same fingerprint published stays.
  const bool has_earlier = file_exists(output);
  std::vector<std::string> described = inputs.runs;
  described.insert(described.end(), inputs.files.begin(), inputs.files.end());
  if (has_earlier) {
    described.push_back(output);
  }
  if (described.empty()) {
    throw MissingInputError(
        "E-MERGE-RUN", "no run-*.h5 beside the parts: they do not say what was to be measured");
  }
  FileDescription description = ResultsReader(described.front(), std::nullopt).description();
  if (description.schema == FileSchema::kGateVectors) {
    throw UsageError("E-MERGE-KIND",
                     fmt::format("{}: gate vectors are written whole: there are no parts of them "
                                 "to merge",
                                 printable(described.front())));
  }
  std::vector<std::string> sources = described;
  for (const std::vector<std::string>* more : {&inputs.parts, &inputs.others}) {
    sources.insert(sources.end(), more->begin(), more->end());
  }
  require_one_run(description, sources);

  GatheredRows gathered;
  for (const std::string& source : described) {
    gathered.add_file(source, Doubles::kSame);
  }
  // Of rows that an earlier merge has taken, and of shares that were measured twice, one counts.
  for (const std::string& part : inputs.parts) {
    gathered.add_file(part, has_earlier ? Doubles::kEarlier : Doubles::kSame);
  }
  const std::int64_t merged_before = gathered.doubles().passed_over;
  for (const std::string& part : inputs.others) {
    gathered.add_file(part, Doubles::kEarlier);
  }
  const std::vector<const StoredRow*> rows = gathered.sorted();
  if (!partial) {
    require_complete(inputs, rows, description.schema);
  }
  remove_stale_temporaries_of(output);
  publish_results(output, description, rows, gathered.pool());
  gathered.pool().close_all();
  const std::string own = parts_folder(output);
  const std::int64_t missing = count_statuses(rows).skipped;
  for (const std::string& folder : inputs.folders) {
    if (missing == 0 && is_same_file(folder, own) && !is_locked(own)) {
      remove_parts(own);
    }
  }
  return {.rows = static_cast<std::int64_t>(rows.size()),
          .missing = missing,
          .same_twice = gathered.doubles().same,
          .passed_over = gathered.doubles().passed_over - merged_before};
}

}  // namespace vindex::results
