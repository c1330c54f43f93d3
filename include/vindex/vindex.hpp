// Owns vindex as a library: open a model, list and decode its matrices, measure one array or a
// whole model, read a results file, ask what noise of a shape gives. This header and
// <vindex/error.hpp> are all that an installation has (docs/library/library.md;
// find_package(vindex), target vindex::vindex).
//
// Every call may be made from any thread, several at once. No thread of ours outlives a call, and
// no call changes the environment of the process. Errors are vindex::Error and what derives from it
// (id(), exit_code(), what()), std::bad_alloc where there is no memory; each call says which.
#pragma once

#include <vindex/error.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace vindex {
// Inline, so that what a program calls vindex::measure() stands beside the engine's own names, and
// so that an incompatible change gets names of its own.
inline namespace v0 {

/// One weight matrix of a model: a row of /matrix/ of a results file.
struct Matrix {
  std::string tensor;        ///< logical name; of a model raw, to be printed through printable()
  std::int32_t layer = -1;   ///< -1: none
  std::string block;         ///< "routed_expert", "attention", ... (docs/models/families.md)
  std::string role;          ///< "down_proj", ...
  std::int32_t expert = -1;  ///< -1: none
  std::int32_t slice = -1;   ///< within a stacked tensor; -1: the tensor is one matrix
  std::int64_t rows = 0;     ///< outputs
  std::int64_t cols = 0;     ///< inputs
  std::string encoding;      ///< "Q4_K", "BF16", "fp8 128x128", ...
  std::string unsupported;   ///< why it can neither be decoded nor measured; empty if it can
  /// Stored inputs first: what Model::decode() gives is cols x rows.
  bool transposed = false;
};

/// A model opened by open(): its headers are read, no weights. Copies share what is open; one made
/// without open() may only be assigned to.
class Model {
 public:
  const std::string& address() const;
  /// Every weight matrix, in the order of a results file. Valid as long as any copy of the model.
  std::span<const Matrix> matrices() const;
  /// Worth knowing of the files: one line each, with its id ("W-...").
  const std::vector<std::string>& warnings() const;
  /// The float32 weights of `matrix`, rows x cols, row-major in the order in which the tensor is
  /// stored (in x out for the few formats that store so), exactly those that `vindex decode` writes
  /// and a measurement uses. Errors: UsageError E-TENSOR, E-SLICE where the model has no such
  /// matrix, FormatError E-UNSUPPORTED for an encoding that cannot be decoded; SystemError 74,
  /// RemoteError 69 where it cannot be read or has changed meanwhile; Error E-STOPPED (75).
  std::vector<float> decode(const Matrix& matrix) const;

 private:
  friend Model open(std::string_view address, std::stop_token stop);
  friend struct ModelAccess;
  struct State;
  std::shared_ptr<const State> state_;
};

/// Opens a model: a folder as Hugging Face lays it out, a .safetensors or .gguf file (the first of
/// a split set finds the others), by its path or an address. Reads headers alone. Errors:
/// FormatError 65, MissingInputError 66, SystemError, UsageError for an address of no known kind.
Model open(std::string_view address);
/// The same; once `stop` is requested this call, and every one of decode() on the model, ends with
/// Error E-STOPPED (75).
Model open(std::string_view address, std::stop_token stop);

/// Numbers by the names of their columns (docs/measuring/metrics.md): "stable_rank", "var_at_64",
/// and beside each "stable_rank_null": what noise of that shape gives. NaN: not defined.
class Figures {
 public:
  /// Errors: UsageError E-COLUMN for a name that there is not, with the nearest that there is.
  double operator[](std::string_view name) const;
  bool has(std::string_view name) const { return values_.contains(name); }
  const std::map<std::string, double, std::less<>>& all() const { return values_; }

 private:
  friend struct FiguresAccess;
  std::map<std::string, double, std::less<>> values_;
};

/// How a spectrum is measured: the table of modes in docs/measuring/metrics.md says what each
/// promises.
enum class Mode : std::uint8_t {
  kFast,     ///< the largest 64 singular values, with bounds
  kDefault,  ///< all of them, by a float32 Gram matrix
  kStrict    ///< all of them, in float64
};

struct SpectrumSettings {
  Mode mode = Mode::kDefault;
  bool escalate = true;          ///< a stricter route takes over where the first one is not enough
  std::string backend = "auto";  ///< "auto", "cpu", "cuda"
  std::stop_token stop = {};     ///< ends the call with Error E-STOPPED (75)
};

/// The spectrum of one matrix.
struct Spectrum {
  std::vector<double> sigma;  ///< singular values, descending; with Mode::kFast 64 at most
  double sigma_error = 0.0;   ///< largest error of any of them, in their units; NaN: not measured
  std::string method;         ///< the route, as in a results file
  bool escalated = false;     ///< a stricter route replaced the first one
  std::string status;         ///< "measured", "not_finite", "not_converged", ...
  std::string reason;         ///< why it was not measured, or values are NaN
  std::string backend;        ///< the one that measured: "cpu" or "cuda"
  Figures figures;            ///< every metric and its null
};

/// Measures `weights`, rows x cols, row-major, as `vindex measure` does a matrix of these weights.
/// On the CPU it takes one core: several matrices are for several threads. Errors: UsageError
/// E-SHAPE where weights.size() is not rows x cols or a side is below 1, E-BACKEND for a back end
/// of no such name; ConfigurationError 78 without OpenBLAS; DeviceError 70, OutOfMemory.
Spectrum spectrum(std::span<const float> weights, std::int64_t rows, std::int64_t cols,
                  const SpectrumSettings& settings = {});

/// The figures of noise of a shape: the nulls of docs/measuring/metrics.md, by the names of the
/// metrics ("stable_rank", "var_at_64") or of their null columns ("stable_rank_null").
struct Null {
  std::int64_t rows = 0, cols = 0;
  Figures figures;
};

/// Means over iid Gaussian noise of rows x cols; the order of the sides does not matter. Errors:
/// UsageError E-SHAPE where a side is below 1.
Null null(std::int64_t rows, std::int64_t cols);

/// The choice of matrices and of how they are measured: the options of `vindex measure` by the same
/// names.
struct MeasureSettings {
  // Selections, as the command line takes them; empty: all.
  std::string layers = {}, blocks = {}, roles = {}, tensors = {};
  Mode mode = Mode::kDefault;
  bool escalate = true;
  std::int32_t vectors = 0;                ///< top singular vectors to store
  std::int32_t sign_flip_draws = 0;        ///< draws of the sign-flip null
  bool store_spectra = true;               ///< the singular values themselves
  std::string backend = "auto";            ///< "auto", "cpu", "cuda"
  std::vector<std::int32_t> devices = {};  ///< CUDA devices; empty: the first one
  std::int32_t threads = 0;                ///< CPU workers; 0: every core that may be used
  std::uint64_t ram_budget = 0;            ///< bytes; 0: three quarters of what there is
  std::int32_t worker = 0, workers = 1;    ///< this process's share of the rows
  bool restart = false;                    ///< discards what an earlier run left
};

/// How far a measurement is.
struct Progress {
  std::int64_t done = 0, total = 0, failed = 0;  ///< matrices
  std::uint64_t bytes_done = 0, bytes_total = 0;
  double elapsed_seconds = 0.0;
  double remaining_seconds = -1.0;  ///< negative: not known yet
  std::string current;              ///< the last finished matrix, printable
};

/// Called while a measurement runs, on the calling thread; every member may be empty.
struct Hooks {
  std::function<void(const Progress&)> progress = {};          ///< at most every 100 ms
  std::function<void(std::string_view message)> message = {};  ///< one line to show
  std::stop_token stop = {};  ///< ends the call within two seconds; what is finished is published
};

/// How a measurement ended.
struct Outcome {
  ExitCode exit_code = ExitCode::kOk;  ///< what the program would end with
  std::int64_t total = 0;              ///< rows
  std::int64_t measured_now = 0, done_before = 0, failed = 0, unsupported = 0, not_finite = 0,
               escalated = 0;
  bool stopped = false;  ///< the same call goes on where this one ended
  double seconds = 0.0;
  std::vector<std::string> troubles;  ///< "NAME: why" of rows that are not measured, twenty at most
};

/// Measures every selected matrix of `model`, opened anew by its address, into results file `out`,
/// as `vindex measure` does: a file of the same settings is resumed. Troubles of single rows are in
/// the outcome. Errors: UsageError for a selection or setting that is wrong, ConfigurationError 78,
/// OutputError 73, SystemError, DeviceError 70.
Outcome measure(const Model& model, const std::filesystem::path& out,
                const MeasureSettings& settings = {}, const Hooks& hooks = {});

/// A results file of `vindex measure` opened by read(), as it was then. Copies share it; one made
/// without read() may only be assigned to.
class Results {
 public:
  /// Rows of /matrix/.
  std::int64_t size() const;
  /// "complete" or "partial".
  std::string status() const;
  /// Who each row is, in the file's order.
  std::span<const Matrix> rows() const;
  /// Names of the columns, numbers and texts alike.
  std::vector<std::string> columns() const;
  /// Column `name` of every row. T: double, float, std::int32_t, std::int64_t or std::string; an
  /// integer that is missing is -1, a double NaN. "var_at_k" has nine values a row, and "var_at_64"
  /// is one of them; "status" is text too. Errors: UsageError E-COLUMN for a name that there is not
  /// or that is no column of such values, with the nearest.
  template <typename T>
  std::vector<T> column(std::string_view name) const;
  /// Singular values of a row, descending; empty where the file has none. Errors: UsageError E-ROW.
  std::vector<double> spectrum(std::int64_t row) const;
  /// An attribute of the file: "model", "mode", "backend", "title". Errors: FormatError where it is
  /// absent.
  std::string attribute(const std::string& name) const;

 private:
  friend Results read(const std::filesystem::path& path);
  struct State;
  std::shared_ptr<const State> state_;
};

/// Errors: MissingInputError 66, FormatError 65 where it is no results file, damaged, or of a newer
/// major version.
Results read(const std::filesystem::path& path);

/// "0.1.0".
std::string version();

/// Hands over the environment: `variable(name)` gives the value of a variable, empty where it is
/// not set, from any thread. Models on other machines follow some of them: tokens, keys, endpoints,
/// caches (docs/models/remote-models.md); OPENBLAS_CORETYPE names the kernels of OpenBLAS where it
/// is not loaded yet. The library reads none of its own accord, so that without this call nothing
/// is set. For addresses that are opened later.
void set_environment(std::function<std::string(const char* name)> variable);

}  // namespace v0
}  // namespace vindex
