// Owns the making of a StageBatch from random codes and the calls of its steps, each as the back
// end makes it.
#include "stage_batch.hpp"

#include "decode/bind_view.hpp"
#include "kernels/band/deferred/deferred_band.hpp"
#include "kernels/tridiagonal/tridiagonal_values.hpp"

#include <algorithm>

namespace vindex::probe {

using namespace kernels;

namespace {

constexpr std::int64_t kAtOnce = 32;  ///< matrices of one launch of the Gram
constexpr std::int64_t kBlock = 128;  ///< rows and columns under one scale
/// Of few bits, so that weights are exact: kernels for either kind of scale take it.
constexpr float kScale = 5.0F / 512.0F;

/// Codes of e4m3 of every magnitude; not the pattern that is no number.
std::vector<std::uint8_t> random_codes(std::int64_t count) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
  std::uint64_t state = 0x9E3779B97F4A7C15U;
  for (std::uint8_t& code : codes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    code = static_cast<std::uint8_t>(state >> 56U);
    code = (code & 0x7FU) == 0x7FU ? static_cast<std::uint8_t>(code ^ 1U) : code;
  }
  return codes;
}

}  // namespace

StageBatch::StageBatch(Probe& probe)
    : probe_(probe),
      count_(probe.stages.batch > 0 ? probe.stages.batch : probe.properties().multiProcessorCount),
      encoding_(decode::fp8_block_encoding(kBlock, kBlock)) {
  const std::int64_t rows = probe.stages.rows;
  const std::int64_t cols = probe.stages.cols;
  const std::int64_t blocks_down = (rows + kBlock - 1) / kBlock;
  const std::int64_t blocks_across = (cols + kBlock - 1) / kBlock;
  decode::DecodeView view;
  view.rows = rows;
  view.cols = cols;
  const std::vector<std::uint8_t> codes = random_codes(rows * cols);
  const std::vector<float> scales(static_cast<std::size_t>(blocks_down * blocks_across), kScale);
  decode::EncodedMatrix matrix;
  matrix.encoding = &encoding_;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.row_stride_bytes = cols;
  matrix.codes = reinterpret_cast<const std::byte*>(codes.data());
  matrix.companions[0] = {.role = decode::CompanionRole::kScale,
                          .type = decode::ElementType::kF32,
                          .rows = blocks_down,
                          .cols = blocks_across,
                          .bytes = std::as_bytes(std::span(scales))};
  matrix.companion_count = 1;
  view = decode::decode_view(matrix);
  plan_ = choose_operands(encoding_, view, false);
  const std::size_t scale_bytes = scales.size() * sizeof(float);
  auto* const place = static_cast<std::uint8_t*>(
      codes_.reserve(static_cast<std::size_t>(count_) * (codes.size() + scale_bytes)));
  for (std::int64_t i = 0; i < count_; ++i) {
    std::uint8_t* const own = place + static_cast<std::size_t>(i) * (codes.size() + scale_bytes);
    check(cudaMemcpyAsync(own, codes.data(), codes.size(), cudaMemcpyHostToDevice, probe.stream()));
    check(cudaMemcpyAsync(own + codes.size(), scales.data(), scale_bytes, cudaMemcpyHostToDevice,
                          probe.stream()));
    view.codes = own;
    view.companions[decode::role_index(decode::CompanionRole::kScale)] = own + codes.size();
    views_.push_back(view);
  }
  check(cudaStreamSynchronize(probe.stream()));
  const auto room = [&](std::int64_t each) { return static_cast<std::size_t>(count_ * each); };
  workspace_bytes_ = gram_workspace_bytes(shape_, plan_, std::min(kAtOnce, count_));
  workspace_.reserve(workspace_bytes_);
  grams_.reserve(room(shape_.gram_elements()) * sizeof(float));
  facts_.reserve(room(1) * sizeof(GramFacts));
  bands_.reserve(room(chase_elements(order())) * sizeof(float));
  std::size_t band_bytes = band_plan(BandRoute::kPlain, 0).workspace_bytes_per_matrix;
  for (const std::int64_t strip_rows : strips()) {
    band_bytes =
        std::max(band_bytes, band_plan(BandRoute::kTensor, strip_rows).workspace_bytes_per_matrix);
  }
  band_bytes = std::max(band_bytes, deferred_plan().workspace_bytes_per_matrix);
  band_workspace_.reserve(room(static_cast<std::int64_t>(band_bytes)));
  values_.reserve(room(3 * order()) * sizeof(double));
  small_.reserve(room(2) * sizeof(std::int32_t));
}

void StageBatch::form(ProductKernel product, bool native_operands) {
  for (std::int64_t first = 0; first < count_; first += kAtOnce) {
    const auto many = static_cast<std::size_t>(std::min(kAtOnce, count_ - first));
    form_grams(encoding_, plan_,
               {.views = std::span(views_).subspan(static_cast<std::size_t>(first), many),
                .sign_flip_keys = {},
                .native_operands = native_operands},
               workspace_.reserve(workspace_bytes_), workspace_bytes_, product,
               grams_.reserve_array<float>(0) + first * shape_.gram_elements(),
               facts_.reserve_array<GramFacts>(0) + first, probe_.stream());
  }
}

BandBatch<float> StageBatch::band_batch() {
  auto* const exponents = small_.reserve_array<std::int32_t>(0);
  check(cudaMemsetAsync(exponents, 0, static_cast<std::size_t>(count_) * sizeof *exponents,
                        probe_.stream()));
  return {.matrices = grams_.reserve_array<float>(0),
          .batch = count_,
          .band = bands_.reserve_array<float>(0),
          .exponents = exponents,
          .workspace = band_workspace_.reserve(0),
          .scale = MatrixScale::kApplied};
}

void StageBatch::reduce(BandRoute route, std::int64_t strip_rows) {
  reduce_to_band<float>(band_plan(route, strip_rows), band_batch(), probe_.stream());
}

void StageBatch::reduce_deferred() {
  reduce_to_band_deferred(deferred_plan(), band_batch(), probe_.stream());
}

void StageBatch::solve() {
  auto* const diagonal = values_.reserve_array<double>(0);
  tridiagonal_values(diagonal, diagonal + count_ * order(), order(), count_,
                     ValueOrder::kDescending, diagonal + 2 * count_ * order(),
                     reinterpret_cast<int*>(small_.reserve_array<std::int32_t>(0) + count_),
                     probe_.stream());
}

void StageBatch::solve32() {
  auto* const diagonal = values_.reserve_array<double>(0);
  tridiagonal_values32(diagonal, diagonal + count_ * order(), order(), count_,
                       ValueOrder::kDescending, diagonal + 2 * count_ * order(),
                       reinterpret_cast<int*>(small_.reserve_array<std::int32_t>(0) + count_),
                       probe_.stream());
}

StrictBatch& StageBatch::strict() {
  if (strict_ == nullptr) {
    strict_ = std::make_unique<StrictBatch>(probe_, encoding_, views_);
  }
  return *strict_;
}

BackBatch& StageBatch::back() {
  if (back_ == nullptr) {
    back_ = std::make_unique<BackBatch>(probe_, back_order(), count_);
  }
  return *back_;
}

BandPlan StageBatch::deferred_plan() const {
  // Of small matrices too, where a spectrum is not worth the delay.
  const std::int64_t order = band_order(this->order());
  return plan_deferred_band(order, shared_bytes(),
                            std::max(2, deferred_panels(order, shared_bytes())));
}

BandPlan StageBatch::band_plan(BandRoute route, std::int64_t strip_rows) const {
  constexpr std::size_t kStep = 1024;
  std::size_t shared = shared_bytes();
  BandPlan plan = plan_band_reduction<float>(band_order(order()), route, shared);
  while (strip_rows > 0 && plan.strip_rows > strip_rows) {
    shared -= kStep;
    plan = plan_band_reduction<float>(band_order(order()), route, shared);
  }
  return plan;
}

}  // namespace vindex::probe
