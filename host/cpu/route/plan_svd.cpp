// Owns the sizes of a plan: tile rows, band width, columns of a leading block, and the memory of
// every phase.
#include "plan_svd.hpp"

#include "backend/backend.hpp"
#include "core/integers.hpp"
#include "cpu/band/band_storage.hpp"
#include "cpu/gram/group_sums.hpp"
#include "cpu/gram/simd_gram_bf16.hpp"
#include "cpu/gram/split_gram.hpp"
#include "cpu/strict/strict_qr.hpp"
#include "cpu/tail/cpu_tail.hpp"
#include "cpu/top/cpu_fast.hpp"
#include "cpu/top/cpu_vectors.hpp"
#include "cpu/tridiagonal/tridiagonal.hpp"
#include "cpu/workspace/workspace.hpp"
#include "decode/encoding/code_layout.hpp"
#include "statistics/judgement/judgement.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <numeric>

namespace vindex::cpu {
namespace {

/// Long-side elements summed in one float32 product before rounding into the Gram: a multiple of
/// every block in use (fp8 128, K-quants 256), and about the depth OpenBLAS blocks by anyway.
constexpr std::int64_t kChunk = 256;
constexpr std::int64_t kProofChunk = 128;
/// Least slab: the depth that the bfloat16 Gram kernel packs at a time.
constexpr std::int64_t kMinSlab = 1024;
/// Streamed slabs grow to this many encoded bytes, so that one read is worth its latency.
constexpr std::uint64_t kSlabBytes = 32U << 20U;
/// Packing buffers of OpenBLAS that one thread touches beside a depth of 512 rows of the operand.
constexpr std::uint64_t kLibraryBytes = 4U << 20U;

/// Encoded bytes of one slab, an upper bound (8 bytes is the widest element).
std::uint64_t encoded_bytes(const decode::Encoding& encoding, const SvdPlan& plan) {
  const auto row_length = static_cast<std::uint64_t>(plan.row_slabs ? plan.short_side : plan.slab);
  const auto row_count = static_cast<std::uint64_t>(plan.row_slabs ? plan.slab : plan.short_side);
  return decode::slab_bytes(encoding, row_count, row_length).value_or(row_length * 8 * row_count);
}

/// What a Gram in elements of `size` leaves for kTail, or takes for its reduction.
std::uint64_t kept_bytes(std::int64_t p, std::size_t size, bool library) {
  return tridiagonal_bytes(p, size, library) +
         (is_reduced_by_band(p, library) ? array_bytes(band_elements(p), sizeof(double)) : 0);
}

std::uint64_t eigen_bytes(std::int64_t p, std::size_t size, bool library) {
  // matrix, its reduction, the band, d, e, the values and the diagonal in float64.
  return array_bytes(p * p, size) + kept_bytes(p, size, library) +
         4 * array_bytes(p, sizeof(double));
}

/// A Gram matrix summed in groups, then reduced in both precisions.
std::uint64_t grouped_bytes(std::int64_t p) {
  const std::uint64_t sums = array_bytes(p * p, sizeof(float)) + array_bytes(p * p, sizeof(double));
  return std::max(sums, eigen_bytes(p, sizeof(double), false) +
                            std::max(tridiagonal_bytes(p, sizeof(float), false), outline_bytes(p)));
}

}  // namespace

SvdPlan plan_svd(const SvdPlanRequest& request) {
  expects(request.rows > 0 && request.cols > 0 && request.encoding != nullptr,
          "plan_svd: a matrix that is not empty");
  const std::string& wanted = request.options.svd_route;
  if (wanted != "auto" && wanted != "library" && wanted != "qr" && wanted != kProofRoute) {
    throw UsageError("E-SVD-ROUTE",
                     "the CPU back end has the SVD routes auto, library, qr and proof, not " +
                         printable(wanted));
  }

  SvdPlan plan;
  plan.row_slabs = request.rows >= request.cols;
  plan.short_side = std::min(request.rows, request.cols);
  plan.long_side = std::max(request.rows, request.cols);
  // Short sums keep the proved error of a float32 Gram small, which its proof needs.
  const bool proof = request.options.mode == SpectrumMode::kFast && wanted == kProofRoute;
  const std::int64_t depth = proof ? kProofChunk : kChunk;
  // Rows may be cut anywhere, columns at a block of codes.
  const std::int64_t block = plan.row_slabs ? 1 : decode::column_granularity(*request.encoding);
  plan.chunk = std::min(std::lcm(depth, std::max<std::int64_t>(block, 1)), plan.long_side);
  plan.slab = std::min(std::lcm(kMinSlab, plan.chunk), plan.long_side);

  const SpectrumMode mode = request.options.mode;
  plan.route = wanted == "qr"                  ? SvdRoute::kQr
               : mode == SpectrumMode::kStrict ? SvdRoute::kGram64
               : proof                         ? SvdRoute::kChebyshev
                                               : SvdRoute::kGram32;
  plan.library_only = wanted == "library";
  // A proof is of sums as a library makes them, however short (top/certificate.hpp).
  plan.tiles = plan.library_only || plan.route == SvdRoute::kChebyshev ? nullptr : request.tiles;
  plan.takes_bf16 = !plan.library_only && (plan.tiles != nullptr || request.bf16_by_vectors);
  plan.may_escalate = plan.route == SvdRoute::kGram32 &&
                      (request.options.escalate || plan.short_side <= statistics::kFloat64Size);

  const std::int64_t p = plan.short_side;
  plan.may_group_sums = plan.route == SvdRoute::kGram32 && plan.may_escalate &&
                        mode == SpectrumMode::kDefault && is_reduced_by_band(p, plan.library_only);
  std::uint64_t solver = 0;
  if (plan.route == SvdRoute::kGram32 || plan.route == SvdRoute::kChebyshev) {
    solver = eigen_bytes(p, sizeof(float), plan.library_only);
  }
  if (plan.route == SvdRoute::kGram64 || plan.route == SvdRoute::kChebyshev || plan.may_escalate) {
    solver = std::max(solver, eigen_bytes(p, sizeof(double), plan.library_only) +
                                  array_bytes(plan.chunk * p, sizeof(double)));
  }
  if (plan.may_group_sums) {
    solver = std::max(solver, grouped_bytes(p));
  }
  if (plan.route != SvdRoute::kGram32 || plan.may_escalate) {
    solver = std::max(solver,
                      array_bytes(p * p, sizeof(double)) + std::max(qr_bytes(plan), tail_bytes(p)));
  }
  if (plan.route == SvdRoute::kChebyshev) {
    solver = std::max(solver, fast_bytes(plan));
  }
  if (plan.route != SvdRoute::kQr && mode != SpectrumMode::kFast) {
    const std::uint64_t tail = tail_workspace_bytes(plan);
    const std::uint64_t kept = std::max(
        plan.route == SvdRoute::kGram32 ? kept_bytes(p, sizeof(float), plan.library_only) : 0,
        plan.route != SvdRoute::kGram32 || plan.may_escalate
            ? kept_bytes(p, sizeof(double), plan.library_only) +
                  (plan.may_group_sums ? tridiagonal_bytes(p, sizeof(float), false) : 0)
            : 0);
    solver = std::max(solver, tail == 0 ? 0 : kept + tail);
  }
  if (request.options.vectors > 0) {
    solver = std::max(solver, vectors_bytes(plan, request.options.vectors));
  }
  // In memory slabs are views.
  const std::uint64_t slab_bytes = request.in_memory ? 0 : encoded_bytes(*request.encoding, plan);
  plan.library_bytes = static_cast<std::uint64_t>(p) * 512 * sizeof(double) + kLibraryBytes;
  plan.min_workspace_bytes =
      solver + array_bytes(plan.chunk * p, sizeof(float)) + slab_bytes + plan.library_bytes;
  if (plan.route == SvdRoute::kGram32 || plan.route == SvdRoute::kChebyshev) {
    plan.min_workspace_bytes += plan.tiles == nullptr ? gram_bf16_workspace_bytes(p)
                                                      : std::max(gram_bf16_workspace_bytes(p, true),
                                                                 split_gram_workspace_bytes(p));
  }
  plan.workspace_bytes = plan.min_workspace_bytes;
  if (request.workspace_limit != 0 && plan.min_workspace_bytes > request.workspace_limit) {
    throw OutOfMemory("the smallest workspace of one matrix", plan.min_workspace_bytes);
  }
  if (request.in_memory) {
    return plan;  // decoding again costs less than keeping
  }

  const auto fits = [&](std::uint64_t more) {
    return request.workspace_limit == 0 || more <= request.workspace_limit - plan.workspace_bytes;
  };
  const std::uint64_t decoded = array_bytes(plan.long_side * p, sizeof(float));
  const bool second_pass = plan.may_escalate ||
                           (mode != SpectrumMode::kFast && max_tail_values(plan) > 0) ||
                           plan.route == SvdRoute::kGram64 || request.options.sign_flip_draws > 0 ||
                           request.options.vectors > 0;
  if (second_pass && fits(decoded)) {
    plan.keep_decoded = true;
    plan.workspace_bytes += decoded;
  }
  const auto slabs = static_cast<std::uint64_t>(ceil_divide(plan.long_side, plan.slab));
  std::uint64_t in_slab =
      std::clamp<std::uint64_t>(kSlabBytes / std::max<std::uint64_t>(slab_bytes, 1), 1, slabs);
  while (in_slab > 1 && !fits((in_slab - 1) * slab_bytes)) {
    in_slab /= 2;
  }
  plan.slab = std::min(plan.long_side, plan.slab * static_cast<std::int64_t>(in_slab));
  plan.workspace_bytes += (in_slab - 1) * slab_bytes;
  return plan;
}

}  // namespace vindex::cpu
