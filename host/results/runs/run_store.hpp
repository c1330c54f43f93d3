// Owns the life of a results file: parts while a run works, one published file, resume. The HDF5
// library never sees a file system that may fill up: images are built in memory, written to a
// temporary name, fsynced, reopened and checked, renamed, the folder fsynced
// (docs/decisions/results-files.md).
#pragma once

#include "worker_share.hpp"

#include "results/parts/heartbeat.hpp"
#include "results/rows/result_row.hpp"
#include "results/schema/run_description.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vindex::results {

/// One run's output. Not thread-safe: one writer thread.
class RunStore {
 public:
  virtual ~RunStore() = default;
  /// rows already finished (by an earlier run or another worker's published part), by index into
  /// matrices.
  virtual const std::vector<bool>& done() const = 0;
  virtual void add(ResultRow row) = 0;
  /// Takes the place of RunDescription::environment_json in what is published from now on: how a
  /// run went is known at its end.
  virtual void set_environment(const std::string& json) = 0;
  /// Lets `vindex status` see where the run stands, rows included that are not published yet.
  /// Cheap: call it often, it writes at most once a second.
  virtual void show_progress(const RunProgress& progress) = 0;
  /// Publishes finished rows as a part file; cheap enough for every few seconds of work. Errors:
  /// SystemError 74, OutputError 73; what was published before stays intact.
  virtual void publish_part() = 0;
  /// Publishes OUT.h5 from all parts (status complete if every row is there, else partial). Of a
  /// worker only its part is published, and a record where its share is finished. Removes the parts
  /// when complete.
  virtual void publish_file() = 0;
  /// Where shares are claimed: takes share `share`, also one whose process is gone or has shown no
  /// sign of life for kClaimSeconds by the file system's clock. Two processes may believe that they
  /// have the same share (a file system without locks, a process that slept): it is measured twice
  /// and merged once. Errors: SystemError, OutputError.
  virtual ShareState take_share(std::int32_t share) = 0;
  /// Publishes the rows of a share that was taken, records it as finished and gives it back.
  virtual void finish_share(std::int32_t share) = 0;
};

/// Spectra, vectors and arrays that wait in memory for the next part, unless less is asked for.
inline constexpr std::uint64_t kMaxPendingBytes = 64U << 20U;
/// Memory of one row in a RunStore beside these: as gathered, and again while the published file is
/// read back.
inline constexpr std::uint64_t kStoredRowBytes = 4096;

/// Opens or resumes `path`. Errors: FormatError (65) E-MODEL-TENSOR-NAME for a row that no file can
/// hold, before anything else; OutputError 73 (cannot create), ConfigurationError 78 (other
/// fingerprint, newer schema), SystemError. `restart` discards earlier state. Beyond
/// `pending_bytes` of finished spectra, vectors and arrays a part is published by itself.
std::unique_ptr<RunStore> open_run_store(const std::string& path, const RunDescription& run,
                                         const WorkerShare& share, bool restart,
                                         std::uint64_t pending_bytes = kMaxPendingBytes);

}  // namespace vindex::results
