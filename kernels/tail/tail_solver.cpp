// Owns the order of work of the search for lost values on a device, X <- orth((B + s I)^-1 X)
// twelve times, back to the side of the weights by Q, Ritz pairs from one pass, and X - (Q B
// Q^T)^-1 R for those that need better (derived in host/cpu/tail/cpu_tail.cpp).
//
// Why plain inverse iteration and not the host's Krylov space: that is three times as wide, and
// solves are cheap here while orthonormal bases and small eigenproblems are not. Why fixed widths
// and slots: libraries choose algorithms by the size of a batch, and a matrix's bits must not
// depend on its neighbours.
#include "tail_solver.hpp"

#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

namespace vindex::kernels {

namespace {

/// Steps of inverse iteration. For noise, whose eigenvalues grow as the square of their number,
/// each leaves a fifth of what is not of the span, for values far below the rest much less; what is
/// still wrong then is the corrections'.
constexpr int kSteps = 12;
/// Columns that guard those wanted, at least; and the least number that is looked for.
constexpr std::int64_t kGuard = 16;
constexpr std::int64_t kMinClass = 8;
/// As on the CPU, so that both judge alike.
constexpr std::int64_t kMinSide = 128;
constexpr std::int64_t kSlotUnit = 16;
/// Matrices at a time where nothing is known of the device.
constexpr std::int64_t kSlots = 32;
/// Slots share this much, so that wide ones are few; on large devices more, by multiprocessor.
constexpr std::uint64_t kSlotBytes = 512ULL << 20U;
constexpr std::uint64_t kMostSlotBytes = 2 * kSlotBytes;
constexpr std::uint64_t kBytesOfMultiprocessor = 8ULL << 20U;

static_assert(kBackTransformColumns == kSolveColumns && kGuard % kBackTransformColumns == 0);
static_assert(2 * std::min(kMinClass + kGuard, kMinSide) >= kWideColumns,
              "scratch memory for doubles holds whole blocks of kWideColumns floats");

std::int64_t width_for(std::int64_t p, std::int64_t lost) {
  std::int64_t group = kMinClass;
  while (group < lost) {
    group *= 2;
  }
  const std::int64_t guard = std::max(kGuard, 3 * group / 4);
  return std::min((group + guard) / kBackTransformColumns * kBackTransformColumns,
                  p / kBackTransformColumns * kBackTransformColumns);
}

}  // namespace

/// One piece of memory; also counts how much that is.
struct TailSolver::Arrays {
  Arrays(const TailShape& shape, Arena& memory)
      : block({band_order(shape.p), shape.width}),
        which(memory.take<std::int64_t>(shape.slots)),
        shifts(memory.take<double>(shape.slots)),
        scales(memory.take<double>(shape.slots)),
        norms(memory.take<double>(shape.slots * shape.width)),
        band_info(memory.take<int>(shape.slots)),
        info(memory.take<int>(shape.slots)),
        factors(memory.take<double>(shape.slots * band_factor_elements(block.p))),
        inner(memory.take<double>(shape.slots * block.elements())),
        outer(memory.take<double>(shape.slots * shape.p * shape.width)),
        scratch(memory.take<double>(shape.slots * block.p * shape.width)) {}

  StackedBlock block;  ///< of `inner`
  std::int64_t* which;
  double *shifts, *scales, *norms;
  int *band_info, *info;
  double* factors;
  double* inner;    ///< columns on the side of the band
  double* outer;    ///< columns on the side of the weights
  double* scratch;  ///< of either precision
};

TailShape tail_shape(std::int64_t p, std::int64_t n, std::int64_t lost, int multiprocessors) {
  expects(lost >= 1 && p >= kMinSide, "a tail of a matrix that is large enough for one");
  TailShape shape = {.p = p, .n = n, .width = width_for(p, lost), .slots = 1};
  const std::int64_t order = band_order(p);
  const auto bytes = static_cast<std::uint64_t>(band_factor_elements(order) +
                                                8 * (order + shape.width) * shape.width) *
                     sizeof(double);
  // Most of what a group does waits for its own steps, whatever the number of its matrices: half of
  // a piece of BatchTask::eigen_piece() at a time. Two groups then do, and a few more than half
  // need no third.
  const std::int64_t half = std::max<std::int64_t>(multiprocessors / 2, 1);
  const std::int64_t by_device = multiprocessors <= 0 ? kSlots
                                 : half < kSlotUnit   ? half
                                                      : ceil_divide(half, kSlotUnit) * kSlotUnit;
  const std::uint64_t slot_bytes =
      std::clamp(static_cast<std::uint64_t>(std::max(multiprocessors, 0)) * kBytesOfMultiprocessor,
                 kSlotBytes, kMostSlotBytes);
  shape.slots =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(slot_bytes / bytes), 1, by_device);
  return shape;
}

std::int64_t max_tail_values(std::int64_t p) { return p >= kMinSide ? p / 16 : 0; }

std::int64_t settled_columns(const TailShape& shape, std::int64_t lost) {
  return lost + (shape.width - lost) / 4;
}

TailSolver::Arrays TailSolver::arrays() {
  Arena memory(memory_.reserve(0), memory_.bytes());
  return {shape_, memory};
}

void TailSolver::start(const LibraryHandles& handles, const KernelTable& kernels,
                       const KeptReduction& kept, const TailShape& shape,
                       std::span<const TailMember> members) {
  expects(!members.empty() && static_cast<std::int64_t>(members.size()) <= shape.slots,
          "a slot for every matrix");
  kernels_ = &kernels;
  kept_ = kept;
  shape_ = shape;
  used_ = static_cast<std::int64_t>(members.size());
  Arena count(nullptr, 0);
  const Arrays counted(shape, count);
  (void)memory_.reserve(count.used());
  if (kept.is_float32) {
    search<float>(handles, members);
  } else {
    search<double>(handles, members);
  }
}

template <typename Real>
void TailSolver::search(const LibraryHandles& handles, std::span<const TailMember> members) {
  const Arrays at = arrays();
  std::vector<std::int64_t> which;
  std::vector<double> shifts;
  std::vector<double> scales;
  for (const TailMember& member : members) {
    which.push_back(member.position);
    shifts.push_back(member.shift);
    scales.push_back(std::ldexp(1.0, -member.exponent));
  }
  // Slots that are not in use hold numbers, for what the libraries make of them.
  which.resize(static_cast<std::size_t>(shape_.slots), which.front());
  shifts.resize(which.size(), shifts.front());
  scales.resize(which.size(), 0.0);
  const auto upload = [&](auto* to, const auto& from) {
    check(cudaMemcpyAsync(to, from.data(), from.size() * sizeof(from[0]), cudaMemcpyHostToDevice,
                          handles.stream));
  };
  upload(at.which, which);
  upload(at.shifts, shifts);
  upload(at.scales, scales);
  const std::int64_t order = at.block.p;
  const BandSystem<Real> system = {.bands = static_cast<const Real*>(kept_.bands),
                                   .which = at.which,
                                   .n = shape_.p,
                                   .order = order,
                                   .slots = used_};
  if constexpr (std::is_same_v<Real, float>) {
    kernels_->factor32(system, at.shifts, at.factors, at.band_info, handles.stream);
  } else {
    kernels_->factor64(system, at.shifts, at.factors, at.band_info, handles.stream);
  }
  double* const columns = at.block.block(at.inner);
  // Slots that are not in use hold zeros there, and products of the library with them are zeros.
  check(cudaMemsetAsync(
      at.inner, 0, static_cast<std::size_t>(shape_.slots * at.block.elements()) * sizeof(double),
      handles.stream));
  fill_start(columns, order, shape_.width, at.block.leading(), at.block.elements(), used_,
             handles.stream);
  for (int step = 0; step < kSteps; ++step) {
    kernels_->solve(at.factors, order, used_, columns, at.block.leading(), at.block.elements(),
                    shape_.width, handles.stream);
    orthonormalise(handles, at.block, at.inner, shape_.slots, false, at.info, used_);
  }
  // The first rows of the start are as good as any basis for slots that are not in use.
  fill_start(at.outer, shape_.p, shape_.width, shape_.p, shape_.p * shape_.width, shape_.slots,
             handles.stream);
  turn(handles, false, nullptr, at.outer);
  projection_.start(handles,
                    {.short_side = shape_.p,
                     .long_side = shape_.n,
                     .count = shape_.width,
                     .batch = shape_.slots,
                     .with_image = false},
                    at.outer, shape_.p, shape_.p * shape_.width);
  // The copies above are from memory of this call.
  host_info_.resize(which.size());
  check(cudaMemcpyAsync(host_info_.data(), at.band_info, sizeof(int) * members.size(),
                        cudaMemcpyDeviceToHost, handles.stream));
  check(cudaStreamSynchronize(handles.stream));
}

/// Between the columns of `inner` and contiguous ones of p rows.
void TailSolver::turn(const LibraryHandles& handles, bool transposed, const double* from,
                      double* to) {
  const Arrays at = arrays();
  const TransformedColumns inner = {.data = at.block.block(at.inner),
                                    .leading = at.block.leading(),
                                    .stride = at.block.elements(),
                                    .rows = at.block.p};
  const TransformedColumns outer = {.data = transposed ? const_cast<double*>(from) : to,
                                    .leading = shape_.p,
                                    .stride = shape_.p * shape_.width,
                                    .rows = shape_.p};
  const auto task = [&](const auto* matrices, auto* scratch) {
    return BackTransform<std::remove_pointer_t<decltype(scratch)>>{
        .matrices = matrices,
        .which = at.which,
        .order = at.block.p,
        .columns = shape_.width,
        .slots = used_,
        .transposed = transposed,
        .from = transposed ? outer : inner,
        .to = transposed ? inner : outer,
        .scratch = scratch};
  };
  if (!kept_.is_float32) {
    kernels_->back_transform64(task(static_cast<const double*>(kept_.matrices), at.scratch),
                               handles.stream);
    return;
  }
  const BackTransform<float> turn =
      task(static_cast<const float*>(kept_.matrices), reinterpret_cast<float*>(at.scratch));
  if (kept_.wide_warps > 0) {
    kernels_->wide_back_transform32(turn, kept_.wide_warps, handles.stream);
  } else {
    kernels_->back_transform32(turn, handles.stream);
  }
}

void TailSolver::finish(const LibraryHandles& handles) {
  projection_.finish(handles);
  const Arrays at = arrays();
  const std::int64_t columns = used_ * shape_.width;
  kernels_->norms(projection_.residual(0), shape_.p, columns, at.norms, handles.stream);
  host_norms_.resize(static_cast<std::size_t>(columns));
  check(cudaMemcpyAsync(host_norms_.data(), at.norms, host_norms_.size() * sizeof(double),
                        cudaMemcpyDeviceToHost, handles.stream));
  check(cudaStreamSynchronize(handles.stream));
}

void TailSolver::correct(const LibraryHandles& handles) {
  const Arrays at = arrays();
  turn(handles, true, projection_.residual(0), nullptr);
  kernels_->solve(at.factors, at.block.p, used_, at.block.block(at.inner), at.block.leading(),
                  at.block.elements(), shape_.width, handles.stream);
  turn(handles, false, nullptr, at.outer);
  // Of slots that are not in use the scale is 0.
  subtract_correction(projection_.basis(0), at.scales, at.outer, shape_.p * shape_.width,
                      shape_.slots, handles.stream);
  projection_.start(handles, projection_.shape(), at.outer, shape_.p, shape_.p * shape_.width);
}

std::span<const double> TailSolver::residuals(std::int64_t member) const {
  return std::span(host_norms_)
      .subspan(static_cast<std::size_t>(member * shape_.width),
               static_cast<std::size_t>(shape_.width));
}

bool TailSolver::is_sound(std::int64_t member) const {
  const std::span<const double> own = residuals(member);
  return host_info_[static_cast<std::size_t>(member)] == 0 && projection_.is_sound(member) &&
         std::all_of(own.begin(), own.end(), [](double value) { return std::isfinite(value); });
}

/// What matrices that lose up to max_tail_values(p) values take: bytes of `memory_`, and of the
/// projection's arrays.
std::pair<std::uint64_t, ProjectionBuffers> TailSolver::max_bytes(std::int64_t p, std::int64_t n,
                                                                  std::int64_t slab_length,
                                                                  int multiprocessors) {
  const std::int64_t most = max_tail_values(p);
  std::uint64_t own = 0;
  ProjectionBuffers buffers = {};
  for (std::int64_t lost = 1; lost <= most; ++lost) {
    const TailShape shape = tail_shape(p, n, lost, multiprocessors);
    Arena count(nullptr, 0);
    const Arrays arrays(shape, count);
    own = std::max<std::uint64_t>(own, count.used());
    const ProjectionBuffers one = projection_buffers({.short_side = p,
                                                      .long_side = n,
                                                      .count = shape.width,
                                                      .batch = shape.slots,
                                                      .with_image = false},
                                                     slab_length, 1);
    for (std::size_t i = 0; i < one.size(); ++i) {
      buffers[i] = std::max(buffers[i], one[i]);
    }
  }
  return {own, buffers};
}

std::uint64_t TailSolver::device_bytes(std::int64_t p, std::int64_t n, std::int64_t slab_length,
                                       int multiprocessors) {
  const auto [own, buffers] = max_bytes(p, n, slab_length, multiprocessors);
  return std::accumulate(buffers.begin(), buffers.end(), own);
}

void TailSolver::reserve(std::int64_t p, std::int64_t n, std::int64_t slab_length,
                         int multiprocessors) {
  const auto [own, buffers] = max_bytes(p, n, slab_length, multiprocessors);
  (void)memory_.reserve(own);
  projection_.reserve(buffers);
}

}  // namespace vindex::kernels
