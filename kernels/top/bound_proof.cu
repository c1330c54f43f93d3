// Owns the computed half of the proof in statistics/judgement/spectrum_bounds.hpp for a batch:
// Cholesky factorisations of tau I - G + V T V^T, and the eigenvalues of T + R^T R / gap for every
// k that is bounded. Why Cholesky and not inertia stands in host/cpu/top/certificate.cpp. The upper
// sums are all eigenvalues of small matrices, one per claim and gap, so that they are one batched
// call.
#include "dense_batch.hpp"
#include "top_solvers.hpp"

#include "core/integers.hpp"
#include "kernels/device/check.hpp"
#include "kernels/device/launch.hpp"

#include <algorithm>

namespace vindex::kernels {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 1024;

/// One matrix to be factored.
struct Complement {
  const float* gram;
  std::int64_t leading;
  const double* basis;
  const double* values;
  double gram_scale;
  double diagonal;  ///< tau less the rounding of the test
};

/// One small matrix: T + residual_gram / gap.
struct SmallMatrix {
  const double* residual_gram;
  const double* values;
  double gap;
};

dim3 element_grid(std::int64_t elements, std::int64_t batch) {
  return dim3(static_cast<unsigned int>(
                  std::clamp<std::int64_t>(ceil_divide(elements, kThreads), 1, kMaxBlocks)),
              static_cast<unsigned int>(batch));
}

__device__ std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t element_step() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

/// x over rows, y over columns, z over matrices: no division per element.
dim3 matrix_grid(std::int64_t rows, std::int64_t cols, std::int64_t batch) {
  return dim3(static_cast<unsigned int>(ceil_divide(rows, kThreads)),
              static_cast<unsigned int>(std::min(cols, kMaxBlocks)),
              static_cast<unsigned int>(batch));
}

// Grid: 256 rows x up to 1,024 columns, taken in turn, x matrices. Block: 256. Shared: none. Bound
// by: memory (the square, float32 read and float64 written).
__global__ void complement_kernel(const Complement* all, double* matrices, std::int64_t p) {
  const std::int64_t row = first_element();
  if (row >= p) {
    return;
  }
  const Complement own = all[blockIdx.z];
  double* to = matrices + static_cast<std::int64_t>(blockIdx.z) * p * p + row;
  for (std::int64_t col = blockIdx.y; col < p; col += gridDim.y) {
    // The product is exact: the scale is a power of two.
    const double value = -own.gram_scale * static_cast<double>(own.gram[col * own.leading + row]);
    to[col * p] = row == col ? value + own.diagonal : value;
  }
}

// Grid: 256 rows x up to 1,024 columns, taken in turn, x matrices. Block: 256. Shared: none. Bound
// by: memory.
__global__ void scale_kernel(const Complement* all, double* scaled, std::int64_t p,
                             std::int64_t count) {
  const std::int64_t row = first_element();
  if (row >= p) {
    return;
  }
  const Complement own = all[blockIdx.z];
  double* to = scaled + static_cast<std::int64_t>(blockIdx.z) * p * count + row;
  for (std::int64_t col = blockIdx.y; col < count; col += gridDim.y) {
    to[col * p] = sqrt(fmax(own.values[col], 0.0)) * own.basis[col * p + row];
  }
}

// Grid: up to 1,024 blocks, which take elements in turn, x matrices. Block: 256. Shared: none.
// Bound by: launch, the matrices are small.
__global__ void small_kernel(const SmallMatrix* all, double* matrices, std::int64_t count) {
  const SmallMatrix own = all[blockIdx.y];
  double* to = matrices + static_cast<std::int64_t>(blockIdx.y) * count * count;
  for (std::int64_t i = first_element(); i < count * count; i += element_step()) {
    const double value = own.residual_gram[i] / own.gap;
    to[i] = i % count == i / count ? value + own.values[i / count] : value;
  }
}

template <typename T>
const T* send(const std::vector<T>& values, DeviceBuffer& buffer, cudaStream_t stream) {
  auto* to = buffer.reserve_array<T>(values.size());
  check(cudaMemcpyAsync(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice,
                        stream));
  return to;
}

statistics::CertificateInput input_of(const WeightProjection& projection, const BoundClaim& claim) {
  return {.values = projection.values(claim.matrix),
          .next_value = claim.next_value,
          .gram_error = claim.gram_error,
          .sum_squares = claim.sum_squares,
          .short_side = projection.shape().short_side,
          .long_side = projection.shape().long_side};
}

}  // namespace

/// Of each claim: whether tau I - G + V T V^T is positive definite for certain.
std::vector<bool> BoundProver::are_definite(const LibraryHandles& handles,
                                            const WeightProjection& projection,
                                            std::span<const BoundClaim> claims,
                                            std::span<const double> taus, std::uint64_t bytes) {
  const std::int64_t p = projection.shape().short_side;
  const std::int64_t count = projection.shape().count;
  const auto each = static_cast<std::uint64_t>(p * (p + count)) * sizeof(double);
  const std::size_t at_once = std::clamp<std::size_t>(bytes / each, 1, claims.size());
  std::vector<bool> definite;
  for (std::size_t first = 0; first < claims.size(); first += at_once) {
    const std::size_t used = std::min(at_once, claims.size() - first);
    const auto batch = static_cast<std::int64_t>(used);
    std::vector<Complement> list;
    for (std::size_t i = first; i < first + used; ++i) {
      const BoundClaim& claim = claims[i];
      const double shift =
          statistics::definiteness_shift(p, projection.values(claim.matrix), taus[i]);
      list.push_back({claim.gram.data, claim.gram.leading, projection.basis(claim.matrix),
                      projection.device_values(claim.matrix), claim.gram_scale, taus[i] - shift});
    }
    const Complement* all = send(list, parameters_, handles.stream);
    auto* matrices = matrices_.reserve_array<double>(used * static_cast<std::size_t>(p * p));
    auto* scaled = scaled_.reserve_array<double>(used * static_cast<std::size_t>(p * count + 1));
    auto* info = reinterpret_cast<int*>(scaled + batch * p * count);
    launch(complement_kernel, matrix_grid(p, p, batch), dim3(kThreads), 0, handles.stream, all,
           matrices, p);
    launch(scale_kernel, matrix_grid(p, count, batch), dim3(kThreads), 0, handles.stream, all,
           scaled, p, count);
    const double one = 1.0;
    check(cublasDgemmStridedBatched(handles.blas, CUBLAS_OP_N, CUBLAS_OP_T, blas_int(p),
                                    blas_int(p), blas_int(count), &one, scaled, blas_int(p),
                                    p * count, scaled, blas_int(p), p * count, &one, matrices,
                                    blas_int(p), p * p, blas_int(batch)));
    cholesky(handles.blas, handles.stream, matrices, p, p, p, p * p, batch, info);
    std::vector<int> status(used);
    check(cudaMemcpyAsync(status.data(), info, used * sizeof(int), cudaMemcpyDeviceToHost,
                          handles.stream));
    check(cudaStreamSynchronize(handles.stream));
    for (const int failed : status) {
      definite.push_back(failed == 0);
    }
  }
  return definite;
}

/// Eigenvalues, descending, of T + R^T R / gap: for each claim one matrix per gap; `sums` gets all
/// of them, [claim][gap][count].
void BoundProver::upper_sums(const LibraryHandles& handles, const WeightProjection& projection,
                             std::span<const BoundClaim> claims, std::span<const double> gaps,
                             std::vector<double>& sums) {
  const std::int64_t p = projection.shape().short_side;
  const std::int64_t count = projection.shape().count;
  const std::size_t per_claim = gaps.size() / claims.size();
  const auto square = static_cast<std::size_t>(count * count);
  const auto width = static_cast<std::size_t>(count);
  auto* grams =
      small_.reserve_array<double>(claims.size() * square + gaps.size() * (square + width + 1));
  double* matrices = grams + claims.size() * square;
  double* values = matrices + gaps.size() * square;
  auto* info = reinterpret_cast<int*>(values + gaps.size() * width);
  std::vector<SmallMatrix> list;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const Operand residual = {projection.residual(claims[i].matrix), p, 0, false};
    Operand transposed = residual;
    transposed.transposed = true;
    double* gram = grams + i * square;
    multiply_batch(handles, count, count, p, transposed, residual, gram, count, 0, 1);
    for (std::size_t k = 0; k < per_claim; ++k) {
      list.push_back({gram, projection.device_values(claims[i].matrix), gaps[i * per_claim + k]});
    }
  }
  const SmallMatrix* all = send(list, parameters_, handles.stream);
  const auto batch = static_cast<std::int64_t>(gaps.size());
  launch(small_kernel, element_grid(count * count, batch), dim3(kThreads), 0, handles.stream, all,
         matrices, count);
  eigen_.solve(handles, matrices, count, batch, false, values, info);
  sums.resize(gaps.size() * width);
  std::vector<int> status(gaps.size());
  check(cudaMemcpyAsync(sums.data(), values, sums.size() * sizeof(double), cudaMemcpyDeviceToHost,
                        handles.stream));
  check(cudaMemcpyAsync(status.data(), info, status.size() * sizeof(int), cudaMemcpyDeviceToHost,
                        handles.stream));
  check(cudaStreamSynchronize(handles.stream));
  for (std::size_t i = 0; i < status.size(); ++i) {
    if (status[i] != 0) {
      std::fill_n(sums.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                  std::numeric_limits<double>::quiet_NaN());
    }
  }
}

std::vector<SpectrumBounds> BoundProver::prove(const LibraryHandles& handles,
                                               const WeightProjection& projection,
                                               std::span<const BoundClaim> claims,
                                               std::uint64_t bytes) {
  std::vector<SpectrumBounds> bounds(claims.size(), statistics::unproved_bounds());
  std::vector<std::size_t> proved;
  std::vector<double> proved_tau(claims.size(), 0.0);
  std::vector<std::vector<double>> candidates;
  for (const BoundClaim& claim : claims) {
    candidates.push_back(projection.is_sound(claim.matrix)
                             ? statistics::complement_candidates(input_of(projection, claim))
                             : std::vector<double>());
  }
  std::vector<bool> is_proved(claims.size(), false);
  for (std::size_t attempt = 0;; ++attempt) {
    std::vector<std::size_t> open;
    std::vector<BoundClaim> tried;
    std::vector<double> taus;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (!is_proved[i] && attempt < candidates[i].size()) {
        open.push_back(i);
        tried.push_back(claims[i]);
        taus.push_back(candidates[i][attempt]);
      }
    }
    if (open.empty()) {
      break;
    }
    const std::vector<bool> definite = are_definite(handles, projection, tried, taus, bytes);
    for (std::size_t j = 0; j < open.size(); ++j) {
      if (definite[j]) {
        is_proved[open[j]] = true;
        proved_tau[open[j]] = taus[j];
      }
    }
  }
  std::vector<BoundClaim> certain;
  std::vector<double> gaps;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (is_proved[i]) {
      proved.push_back(i);
      certain.push_back(claims[i]);
      for (std::size_t k = 0; k < statistics::bounded_count(); ++k) {
        gaps.push_back(
            statistics::certificate_gap(input_of(projection, claims[i]), proved_tau[i], k));
      }
    }
  }
  if (proved.empty()) {
    return bounds;
  }
  std::vector<double> eigenvalues;
  upper_sums(handles, projection, certain, gaps, eigenvalues);
  const auto width = static_cast<std::size_t>(projection.shape().count);
  for (std::size_t j = 0; j < proved.size(); ++j) {
    std::vector<statistics::UpperSums> upper;
    for (std::size_t k = 0; k < statistics::bounded_count(); ++k) {
      const double* own = eigenvalues.data() + (j * statistics::bounded_count() + k) * width;
      statistics::UpperSums sums;
      sums.top = own[0];
      for (std::int64_t i = 0; i < statistics::bounded_k(k); ++i) {
        sums.sum += own[i];
      }
      upper.push_back(sums);
    }
    bounds[proved[j]] = statistics::certified_bounds(input_of(projection, certain[j]), upper);
  }
  return bounds;
}

}  // namespace vindex::kernels
