// Owns the interface of back ends: one takes a batch of encoded matrices and returns raw numbers,
// singular values and moments. Everything derived from them is computed once, on the host
// (statistics/spectrum/metrics.hpp), so back ends agree by construction.
#pragma once

#include "inner_products.hpp"
#include "sign_flip_draws.hpp"

#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include "decode/moments.hpp"
#include <vindex/error.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace vindex {

enum class SpectrumMode : std::uint8_t { kFast, kDefault, kStrict };

/// The svd_route that has `fast` prove its bounds for each matrix, by an iteration on the Gram for
/// the largest values and a factorisation that excludes others; takes longer than `default`.
inline constexpr std::string_view kProofRoute = "proof";

/// MatrixStatus of a row of /matrix/, in the order of its flag_values.
enum class MatrixStatus : std::int8_t {
  kMeasured = 0,
  kNotConverged = 1,
  kNotFinite = 2,
  kUnsupported = 3,
  kFailed = 4,
  kSkipped = 5
};

struct MeasureOptions {
  SpectrumMode mode = SpectrumMode::kDefault;
  bool escalate = true;  ///< --no-escalate clears it
  /// "auto", "library", ... ; UsageError for a route the back end lacks.
  std::string svd_route = "auto";
  /// Draws of the sign-flip null (metrics contract), each one more spectrum; 0: none.
  std::int32_t sign_flip_draws = 0;
  std::int32_t vectors = 0;  ///< top-K singular vectors to compute
  /// Looked at within measure(), which throws Stopped once it is requested.
  std::stop_token stop = {};
};

/// The matrix a back end is to measure, whole in memory or read piece by piece. Stored orientation.
class MatrixInput {
 public:
  virtual ~MatrixInput() = default;
  virtual const decode::Encoding& encoding() const = 0;
  virtual std::int64_t rows() const = 0;  ///< as stored
  virtual std::int64_t cols() const = 0;
  /// True where rows/columns are stored as in x out: matters for left/right vectors and the
  /// sign-flip index only.
  virtual bool transposed() const = 0;
  /// First 8 bytes of SHA-256("tensor#slice") as a little-endian integer: key of the sign-flip
  /// null.
  virtual std::uint64_t sign_flip_key() const = 0;
  /// Bytes that row_slab()/column_slab() may pin at a time: 0 where the matrix is in memory
  /// already.
  virtual bool in_memory() const = 0;
  /// True where many small slabs cost no more than a few large ones, so that a caller may ask for
  /// as much as his core's cache holds.
  virtual bool has_cheap_slabs() const { return in_memory(); }
  /// The rows [first, first+count) / columns, encoded. The view is valid until the next call on
  /// this object. In memory: a sub-view. Streamed: read from the source (errors of
  /// ByteSource::read_many pass through).
  virtual decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) = 0;
  virtual decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) = 0;
  /// Said once by a back end that needs the host bytes no more (it holds a copy, or the matrix is
  /// done): the owner may hand their memory to the next matrix while measure() still runs. Views
  /// given out before are dead from here on, and no slab is asked for again. A slab function may
  /// block until its bytes have arrived; release() never blocks. Not every back end calls it.
  virtual void release() {}
};

/// A MatrixInput over bytes already in memory. `matrix` is the whole matrix (first_row = first_col
/// = 0).
std::unique_ptr<MatrixInput> make_memory_input(const decode::EncodedMatrix& matrix,
                                               bool transposed = false,
                                               std::uint64_t sign_flip_key = 0);

/// Certified bounds of `fast` mode (k as in kVarAtK, only k <= 64 used).
struct SpectrumBounds {
  std::vector<double> var_at_k_lower, var_at_k_upper;  ///< 9 values, NaN beyond k = 64
  double stable_rank_lower = std::numeric_limits<double>::quiet_NaN();
  double stable_rank_upper = std::numeric_limits<double>::quiet_NaN();
};

/// Top-K singular vectors, on request. Unit norm; each vector's largest component (of `right`) is
/// positive.
struct SingularVectors {
  std::int32_t count = 0;
  std::vector<float> right;                  ///< [count, logical cols]
  std::vector<float> left;                   ///< [count, logical rows]
  std::vector<double> sigma, residual, gap;  ///< [count]
};

/// Raw numbers of one matrix. Expected outcomes are values here, never exceptions.
struct MatrixReport {
  MatrixStatus status = MatrixStatus::kFailed;
  std::string reason;         ///< why not measured, or which values are NaN and why; "zero matrix"
  std::vector<double> sigma;  ///< descending, min(rows, cols) values; fast: the top min(64, p)
  decode::Moments moments;    ///< of the decoded weights, filled whenever decoding succeeded
  /// ||G||_F^2 in units of w^4, NaN if no Gram.
  double gram_norm_squared = std::numeric_limits<double>::quiet_NaN();
  double check_trace = std::numeric_limits<double>::quiet_NaN();
  double check_gram = std::numeric_limits<double>::quiet_NaN();
  /// Largest error of a value of `sigma` that the route answers for, in its units; NaN: unknown.
  double sigma_error = std::numeric_limits<double>::quiet_NaN();
  /// False: what depends on the smallest values becomes NaN (derive_metrics).
  bool tail_reliable = true;
  bool escalated = false;
  std::string method;                     ///< "gram32+trd32+cpu", ... (results contract)
  std::optional<SpectrumBounds> bounds;   ///< fast mode
  std::optional<SignFlipNull> sign_flip;  ///< with sign_flip_draws, of a measured matrix
  std::optional<SingularVectors> vectors;
  double seconds_decode = 0.0, seconds_gram = 0.0, seconds_eigen = 0.0;  ///< wall time by stage
};

/// The trial of one hand-written kernel on the device at hand, against the numerical libraries.
struct SelfTestInfo {
  std::string name;
  bool passed = false;
  std::string detail;  ///< worst error and what was allowed, or what broke
};

/// Who computes.
struct BackendInfo {
  std::string name;                    ///< "cpu" or "cuda"
  std::string device;                  ///< processor or GPU model
  std::vector<std::string> libraries;  ///< "OpenBLAS 0.3.21 SkylakeX", "cuSOLVER 12.0.4", driver
  std::vector<SelfTestInfo> self_tests = {};  ///< of what prepare() had to try so far
  std::vector<std::string> notes = {};        ///< for the user's eyes, such as a kernel that failed
};

/// What the work queue above may ask of it.
struct BackendLimits {
  /// Calls of measure() that may run at once, each on its own thread.
  std::int32_t concurrent_calls = 1;
  std::int64_t batch = 1;          ///< matrices of one shape worth handing over at once
  std::uint64_t device_bytes = 0;  ///< memory usable on the device; 0: host memory counts
  /// It computes on the cores that whoever calls it has too: threads of both are counted together.
  bool uses_host_cores = false;
  /// A promise that lets the bytes of a batch stream through less memory than they fill: measure()
  /// asks for slabs of its inputs in the order of the batch and, whenever it asks for the next
  /// input's, holds fewer than this many earlier ones that are not released. 0: no promise, the
  /// whole batch lies in host memory for the length of the call.
  std::int64_t held_inputs = 0;
};

/// Host bytes for encoded data, pinned where the back end wants it (64-byte aligned at least).
/// Move-only owner.
class StagingBuffer {
 public:
  virtual ~StagingBuffer() = default;
  virtual std::span<std::byte> bytes() = 0;
};

/// How the encoded bytes of a matrix reach a back end, which decides what it holds beside them.
enum class InputBytes : std::uint8_t {
  kHeld,           ///< all in host memory: MatrixInput::in_memory()
  kStreamed,       ///< slab by slab, without a limit
  kStreamedLeast,  ///< slab by slab, within the smallest workspace_limit that measure() takes
};

/// One object per device.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual BackendInfo info() const = 0;
  virtual BackendLimits limits() const = 0;
  /// Does once what a run with these options needs beforehand (self-tests of kernels); info() then
  /// says. measure() does it too. Errors: UsageError for options this back end or device does not
  /// have; DeviceError.
  virtual void prepare(const MeasureOptions& /*options*/) {}
  virtual std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) = 0;
  /// Host memory that measure() takes for one matrix beside the encoded bytes that are held, an
  /// upper bound, used by the budget; of a streamed one with its slabs. A workspace_limit of at
  /// least this much (kHeld, kStreamedLeast) is enough.
  virtual std::uint64_t workspace_bytes(const decode::Encoding& encoding, std::int64_t rows,
                                        std::int64_t cols, const MeasureOptions& options,
                                        InputBytes input) const = 0;
  /// Device memory that measure() takes for up to `batch` matrices of one shape, an upper bound; 0
  /// where it is host memory. Where not one matrix fits: what that one would take.
  virtual std::uint64_t device_workspace_bytes(const decode::Encoding& /*encoding*/,
                                               std::int64_t /*rows*/, std::int64_t /*cols*/,
                                               const MeasureOptions& /*options*/,
                                               std::int64_t /*batch*/) const {
    return 0;
  }
  /// Blocks. out[i] belongs to batch[i]. A matrix that cannot be measured is a report; DeviceError,
  /// OutOfMemory, read errors of a streamed input and Stopped are thrown. `workspace_limit` bounds
  /// the host memory used (bytes; 0: free); no result depends on it.
  virtual void measure(std::span<MatrixInput* const> batch, const MeasureOptions& options,
                       std::uint64_t workspace_limit, std::span<MatrixReport> out) = 0;
  /// Sums of inner products, all 0. Errors: OutOfMemory, DeviceError.
  virtual std::unique_ptr<InnerProducts> inner_products(const InnerProductShape& /*shape*/) {
    throw UsageError("E-BACKEND", "this back end has no inner products");
  }
  /// What they hold, with the most that one add() takes.
  virtual InnerProductMemory inner_product_memory(const InnerProductShape& /*shape*/) const {
    return {};
  }
  /// Decoded weights of `matrix`, rows x cols as stored: the conformance tests compare bits.
  virtual void decode(const decode::EncodedMatrix& matrix, std::span<float> out) = 0;
};

/// Page-aligned memory. Errors: OutOfMemory.
std::unique_ptr<StagingBuffer> make_host_staging(std::size_t bytes);

}  // namespace vindex
