// Owns the life of a results file: parts while a run works, one published file, resume, merge. The
// HDF5 library never sees a file system that may fill up: images are built in memory, written to a
// temporary name, fsynced, reopened and checked, renamed, the folder fsynced (CONTRIBUTING,
// Decisions).
#pragma once

#include <vindex/results/result_row.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vindex::results {

/// Everything about a run that is not a row. JSON members are whole documents.
struct RunDescription {
  std::string model;    ///< as given
  std::string mode;     ///< "fast", "default", "strict"
  std::string backend;  ///< "cpu" or "cuda"
  bool store_spectra = true;
  std::int32_t sign_flip_draws = 0;
  std::int32_t vectors = 0;
  /// What must be equal for old rows to be reused, as "name\nvalue" lines; a difference is exit 78
  /// naming the line. Lines called "derived...." only where both sides have them.
  std::vector<std::pair<std::string, std::string>> fingerprint;
  std::string command_json, settings_json, inputs_json, environment_json, config_json;
  std::string title, history;
  /// The selected ones in row order, and after them what is derived from them, table by table.
  std::vector<model::MatrixRecord> matrices;
  std::vector<model::TensorRecord>
      tensors;  ///< all of the model (stored names in `tensor_stored_names`)
  std::vector<std::string> tensor_stored_names;  ///< per tensor record, space-separated
};

struct WorkerShare {
  std::int32_t index = 0;
  std::int32_t count = 1;  ///< 1: a single run
};

/// One run's output. Not thread-safe: one writer thread.
class RunStore {
 public:
  virtual ~RunStore() = default;
  /// rows already finished (by an earlier run or another worker's published part), by index into
  /// matrices.
  virtual const std::vector<bool>& done() const = 0;
  virtual void add(ResultRow row) = 0;
  /// Publishes finished rows as a part file; cheap enough for every few seconds of work. Errors:
  /// SystemError 74, OutputError 73; what was published before stays intact.
  virtual void publish_part() = 0;
  /// Publishes OUT.h5 from all parts (status complete if every row is there, else partial). With a
  /// worker share of more than one only the part is published. Removes the parts when complete.
  virtual void publish_file() = 0;
};

/// Opens or resumes `path`. Errors: OutputError 73 (cannot create), ConfigurationError 78 (other
/// fingerprint, newer schema), SystemError. `restart` discards earlier state.
std::unique_ptr<RunStore> open_run_store(const std::string& path, const RunDescription& run,
                                         const WorkerShare& share, bool restart);

/// Merges part folders or files into one results file. Errors as above; parts that do not belong
/// together: 78.
void merge_parts(const std::vector<std::string>& parts, const std::string& path);

/// Checks `path` against the schema; returns what is wrong, one line each (empty: valid).
/// Errors: MissingInputError, FormatError where it is no HDF5 file or of a newer major version.
std::vector<std::string> validate_file(const std::string& path);

struct RunStatus {
  std::string state;  ///< "complete", "partial", "running" (parts only)
  std::int64_t matrices_total = 0, done = 0, failed = 0, left = 0;  ///< rows of /matrix/
  /// The same of the rows of all derived tables together.
  std::int64_t derived_total = 0, derived_done = 0, derived_failed = 0, derived_left = 0;
};
RunStatus read_status(const std::string& path);

}  // namespace vindex::results
