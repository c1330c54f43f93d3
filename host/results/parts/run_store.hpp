// Owns the life of a results file: parts while a run works, one published file, resume, merge. The
// HDF5 library never sees a file system that may fill up: images are built in memory, written to a
// temporary name, fsynced, reopened and checked, renamed, the folder fsynced
// (docs/decisions/results-files.md).
#pragma once

#include "results/tables/result_row.hpp"
#include "statistics/scales/scale_figures.hpp"
#include "statistics/spectrum/sample_angles.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace vindex::results {

/// The kinds of file that are written, resumed, merged and validated in the same way.
enum class FileSchema : std::uint8_t {
  kResults,      ///< vindex-results: spectra of one model
  kCompare,      ///< vindex-compare: pairs of matrices of two models
  kExperts,      ///< vindex-experts: similarity of the experts of a layer
  kCka,          ///< vindex-cka: layers of one dump of activations beside those of another
  kActivations,  ///< vindex-activations: statistics of dumped activations, layer by layer
  kRouting,      ///< vindex-routing: where routers send tokens, layer by layer
  kTrace,        ///< vindex-trace: statistics of a forward pass, layer by layer
  kGateVectors,  ///< vindex-gate-vectors: the features of a model, to be searched without it
};

/// A matrix that has no partner, for /unpaired/.
struct UnpairedMatrix {
  std::string side;    ///< "a" or "b"
  std::string tensor;  ///< with its slice, as model::matrix_name()
  std::string reason;
};

/// An attribute of the root that says what was measured: permutations, tokens, a rule.
struct RunAttribute {
  std::string name;
  std::variant<std::int64_t, double, std::string> value;
};

/// What of a run that compares is nowhere else.
struct CompareDescription {
  std::string other_model;  ///< B as given (kCompare, kCka)
  bool spectra = false;     ///< columns of both sides' spectra
  /// Per matrix of RunDescription::matrices, which are those of A: tensor_b and encoding_b.
  std::vector<std::pair<std::string, std::string>> partners;
  std::vector<UnpairedMatrix> unpaired;
};

/// What is reported of a tensor of any rank, beside model::TensorRecord, where a run takes samples.
struct TensorSample {
  std::string organ_class;               ///< by its name
  statistics::SampleAngles angles;       ///< of 1-D tensors; matrices have theirs in their rows
  std::string missing = {};              ///< why such a tensor has none
  statistics::ScaleFigures scales = {};  ///< of 1-D tensors too
  std::string scales_missing = {};       ///< why a figure of those is NaN
  BlockScales block_scales = {};         ///< of float8 tensors
};

/// Everything about a run that is not a row. JSON members are whole documents.
struct RunDescription {
  FileSchema schema = FileSchema::kResults;
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
  /// All of the model (stored names in `tensor_stored_names`).
  std::vector<model::TensorRecord> tensors;
  std::vector<std::string> tensor_stored_names;  ///< per tensor record, space-separated
  /// Rows and tensors carry the angles of a sample: columns theta_seed, ... of /matrix/ and
  /// /tensor/.
  bool sampled = false;
  std::vector<TensorSample> tensor_samples = {};  ///< per tensor record, with `sampled`
  CompareDescription compare;                     ///< of kCompare
  /// Of a schema with a CellTable: the values of every scale of it, by name. Rows of earlier runs
  /// are reused where these, the optional columns and the fingerprint are the same.
  std::map<std::string, ScaleValues> scales = {};
  std::vector<std::string> optional_columns = {};  ///< those of Presence::kOptional that rows have
  std::vector<RunAttribute> attributes = {};
};

struct WorkerShare {
  std::int32_t index = 0;  ///< not where shares are claimed
  std::int32_t count = 1;  ///< 1: a single run, unless shares are claimed
  bool claims = false;     ///< the process takes shares one by one (RunStore::take_share())
  /// Per row of the run, the share that it is in. Where it is left out, what a share holds is not
  /// known and no record of it is written (share_record.hpp); needed where shares are claimed.
  std::vector<std::int32_t> owners = {};
  /// One process does everything, and publishes the file.
  bool is_single() const { return count == 1 && !claims; }
};

/// What a run reports of its own work while it goes on.
struct RunProgress {
  double elapsed_seconds = 0.0;
  double rate_per_second = 0.0;  ///< matrices
  double eta_seconds = -1.0;     ///< negative: not known yet
  /// Arithmetic per second lately, in a unit that all workers of a run share: what they are
  /// compared by, since their matrices differ. 0: not known yet.
  double pace = 0.0;
  std::int64_t own_total = -1;  ///< rows of this worker's share; negative: it claims them
  std::int64_t own_done = 0;    ///< of them, failed ones among them
};

/// What taking a share came to.
enum class ShareState : std::uint8_t {
  kTaken,      ///< it is this process's now
  kElsewhere,  ///< another process works on it, as far as can be seen
  kFinished,   ///< all of its rows are published
};

/// A row without a measurement: its names are printable().
struct FailedRow {
  model::ResultTable table = model::ResultTable::kMatrix;
  std::string tensor;
  std::int32_t slice = -1;
  std::string status;  ///< "failed", "unsupported" or "not_converged"
  std::string reason;
};

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

/// See RunStore::take_share(). Processes show that they live every 20 s; network file systems show
/// that to others up to a minute later.
inline constexpr std::int32_t kClaimSeconds = 150;

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

/// What a merge came to.
struct MergeOutcome {
  std::int64_t rows = 0;
  std::int64_t missing = 0;      ///< of them without an outcome, with `partial`
  std::int64_t same_twice = 0;   ///< rows found in two parts with the same bits
  std::int64_t passed_over = 0;  ///< rows measured twice, of which those of the record were taken
};

/// Merges part folders or files into one results file, whose rows are read and written a chunk at a
/// time. Errors as above, and naming the part:
///   MissingInputError E-PART-MISSING (66): a part that a record names, or rows that no part has,
///     with the workers that have not finished; not with `partial`, which leaves those rows
///     `skipped`
///   FormatError E-PART-DIGEST (65): damaged
///   ConfigurationError E-RESUME-FINGERPRINT (78): of another model, revision or setting
///   ConfigurationError E-PART-DOUBLED (78): another result of a row that a second part has too
MergeOutcome merge_parts(const std::vector<std::string>& parts, const std::string& path,
                         bool partial = false);

/// Checks `path` against the schema; returns what is wrong, one line each (empty: valid).
/// Errors: MissingInputError, FormatError where it is no HDF5 file or of a newer major version.
std::vector<std::string> validate_file(const std::string& path);

/// Failed rows that are reported by name; the file has them all.
inline constexpr std::size_t kMaxFailedRows = 20;

/// How a process of a run is seen from outside.
enum class WorkerState : std::uint8_t {
  kAlive,
  kSlow,     ///< at less than half of the median pace, or silent for a minute
  kDead,     ///< ended without a word
  kStopped,  ///< ended properly before its share was finished
  kDone,
  kAbsent,  ///< has not begun
};
const char* worker_state_name(WorkerState state);  ///< "alive", "slow", ...

struct WorkerStatus {
  std::string tag;  ///< "3of16"; of one that claims shares "HOST-PIDof512"
  WorkerState state = WorkerState::kAlive;
  std::string host;
  std::int64_t pid = 0;          ///< 0: not known
  std::int64_t own_total = -1;   ///< rows of its share; negative: not known
  std::int64_t own_done = -1;    ///< of them; negative: not known
  double rate_per_second = 0.0;  ///< 0: not known
  double pace = 0.0;             ///< RunProgress::pace
  double seen_seconds = -1.0;    ///< since its last sign; negative: none
};

struct RunStatus {
  FileSchema schema = FileSchema::kResults;
  /// Of the file: "complete", "partial"; of parts alone "finished" (to be merged), "running".
  std::string state;
  /// Rows of /matrix/, or of /pair/. Finished rows count whether they are published or a working
  /// process has reported them.
  std::int64_t matrices_total = 0, done = 0, failed = 0, left = 0;
  /// Of a file with drawn rows: matrices in the model of all groups that they are of, the ones left
  /// out among them; else 0.
  std::int64_t n_total = 0;
  /// The same of the rows of all derived tables together.
  std::int64_t derived_total = 0, derived_done = 0, derived_failed = 0, derived_left = 0;
  std::int32_t workers = 0;  ///< processes that work on it now
  std::int32_t gone = 0;     ///< processes that were killed: what they had not published is lost
  std::vector<WorkerStatus> worker_list;  ///< of a run of several, by share; else empty
  /// Shares, where processes claim them; 0: they do not.
  std::int32_t shares_total = 0, shares_done = 0;
  double rate_per_second = 0.0;        ///< of all workers together
  double eta_seconds = -1.0;           ///< of the slowest; negative: not known
  std::vector<FailedRow> failed_rows;  ///< in the file's order, at most kMaxFailedRows
};
/// The schema of the run at `path`: of the published file, or of its parts. Errors:
/// MissingInputError where there is neither, FormatError as validate_file().
FileSchema schema_at(const std::string& path);

/// What the rows of a file are called, and the verb that writes them.
const char* row_noun(FileSchema schema);      ///< "matrices", "pairs"
const char* writing_verb(FileSchema schema);  ///< "measure", "compare"
const char* outcome_word(FileSchema schema);  ///< "measured", "compared": what a finished row is

/// Where the run of results file `path` stands. Errors: MissingInputError, FormatError.
RunStatus read_status(const std::string& path);

}  // namespace vindex::results
