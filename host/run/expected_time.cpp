// Owns the expected time of a plan.
#include <vindex/decode/encoding.hpp>
#include <vindex/run/measure_run.hpp>

#include <chrono>
#include <random>

namespace vindex::run {

namespace {
using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
}  // namespace

double expected_seconds(const WorkPlan& plan, const RunSettings& settings,
                        const std::vector<std::unique_ptr<measure::Backend>>& backends) {
  // Large enough that the arithmetic outweighs the overheads, small enough to take a moment.
  constexpr std::int64_t kRows = 1536;
  constexpr std::int64_t kCols = 512;
  std::mt19937 random(1);
  std::vector<float> weights(static_cast<std::size_t>(kRows * kCols));
  for (float& weight : weights) {
    weight = static_cast<float>(random()) * 4.6e-10F - 1.0F;
  }
  const decode::Encoding encoding = decode::plain_encoding(decode::ElementType::kF32);
  decode::EncodedMatrix matrix;
  matrix.encoding = &encoding;
  matrix.rows = kRows;
  matrix.cols = kCols;
  matrix.codes = reinterpret_cast<const std::byte*>(weights.data());
  matrix.row_stride_bytes = kCols * 4;
  double rate = 0.0;
  for (const auto& backend : backends) {
    const auto input = measure::make_memory_input(matrix);
    const std::vector<measure::MatrixInput*> batch = {input.get()};
    std::vector<measure::MatrixReport> report(1);
    backend->measure(batch, settings.options, 0, report);  // the first call pays for start-up
    const Clock::time_point start = Clock::now();
    backend->measure(batch, settings.options, 0, report);
    rate += measuring_cost(kRows, kCols, settings.options.mode) / seconds_since(start) *
            backend->limits().concurrent_calls;
  }
  return plan.cost / rate;
}

}  // namespace vindex::run
