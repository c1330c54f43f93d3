// The CUDA back end, library route: encoded bytes are copied to the device, decoded there by the
// decoders the host uses too, contracted in float64 by cuBLAS, and solved in float64 by cuSOLVER's
// batched eigenvalue solver. Float64 throughout is the accurate choice on data-centre GPUs, where
// it runs at half the float32 rate; it is slow on inference cards. `default` and `strict` therefore
// take the same route, and every matrix whose condition the Gram cannot hold is bidiagonalised
// directly.
#include "decode_matrix.hpp"
#include "moments.hpp"
#include "pinned_pool.hpp"
#include "singular_values.hpp"

#include <vindex/decode/decode_view.hpp>
#include <vindex/measure/backend.hpp>
#include <vindex/measure/spectrum_checks.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace vindex::kernels {

namespace {

using measure::MatrixInput;
using measure::MatrixReport;
using measure::MeasureOptions;
using measure::Mode;
using measure::Status;

constexpr std::int32_t kLanes = 2;  ///< one copies while the other computes
constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kSlabWeights =
    128LL << 20U;  ///< decoded at a time: 0.5 GiB of float32, 1 GiB of float64
constexpr std::int64_t kStreamedSlabWeights = 8LL
                                              << 20U;  ///< of a matrix that is not in host memory
constexpr std::uint64_t kStreamedSlabBytes = 8 * kStreamedSlabWeights;
constexpr std::uint64_t kHostWorkspace = 16ULL << 20U;
constexpr std::int64_t kGramBytes = 4LL << 30U;  ///< Gram matrices of a sub-batch

/// One concurrent call's stream, handles and memory.
struct Lane {
  SolverLane solver;
  DeviceBuffer codes{"encoded weights"};
  DeviceBuffer scales{"scales"};
  DeviceBuffer decoded{"decoded weights"};
  DeviceBuffer wide{"weights as doubles"};
  DeviceBuffer grams{"Gram matrices"};
  DeviceBuffer scratch{"reductions"};
  DeviceBuffer transposed{"transposed weights"};
};

/// How one matrix is cut.
struct Cut {
  bool row_slabs = true;  ///< the long side is the rows as stored
  std::int64_t short_side = 0, long_side = 0, step = 0;
};

Cut cut_of(const MatrixInput& input) {
  Cut cut;
  cut.row_slabs = input.rows() >= input.cols();
  cut.short_side = std::min(input.rows(), input.cols());
  cut.long_side = std::max(input.rows(), input.cols());
  const std::int64_t unit = cut.row_slabs ? std::max<std::int64_t>(1, input.encoding().block_rows)
                                          : decode::column_granularity(input.encoding());
  const std::int64_t weights = input.in_memory() ? kSlabWeights : kStreamedSlabWeights;
  cut.step = std::max(unit, weights / cut.short_side / unit * unit);
  return cut;
}

/// Copies the slab's bytes to the device and decodes them, rows x cols contiguous. Waits where the
/// host bytes may change.
void decode_slab(Lane& lane, const MatrixInput& input, const decode::EncodedMatrix& slab,
                 bool flip) {
  cudaStream_t stream = lane.solver.stream.get();
  const auto width = decode::row_bytes(*slab.encoding, static_cast<std::uint64_t>(slab.cols));
  expects(width.has_value(), "a slab whose row does not fit its encoding");
  const auto rows = static_cast<std::size_t>(slab.rows);
  auto* codes = lane.codes.reserve_array<std::uint8_t>(static_cast<std::size_t>(*width) * rows);
  check(cudaMemcpy2DAsync(codes, *width, slab.codes,
                          static_cast<std::size_t>(slab.row_stride_bytes), *width, rows,
                          cudaMemcpyHostToDevice, stream));
  decode::DecodeView view = decode::decode_view(slab);
  view.codes = codes;
  view.row_stride_bytes = static_cast<std::int64_t>(*width);
  if (view.scales != nullptr) {
    const decode::Companion* scales = slab.companion(decode::CompanionRole::kScale);
    auto* device_scales = lane.scales.reserve_array<std::uint8_t>(scales->bytes.size());
    check(cudaMemcpyAsync(device_scales, scales->bytes.data(), scales->bytes.size(),
                          cudaMemcpyHostToDevice, stream));
    view.scales = device_scales;
  }
  auto* decoded =
      lane.decoded.reserve_array<float>(static_cast<std::size_t>(slab.rows * slab.cols));
  decode_matrix(*slab.encoding, view, decoded, slab.cols, stream);
  if (flip) {
    flip_signs(decoded, slab.rows, slab.cols,
               {.key = input.sign_flip_key(),
                .transposed = input.transposed(),
                .whole_rows = input.rows(),
                .whole_cols = input.cols(),
                .first_row = slab.first_row,
                .first_col = slab.first_col},
               stream);
  }
  if (!input.in_memory()) {
    check(cudaStreamSynchronize(stream));
  }
}

decode::EncodedMatrix slab_of(MatrixInput& input, const Cut& cut, std::int64_t first,
                              std::int64_t count) {
  return cut.row_slabs ? input.row_slab(first, count) : input.column_slab(first, count);
}

/// One pass over the matrix: moments (unless signs are flipped, which changes none that matter) and
/// the Gram matrix.
void form_gram(Lane& lane, MatrixInput& input, bool flip, double* gram, decode::Moments* moments) {
  const Cut cut = cut_of(input);
  cudaStream_t stream = lane.solver.stream.get();
  for (std::int64_t first = 0; first < cut.long_side; first += cut.step) {
    const std::int64_t count = std::min(cut.step, cut.long_side - first);
    decode_slab(lane, input, slab_of(input, cut, first, count), flip);
    const std::int64_t weights = count * cut.short_side;
    auto* decoded = lane.decoded.reserve_array<float>(static_cast<std::size_t>(weights));
    if (moments != nullptr) {
      *moments = decode::merge(*moments, moments_of(decoded, weights, lane.scratch, stream));
    }
    auto* wide = lane.wide.reserve_array<double>(static_cast<std::size_t>(weights));
    widen(decoded, weights, wide, stream);
    add_gram(lane.solver, wide, cut.row_slabs, count, cut.short_side, first == 0, gram);
  }
}

/// Descending singular values by bidiagonalisation of the matrix itself, or nothing where it did
/// not converge.
std::vector<double> bidiagonalise(Lane& lane, MatrixInput& input, bool flip) {
  const std::int64_t rows = input.rows();
  const std::int64_t cols = input.cols();
  auto* whole = lane.wide.reserve_array<double>(static_cast<std::size_t>(rows * cols));
  const std::int64_t unit = std::max<std::int64_t>(1, input.encoding().block_rows);
  const std::int64_t weights = input.in_memory() ? kSlabWeights : kStreamedSlabWeights;
  const std::int64_t step = std::max(unit, weights / cols / unit * unit);
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first);
    decode_slab(lane, input, input.row_slab(first, count), flip);
    const auto* decoded = lane.decoded.reserve_array<float>(static_cast<std::size_t>(count * cols));
    widen(decoded, count * cols, whole + first * cols, lane.solver.stream.get());
  }
  return singular_values(lane.solver, whole, rows, cols, lane.transposed);
}

std::vector<double> sigma_of(const double* ascending, std::int64_t p) {
  std::vector<double> sigma(static_cast<std::size_t>(p));
  for (std::int64_t i = 0; i < p; ++i) {
    sigma[static_cast<std::size_t>(i)] = std::sqrt(std::max(ascending[p - 1 - i], 0.0));
  }
  return sigma;
}

/// What a float64 Gram cannot hold: a negative eigenvalue, or a condition beyond 10 p.
bool gram_is_enough(const double* ascending, const std::vector<double>& sigma) {
  return ascending[0] >= 0.0 &&
         measure::condition_of(sigma) <=
             measure::kStrictConditionPerSize * static_cast<double>(sigma.size());
}

/// Bounds of `fast` from values of the full route. Rounding of the Gram moves an eigenvalue by at
/// most n eps F2 (each entry carries at most n rounding errors of |W|^T |W|, whose norm is at most
/// F2), the solver by a small multiple of p eps lambda_1; 50 is LAPACK's test threshold. Source:
/// Weyl's inequality; Higham 2002, section 3.5.
void set_bounds(MatrixReport& report, std::int64_t n, std::int64_t p) {
  constexpr double kEps = 2.220446049250313e-16;
  const double total = report.moments.sum_squares;
  const double largest = report.sigma.front() * report.sigma.front();
  const double shift =
      kEps * (static_cast<double>(n) * total + 50.0 * static_cast<double>(p) * largest);
  constexpr std::array<std::int64_t, 9> kCounts = {1, 2, 4, 8, 16, 32, 64, 128, 256};
  measure::SpectrumBounds bounds;
  for (const std::int64_t k : kCounts) {
    double lower = std::numeric_limits<double>::quiet_NaN();
    double upper = lower;
    if (k <= 64) {
      const std::int64_t used = std::min(k, p);
      double sum = 0.0;
      for (std::int64_t i = 0; i < used; ++i) {
        sum +=
            report.sigma[static_cast<std::size_t>(i)] * report.sigma[static_cast<std::size_t>(i)];
      }
      const double slack = static_cast<double>(used) * shift;
      lower = k >= p ? 1.0 : std::max(0.0, (sum - slack) / total);
      upper = k >= p ? 1.0 : std::min(1.0, (sum + slack) / total);
    }
    bounds.var_at_k_lower.push_back(lower);
    bounds.var_at_k_upper.push_back(upper);
  }
  bounds.stable_rank_lower = total / (largest + shift);
  bounds.stable_rank_upper = total / std::max(largest - shift, std::numeric_limits<double>::min());
  report.bounds = bounds;
  report.sigma.resize(static_cast<std::size_t>(std::min<std::int64_t>(p, 64)));
  report.tail_reliable = false;
}

class CudaBackend final : public measure::Backend {
 public:
  explicit CudaBackend(std::int32_t device) : device_(device) {
    check(cudaSetDevice(device_));
    check(cudaGetDeviceProperties(&properties_, device_));
    for (std::int32_t i = 0; i < kLanes; ++i) {
      lanes_.push_back(std::make_unique<Lane>());
      free_lanes_.push_back(lanes_.back().get());
    }
  }

  measure::BackendInfo info() const override {
    measure::BackendInfo info;
    info.name = "cuda";
    info.device = properties_.name;
    int driver = 0;
    int runtime = 0;
    check(cudaDriverGetVersion(&driver));
    check(cudaRuntimeGetVersion(&runtime));
    int major = 0;
    int minor = 0;
    int patch = 0;
    check(cusolverGetProperty(MAJOR_VERSION, &major));
    check(cusolverGetProperty(MINOR_VERSION, &minor));
    check(cusolverGetProperty(PATCH_LEVEL, &patch));
    const auto version = [](int number) {
      return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
    };
    info.libraries = {"driver for CUDA " + version(driver), "CUDA runtime " + version(runtime),
                      "cuSOLVER " + std::to_string(major) + "." + std::to_string(minor) + "." +
                          std::to_string(patch)};
    return info;
  }

  measure::BackendLimits limits() const override {
    return {
        .concurrent_calls = kLanes, .batch = kBatch, .device_bytes = properties_.totalGlobalMem};
  }

  std::unique_ptr<measure::StagingBuffer> make_staging(std::size_t bytes) override {
    check(cudaSetDevice(device_));
    return pinned_.take(bytes);
  }

  std::uint64_t workspace_bytes(const decode::Encoding& /*encoding*/, std::int64_t rows,
                                std::int64_t cols, const MeasureOptions& /*options*/,
                                bool least) const override {
    const auto p = static_cast<std::uint64_t>(std::min(rows, cols));
    const std::uint64_t values = 64 * p;  // eigenvalues of a batch and reports
    return kHostWorkspace + values + (least ? kStreamedSlabBytes : 0);
  }

  void measure(std::span<MatrixInput* const> batch, const MeasureOptions& options,
               std::uint64_t /*workspace_limit*/, std::span<MatrixReport> out) override {
    expects(batch.size() == out.size(), "measure() wants a report for every matrix");
    if (options.vectors > 0) {
      throw UsageError("E-CUDA-VECTORS",
                       "--vectors is not there yet on the cuda back end; use --backend cpu");
    }
    if (options.svd_route != "auto" && options.svd_route != "library") {
      throw UsageError("E-SVD-ROUTE", "the cuda back end has the routes auto and library, not " +
                                          options.svd_route);
    }
    check(cudaSetDevice(device_));
    LaneLease lease(*this);
    std::size_t first = 0;
    while (first < batch.size()) {
      // Neighbours of one size share a call of the batched solver.
      const std::int64_t p = std::min(batch[first]->rows(), batch[first]->cols());
      const auto room =
          static_cast<std::size_t>(std::max<std::int64_t>(1, kGramBytes / (8 * p * p)));
      std::size_t last = first;
      while (last < batch.size() && last - first < room &&
             std::min(batch[last]->rows(), batch[last]->cols()) == p) {
        ++last;
      }
      measure_group(*lease.lane, batch.subspan(first, last - first), options,
                    out.subspan(first, last - first));
      first = last;
    }
  }

  void decode(const decode::EncodedMatrix& matrix, std::span<float> out) override {
    check(cudaSetDevice(device_));
    LaneLease lease(*this);
    const auto input = measure::make_memory_input(matrix);
    decode_slab(*lease.lane, *input, matrix, false);
    const auto count = static_cast<std::size_t>(matrix.rows * matrix.cols);
    expects(out.size() >= count, "decode() wants room for every weight");
    check(cudaMemcpyAsync(out.data(), lease.lane->decoded.reserve_array<float>(count),
                          count * sizeof(float), cudaMemcpyDeviceToHost,
                          lease.lane->solver.stream.get()));
    check(cudaStreamSynchronize(lease.lane->solver.stream.get()));
  }

 private:
  /// A lane for the length of one call; waits while all are taken.
  struct LaneLease {
    explicit LaneLease(CudaBackend& owner) : backend(owner) {
      std::unique_lock lock(owner.mutex_);
      owner.freed_.wait(lock, [&] { return !owner.free_lanes_.empty(); });
      lane = owner.free_lanes_.back();
      owner.free_lanes_.pop_back();
    }
    ~LaneLease() {
      const std::lock_guard lock(backend.mutex_);
      backend.free_lanes_.push_back(lane);
      backend.freed_.notify_one();
    }
    LaneLease(const LaneLease&) = delete;
    LaneLease& operator=(const LaneLease&) = delete;
    CudaBackend& backend;
    Lane* lane = nullptr;
  };

  /// Ascending eigenvalues of the Gram matrices of a group of one short side.
  struct GroupValues {
    std::vector<double> ascending;
    std::vector<std::uint8_t> converged;
  };

  GroupValues group_values(Lane& lane, std::span<MatrixInput* const> batch, bool flip,
                           std::int64_t p, std::span<MatrixReport> out) {
    const auto count = static_cast<std::int64_t>(batch.size());
    auto* grams = lane.grams.reserve_array<double>(static_cast<std::size_t>(count * p * p));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      double* gram = grams + static_cast<std::int64_t>(i) * p * p;
      form_gram(lane, *batch[i], flip, gram, flip ? nullptr : &out[i].moments);
      if (!flip) {
        out[i].gram_norm_squared =
            symmetric_norm_squared(gram, p, lane.scratch, lane.solver.stream.get());
        if (out[i].moments.nonfinite > 0) {
          // Its values are not used; zeros keep the batched solver of its neighbours out of
          // trouble.
          check(cudaMemsetAsync(gram, 0, static_cast<std::size_t>(p * p) * sizeof(double),
                                lane.solver.stream.get()));
        }
      }
    }
    GroupValues values;
    values.ascending.resize(static_cast<std::size_t>(count * p));
    eigenvalues(lane.solver, grams, p, count, values.ascending.data(), values.converged);
    return values;
  }

  void measure_group(Lane& lane, std::span<MatrixInput* const> batch, const MeasureOptions& options,
                     std::span<MatrixReport> out) {
    const std::int64_t p = std::min(batch[0]->rows(), batch[0]->cols());
    const GroupValues values = group_values(lane, batch, false, p, out);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      finish(lane, *batch[i], options, values.ascending.data() + static_cast<std::int64_t>(i) * p,
             values.converged[i] != 0, p, out[i]);
    }
    if (options.sign_flip_null) {
      const GroupValues flipped = group_values(lane, batch, true, p, out);
      for (std::size_t i = 0; i < batch.size(); ++i) {
        if (out[i].status == Status::kMeasured) {
          out[i].sign_flip_sigma =
              sigma_of(flipped.ascending.data() + static_cast<std::int64_t>(i) * p, p);
        }
      }
    }
  }

  static void finish(Lane& lane, MatrixInput& input, const MeasureOptions& options,
                     const double* ascending, bool converged, std::int64_t p,
                     MatrixReport& report) {
    report.method = "gram64+trd64+cuda";
    if (report.moments.nonfinite > 0) {
      report.status = Status::kNotFinite;
      report.reason = std::to_string(report.moments.nonfinite) + " weights are not finite";
      report.gram_norm_squared = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    report.status = Status::kMeasured;
    if (report.moments.max_abs() == 0.0) {
      report.reason = "zero matrix";
      report.sigma.assign(static_cast<std::size_t>(p), 0.0);
      return;
    }
    report.sigma = sigma_of(ascending, p);
    measure::set_checks(report);
    const bool enough =
        converged && gram_is_enough(ascending, report.sigma) && !measure::checks_alarm(report);
    const bool tail_wanted = options.mode != Mode::kFast;
    if (!enough &&
        (!converged || (tail_wanted && (options.escalate || options.mode == Mode::kStrict)))) {
      report.sigma = bidiagonalise(lane, input, false);
      report.method = "bidiag64+cuda";
      report.escalated = options.mode != Mode::kStrict;
      if (report.sigma.empty()) {
        report.status = Status::kNotConverged;
        report.reason = "the eigenvalue iteration did not converge";
        return;
      }
      measure::set_checks(report);
    } else if (!enough) {
      report.tail_reliable = false;
    }
    if (options.mode == Mode::kFast) {
      set_bounds(report, std::max(input.rows(), input.cols()), p);
    }
  }

  std::int32_t device_;
  cudaDeviceProp properties_{};
  PinnedPool pinned_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Lane*> free_lanes_;
  std::mutex mutex_;
  std::condition_variable freed_;
};

}  // namespace

}  // namespace vindex::kernels

/// The factory that cuda_loader.cpp looks up. Null with a reason where there is no such device.
extern "C" vindex::measure::Backend* vindex_make_cuda_backend(std::int32_t device,
                                                              std::string* why) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
    *why = std::string("CUDA: ") + cudaGetErrorString(status);
    return nullptr;
  }
  if (device < 0 || device >= count) {
    *why = "there is no CUDA device " + std::to_string(device) + " (" + std::to_string(count) +
           " found)";
    return nullptr;
  }
  return std::make_unique<vindex::kernels::CudaBackend>(device).release();
}
