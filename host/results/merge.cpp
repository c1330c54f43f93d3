// Owns merging parts folders of several workers or machines into one results file.
#include "gathered_rows.hpp"
#include "output_path.hpp"
#include "parts_folder.hpp"
#include "run_lock.hpp"

#include "core/atomic_file.hpp"
#include "core/path_kind.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <optional>
#include <set>
#include <sys/stat.h>

namespace vindex::results {

namespace {

struct MergeInputs {
  std::vector<std::string> runs;     ///< descriptions: tensors, selection, texts
  std::vector<std::string> parts;    ///< rows
  std::vector<std::string> files;    ///< published results files
  std::vector<std::string> folders;  ///< as given
};

void add_folder(MergeInputs& inputs, const std::string& folder, const std::string& output) {
  const PartFiles files = list_parts(folder);
  // Of the output itself and empty: a merge that ended while it removed what it had merged.
  const bool is_merged = file_exists(output) && is_same_file(folder, parts_folder(output));
  if (files.runs.empty() && files.parts.empty() && !is_merged) {
    throw MissingInputError("E-MERGE-EMPTY", printable(folder) + " holds no parts of a vindex run");
  }
  inputs.runs.insert(inputs.runs.end(), files.runs.begin(), files.runs.end());
  inputs.parts.insert(inputs.parts.end(), files.parts.begin(), files.parts.end());
  inputs.folders.push_back(folder);
}

/// Orders and drops repetitions.
void tidy(std::vector<std::string>& paths) {
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
}

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
  tidy(inputs.runs);
  tidy(inputs.parts);
  tidy(inputs.files);
  return inputs;
}

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

}  // namespace

void merge_parts(const std::vector<std::string>& parts, const std::string& path) {
  if (parts.empty()) {
    throw UsageError("E-MERGE-EMPTY", "no parts given");
  }
  const std::string output = resolve_output(path);
  require_replaceable(output);
  MergeInputs inputs = sort_inputs(parts, output);
  for (const std::string& file : inputs.files) {
    if (is_same_file(file, output)) {
      throw OutputError("E-OUT-INPUT", printable(path) + " is also an input of the merge");
    }
  }
  // What an earlier run of the same fingerprint published stays.
  if (file_exists(output)) {
    inputs.files.push_back(output);
  }
  std::vector<std::string> described = inputs.runs;
  described.insert(described.end(), inputs.files.begin(), inputs.files.end());
  if (described.empty()) {
    throw MissingInputError(
        "E-MERGE-RUN", "no run-*.h5 beside the parts: they do not say what was to be measured");
  }
  FileDescription description = ResultsReader(described.front(), std::nullopt).description();
  std::vector<std::string> sources = described;
  sources.insert(sources.end(), inputs.parts.begin(), inputs.parts.end());
  for (const std::string& source : sources) {
    if (file_name_of(source).starts_with("part-")) {
      verify_part(source);
    }
    const Fingerprint found = fingerprint_of(source, description.schema);
    require_same_fingerprint(description.fingerprint, found, source,
                             "parts of different runs do not go together");
    keep_derived_lines(description.fingerprint, found);
  }
  GatheredRows gathered;
  for (const std::string& source : sources) {
    gathered.add_file(source);
  }
  remove_stale_temporaries_of(output);
  const std::vector<const StoredRow*> rows = gathered.sorted();
  publish_results(output, description, rows, gathered.pool());
  gathered.pool().close_all();
  const std::string own = parts_folder(output);
  const bool complete = count_statuses(rows).skipped == 0;
  for (const std::string& folder : inputs.folders) {
    if (complete && is_same_file(folder, own) && !is_locked(own)) {
      remove_parts(own);
    }
  }
}

}  // namespace vindex::results
