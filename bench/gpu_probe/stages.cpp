// Every kernel of a spectrum in `default`, timed by events around its launches: where the time of a
// batch goes, without a profiler. Block-scaled fp8 of 7168 x 2048, as many matrices as there are
// multiprocessors. What waits least for the unknown comes first: Gram by mma.sync, band without and
// on tensor cores, chase, values, and Gram by wgmma last.
#include "probe.hpp"

#include "decode/decode_view.hpp"
#include "kernels/band/band_chase.hpp"
#include "kernels/band/band_reduction.hpp"
#include "kernels/device/check.hpp"
#include "kernels/device/launch.hpp"
#include "kernels/gram/gram_batch.hpp"
#include "kernels/gram/gram_plan.hpp"
#include "kernels/tridiagonal/tridiagonal_values.hpp"

#include <algorithm>
#include <cstring>
#include <map>

namespace vindex::probe {

namespace {

using namespace kernels;

constexpr std::int64_t kRows = 7168;
constexpr std::int64_t kCols = 2048;
constexpr std::int64_t kAtOnce = 32;  ///< matrices of one launch of the Gram

/// "factor_panel" of a kernel's host address.
std::string name_of(const void* kernel) {
  const std::string whole = function_name(kernel);
  return whole.substr(0, whole.find("_kernel"));
}

/// Device time by kernel, of all launches while it lives.
class LaunchClock final : public LaunchObserver {
 public:
  LaunchClock() { launch_observer = this; }
  ~LaunchClock() override { launch_observer = nullptr; }
  void before(const void* kernel, cudaStream_t stream) override {
    spans_.push_back({kernel, make_event(), make_event()});
    check(cudaEventRecord(spans_.back().begin.get(), stream));
  }
  void after(const void* /*kernel*/, cudaStream_t stream) override {
    check(cudaEventRecord(spans_.back().end.get(), stream));
  }

  struct Sum {
    double microseconds = 0.0;
    int launches = 0;
  };
  std::map<std::string, Sum> take() {
    std::map<std::string, Sum> sums;
    for (const Span& span : spans_) {
      float milliseconds = 0.0F;
      check(cudaEventSynchronize(span.end.get()));
      check(cudaEventElapsedTime(&milliseconds, span.begin.get(), span.end.get()));
      Sum& sum = sums[name_of(span.kernel)];
      sum.microseconds += 1e3 * static_cast<double>(milliseconds);
      ++sum.launches;
    }
    spans_.clear();
    return sums;
  }

 private:
  struct Span {
    const void* kernel;
    Event begin, end;
  };
  std::vector<Span> spans_;
};

/// A batch on the device, and everything between its codes and its values.
class Batch {
 public:
  explicit Batch(Probe& probe)
      : probe_(probe),
        count_(probe.properties().multiProcessorCount),
        encoding_(decode::fp8_block_encoding(128, 128)) {
    decode::DecodeView view;
    view.rows = kRows;
    view.cols = kCols;
    const std::vector<std::uint8_t> codes = random_codes();
    const std::vector<float> scales(static_cast<std::size_t>(kRows / 128 * (kCols / 128)), 0.01F);
    decode::EncodedMatrix matrix;
    matrix.encoding = &encoding_;
    matrix.rows = kRows;
    matrix.cols = kCols;
    matrix.row_stride_bytes = kCols;
    matrix.codes = reinterpret_cast<const std::byte*>(codes.data());
    matrix.companions[0] = {.role = decode::CompanionRole::kScale,
                            .type = decode::ElementType::kF32,
                            .rows = kRows / 128,
                            .cols = kCols / 128,
                            .bytes = std::as_bytes(std::span(scales))};
    matrix.companion_count = 1;
    view = decode::decode_view(matrix);
    plan_ = choose_operands(encoding_, view, false);
    const std::size_t scale_bytes = scales.size() * sizeof(float);
    auto* const place = static_cast<std::uint8_t*>(
        codes_.reserve(static_cast<std::size_t>(count_) * (codes.size() + scale_bytes)));
    for (std::int64_t i = 0; i < count_; ++i) {
      std::uint8_t* const own = place + static_cast<std::size_t>(i) * (codes.size() + scale_bytes);
      check(
          cudaMemcpyAsync(own, codes.data(), codes.size(), cudaMemcpyHostToDevice, probe.stream()));
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
    bands_.reserve(room(chase_elements(kCols)) * sizeof(float));
    std::size_t band_bytes = band_plan(BandRoute::kPlain, 0).workspace_bytes_per_matrix;
    for (const std::int64_t strip_rows : strips()) {
      band_bytes = std::max(band_bytes,
                            band_plan(BandRoute::kTensor, strip_rows).workspace_bytes_per_matrix);
    }
    band_bytes = std::max(band_bytes, deferred_plan().workspace_bytes_per_matrix);
    band_workspace_.reserve(room(static_cast<std::int64_t>(band_bytes)));
    values_.reserve(room(3 * kCols) * sizeof(double));
    small_.reserve(room(2) * sizeof(std::int32_t));
  }

  std::int64_t count() const { return count_; }

  void form(ProductKernel product) {
    for (std::int64_t first = 0; first < count_; first += kAtOnce) {
      const auto many = static_cast<std::size_t>(std::min(kAtOnce, count_ - first));
      form_grams(encoding_, plan_,
                 {.views = std::span(views_).subspan(static_cast<std::size_t>(first), many),
                  .sign_flip_keys = {}},
                 workspace_.reserve(workspace_bytes_), workspace_bytes_, product,
                 grams_.reserve_array<float>(0) + first * shape_.gram_elements(),
                 facts_.reserve_array<GramFacts>(0) + first, probe_.stream());
    }
  }

  /// Rows of the strips to try, on tensor cores; 0: as planned.
  std::vector<std::int64_t> strips() const {
    return probe_.strip_rows.empty() ? std::vector<std::int64_t>{0} : probe_.strip_rows;
  }

  void reduce(BandRoute route, std::int64_t strip_rows) {
    reduce_to_band<float, float>(
        band_plan(route, strip_rows),
        {grams_.reserve_array<float>(0), count_, bands_.reserve_array<float>(0),
         small_.reserve_array<std::int32_t>(0), band_workspace_.reserve(0)},
        nullptr, probe_.stream());
  }

  /// With updates deferred over several panels.
  void reduce_deferred() {
    reduce_to_band_deferred(deferred_plan(),
                            {grams_.reserve_array<float>(0), count_, bands_.reserve_array<float>(0),
                             small_.reserve_array<std::int32_t>(0), band_workspace_.reserve(0)},
                            probe_.stream());
  }

  /// In arithmetic of Real with at most so many sweeps under way.
  template <typename Real>
  void chase(int most_sweeps) {
    auto* const diagonal = values_.reserve_array<double>(0);
    chase_bands<float, Real>(bands_.reserve_array<float>(0), kCols, count_,
                             chase_shape(shared_bytes(), sizeof(Real), most_sweeps), diagonal,
                             diagonal + count_ * kCols, probe_.stream());
  }

  void solve() {
    auto* const diagonal = values_.reserve_array<double>(0);
    tridiagonal_values(diagonal, diagonal + count_ * kCols, kCols, count_, ValueOrder::kDescending,
                       diagonal + 2 * count_ * kCols,
                       reinterpret_cast<int*>(small_.reserve_array<std::int32_t>(0) + count_),
                       probe_.stream());
  }

 private:
  /// Codes of e4m3 of every magnitude; not the pattern that is no number.
  static std::vector<std::uint8_t> random_codes() {
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(kRows * kCols));
    std::uint64_t state = 0x9E3779B97F4A7C15U;
    for (std::uint8_t& code : codes) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      code = static_cast<std::uint8_t>(state >> 56U);
      code = (code & 0x7FU) == 0x7FU ? static_cast<std::uint8_t>(code ^ 1U) : code;
    }
    return codes;
  }
  std::size_t shared_bytes() const { return probe_.properties().sharedMemPerBlockOptin; }
  /// With strips of at most `strip_rows` rows, as a device with less shared memory has them.
  BandPlan band_plan(BandRoute route, std::int64_t strip_rows) const {
    constexpr std::size_t kStep = 1024;
    std::size_t shared = shared_bytes();
    BandPlan plan = plan_band_reduction<float>(band_order(kCols), route, shared);
    while (strip_rows > 0 && plan.strip_rows > strip_rows) {
      shared -= kStep;
      plan = plan_band_reduction<float>(band_order(kCols), route, shared);
    }
    return plan;
  }
  BandPlan deferred_plan() const {
    return plan_band_reduction<float>(band_order(kCols), BandRoute::kTensor, shared_bytes(), true);
  }

  Probe& probe_;
  std::int64_t count_;
  decode::Encoding encoding_;
  GramShape shape_{.rows = kRows, .cols = kCols};
  OperandPlan plan_;
  std::vector<decode::DecodeView> views_;
  std::size_t workspace_bytes_ = 0;
  DeviceBuffer codes_{"codes"};
  DeviceBuffer workspace_{"operands"};
  DeviceBuffer grams_{"Gram matrices"};
  DeviceBuffer facts_{"facts"};
  DeviceBuffer bands_{"bands"};
  DeviceBuffer band_workspace_{"panels"};
  DeviceBuffer values_{"values"};
  DeviceBuffer small_{"exponents"};
};

/// One step of the route: its whole time, then that of its kernels, per matrix.
void time_stage(Probe& probe, Batch& batch, const std::string& stage,
                const std::function<void()>& work, const std::function<void()>& prepare) {
  const auto row = [&](const std::string& route) {
    return bench::Row{.name = "probe.stage",
                      .route = route,
                      .backend = "cuda",
                      .rows = kRows,
                      .cols = kCols,
                      .batch = batch.count(),
                      .encoding = "F8_E4M3 128x128",
                      .unit = "microseconds"};
  };
  const auto each = static_cast<double>(batch.count());
  std::map<std::string, LaunchClock::Sum> sums;
  probe.run(row(stage), [&](bench::Row& found) {
    found.samples = probe.microseconds(work, prepare);
    for (double& sample : found.samples) {
      sample /= each;
    }
    found.note = "per matrix";
    if (prepare) {
      prepare();
    }
    LaunchClock clock;
    work();
    sums = clock.take();
  });
  for (const auto& [kernel, sum] : sums) {
    probe.run(row(stage + ": " + kernel), [&, sum = sum](bench::Row& found) {
      found.samples = {sum.microseconds / each};
      found.note = "per matrix, " + std::to_string(sum.launches) + " launches, events around each";
    });
  }
}

}  // namespace

void probe_stages(Probe& probe) {
  Batch batch(probe);
  const auto by_warps = [&] { batch.form(ProductKernel::kWarp); };
  time_stage(probe, batch, "gram by mma.sync", by_warps, {});
  time_stage(
      probe, batch, "band without tensor cores", [&] { batch.reduce(BandRoute::kPlain, 0); },
      by_warps);
  for (const std::int64_t strip_rows : batch.strips()) {
    const std::string strips =
        strip_rows == 0 ? "" : ", strips of " + std::to_string(strip_rows) + " rows";
    time_stage(
        probe, batch, "band on tensor cores" + strips,
        [&] { batch.reduce(BandRoute::kTensor, strip_rows); }, by_warps);
  }
  time_stage(
      probe, batch, "band with deferred updates", [&] { batch.reduce_deferred(); }, by_warps);
  const auto to_band = [&] {
    batch.form(ProductKernel::kWarp);
    batch.reduce(BandRoute::kTensor, 0);
  };
  for (const int sweeps : {14, 12, 9, 7}) {
    time_stage(
        probe, batch, "chase in float32, " + std::to_string(sweeps) + " sweeps",
        [&, sweeps] { batch.chase<float>(sweeps); }, to_band);
  }
  time_stage(
      probe, batch, "chase", [&] { batch.chase<double>(7); }, to_band);
  time_stage(probe, batch, "values", [&] { batch.solve(); }, {});
  if (choose_product_kernel(probe.properties().major, probe.properties().minor) ==
      ProductKernel::kWarpgroup) {
    time_stage(probe, batch, "gram by wgmma", [&] { batch.form(ProductKernel::kWarpgroup); }, {});
  }
}

}  // namespace vindex::probe
