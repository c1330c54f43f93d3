// Owns the expected time of a plan: matrices of the model's dearest shapes are made up and measured
// here and now, as many at once as a run would measure, and the rest follows by arithmetic.
#include "expected_time.hpp"

#include "core/integers.hpp"
#include "core/process/parallel.hpp"
#include "cpu/product/product_nulls.hpp"
#include "cpu/product/product_spectrum.hpp"
#include "decode/encode/encode.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include "engine/units/derived_rows.hpp"
#include "model/products/product.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <tuple>

namespace vindex::commands {

namespace {

using Clock = std::chrono::steady_clock;

/// Shapes are measured until they stand for this share of the work, but not more of them than this.
constexpr double kCoveredShare = 0.9;
constexpr std::size_t kMaxShapes = 4;
/// A matrix that would take longer is replaced by a smaller one of the same proportions.
constexpr double kMaxSeconds = 1.5;
/// And one of more weights by a shorter one: making and reading them takes longer than their
/// products where the other dimension is small.
constexpr std::int64_t kMaxWeights = std::int64_t{1} << 25U;
constexpr std::int64_t kThin = 512;
/// And everything together stops being refined after this.
constexpr double kMaxSecondsAltogether = 6.0;
/// Beside the measurement: the program's start, one row, and the results file by the byte (deflate
/// on one core); from runs of kimi-k2-mini and of one layer (docs/runs/performance.md).
constexpr double kFixedSeconds = 0.15;
constexpr double kSecondsPerRow = 0.6e-3;
constexpr double kOutputBytesPerSecond = 60e6;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A matrix of noise with the bytes it points into.
class NoiseMatrix {
 public:
  NoiseMatrix(const decode::Encoding& wanted, std::int64_t rows, std::int64_t cols)
      : encoding_(decode::encoded_size(wanted, rows, cols) ? wanted : decode::float32_encoding()) {
    std::mt19937 random(1);
    std::vector<float> weights(static_cast<std::size_t>(rows * cols));
    for (float& weight : weights) {
      weight = static_cast<float>(random()) * 4.6e-10F - 1.0F;
    }
    const auto size = decode::encoded_size(encoding_, rows, cols);
    expects(size.has_value(), "float32 stores every shape");
    codes_.resize(static_cast<std::size_t>(size->code_bytes));
    scales_.resize(static_cast<std::size_t>(size->scale_bytes));
    decode::encode_matrix(encoding_, weights.data(), rows, cols, cols, codes_, scales_);
    matrix_.encoding = &encoding_;
    matrix_.rows = rows;
    matrix_.cols = cols;
    matrix_.codes = codes_.data();
    matrix_.row_stride_bytes = static_cast<std::int64_t>(
        decode::row_bytes(encoding_, static_cast<std::uint64_t>(cols)).value());
    if (!scales_.empty()) {
      const bool blocks = encoding_.scheme == decode::Scheme::kFp8Block;
      const std::int64_t scale_rows = blocks ? ceil_divide(rows, encoding_.block_rows) : rows;
      const auto bytes = static_cast<std::int64_t>(scales_.size());
      matrix_.companions[0] = {
          .role = decode::CompanionRole::kScale,
          .type = blocks ? decode::ElementType::kF32 : decode::ElementType::kBF16,
          .rows = scale_rows,
          .cols = bytes / (blocks ? 4 : 2) / scale_rows,
          .bytes = scales_};
      matrix_.companion_count = 1;
    }
  }
  NoiseMatrix(const NoiseMatrix&) = delete;
  NoiseMatrix& operator=(const NoiseMatrix&) = delete;
  const decode::EncodedMatrix& matrix() const { return matrix_; }

 private:
  decode::Encoding encoding_;
  std::vector<std::byte> codes_, scales_;
  decode::EncodedMatrix matrix_;
};

/// Flop (measuring_cost) per second of all back ends together on matrices of one kind: every
/// concurrent call measures a batch of up to `batch`. The better of up to two rounds, since the
/// first pays for start-up.
double measured_rate(const decode::Encoding& encoding, std::int64_t rows, std::int64_t cols,
                     std::int64_t batch, const MeasureOptions& options,
                     const std::vector<std::unique_ptr<Backend>>& backends) {
  const NoiseMatrix noise(encoding, rows, cols);
  double rate = 0.0;
  for (const auto& backend : backends) {
    const BackendLimits limits = backend->limits();
    const auto count = static_cast<std::size_t>(std::clamp<std::int64_t>(batch, 1, limits.batch));
    double best = 0.0;
    for (int round = 0; round < 2; ++round) {
      const Clock::time_point start = Clock::now();
      const auto calls = static_cast<std::size_t>(limits.concurrent_calls);
      for_each_index(calls, calls, [&](std::size_t /*worker*/, std::size_t /*call*/) {
        std::vector<std::unique_ptr<MatrixInput>> inputs;
        std::vector<MatrixInput*> pointers;
        for (std::size_t i = 0; i < count; ++i) {
          inputs.push_back(make_memory_input(noise.matrix()));
          pointers.push_back(inputs.back().get());
        }
        std::vector<MatrixReport> reports(count);
        backend->measure(pointers, options, 0, reports);
      });
      const double seconds = seconds_since(start);
      best = std::max(best, static_cast<double>(count * calls) *
                                engine::measuring_cost(rows, cols, options) / seconds);
      if (seconds > kMaxSeconds) {
        break;
      }
    }
    rate += best;
  }
  return rate;
}

/// The matrices of one shape and encoding in a plan.
struct Kind {
  const model::MatrixRecord* example = nullptr;
  std::int64_t count = 0;
  double cost = 0.0;
};

std::vector<Kind> kinds_of(const engine::WorkPlan& plan, const model::ModelIndex& index,
                           const MeasureOptions& options) {
  std::map<std::tuple<model::ResultTable, std::int64_t, std::int64_t, std::string>, Kind> kinds;
  for (const engine::WorkUnit& unit : plan.units) {
    for (const engine::MatrixRef& ref : unit.matrices) {
      const model::MatrixRecord& record = index.matrices[static_cast<std::size_t>(ref.matrix)];
      if (record.product != nullptr) {
        continue;
      }
      Kind& kind = kinds[{record.table, record.stored_rows(), record.stored_cols(),
                          engine::measured_encoding(record).label}];
      kind.example = &record;
      ++kind.count;
      kind.cost += engine::measuring_cost(record.rows, record.cols,
                                          engine::options_for(record.table, options));
    }
  }
  std::vector<Kind> sorted;
  for (const auto& [key, kind] : kinds) {
    sorted.push_back(kind);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Kind& a, const Kind& b) { return a.cost > b.cost; });
  return sorted;
}

/// Seconds that the products of `plan` take `workers`, by a small one of noise. The null of factors
/// of some sides is drawn once, by one worker for whom the others wait.
double product_seconds(const engine::WorkPlan& plan, const model::ModelIndex& index,
                       double workers) {
  double cost = 0.0;
  double null_cost = 0.0;
  std::set<std::vector<std::int64_t>> sides;
  for (const engine::WorkUnit& unit : plan.units) {
    for (const engine::MatrixRef& ref : unit.matrices) {
      const model::MatrixRecord& record = index.matrices[static_cast<std::size_t>(ref.matrix)];
      if (record.product == nullptr) {
        continue;
      }
      cost += engine::product_cost(record);
      if (const auto [place, is_new] = sides.insert(record.product->sides()); is_new) {
        null_cost += cpu::product_null_cost(*place);
      }
    }
  }
  if (cost == 0.0) {
    return 0.0;
  }
  constexpr std::int64_t kLong = 1024;
  constexpr std::int64_t kRank = 64;
  cpu::Factor left{kLong, kRank, std::vector<double>(kLong * kRank)};
  std::mt19937 random(1);
  for (double& value : left.values) {
    value = static_cast<double>(random()) * 0x1p-32 - 0.5;
  }
  const cpu::Factor right{kRank, kLong, left.values};
  const cpu::Factor* chain[] = {&left, &right};
  double least = 0.0;
  for (int round = 0; round < 2; ++round) {  // the first pays for start-up
    const Clock::time_point start = Clock::now();
    (void)cpu::product_spectrum(chain, 1.0);
    least = seconds_since(start);
  }
  return (cost / workers + null_cost) * least / engine::product_cost(kLong, kRank, kLong);
}

/// `side` times `factor`, whole blocks of any encoding.
std::int64_t shrunk(std::int64_t side, double factor) {
  constexpr std::int64_t kBlock = 256;
  if (factor >= 1.0 || side < 2 * kBlock) {
    return side;
  }
  const auto blocks =
      static_cast<std::int64_t>(factor * static_cast<double>(side) / static_cast<double>(kBlock));
  return std::max<std::int64_t>(1, blocks) * kBlock;
}

}  // namespace

ExampleShape example_shape(std::int64_t rows, std::int64_t cols, double factor) {
  ExampleShape out = {shrunk(rows, factor), shrunk(cols, factor)};
  if (std::min(out.rows, out.cols) < kThin && out.rows > kMaxWeights / out.cols) {
    std::int64_t& longer = out.rows > out.cols ? out.rows : out.cols;
    longer = shrunk(longer, static_cast<double>(kMaxWeights) / static_cast<double>(out.rows) /
                                static_cast<double>(out.cols));
  }
  return out;
}

double expected_seconds(const engine::WorkPlan& plan, const model::ModelIndex& index,
                        const engine::RunSettings& settings,
                        const std::vector<std::unique_ptr<Backend>>& backends) {
  const std::vector<Kind> kinds = kinds_of(plan, index, settings.options);
  // Draws beyond the first cost what the first one costs.
  MeasureOptions sample = settings.options;
  sample.sign_flip_draws = std::min(sample.sign_flip_draws, 1);
  const Clock::time_point start = Clock::now();
  std::int64_t workers = 0;
  for (const auto& backend : backends) {
    workers += backend->limits().concurrent_calls;
  }
  // A first, small one only shows how large the others may be.
  double rate = measured_rate(decode::float32_encoding(), 512, 256, 1, sample, backends);
  double seconds = 0.0;
  double covered = 0.0;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const Kind& kind = kinds[k];
    const bool dear = k < kMaxShapes && covered < kCoveredShare * plan.cost &&
                      seconds_since(start) < kMaxSecondsAltogether;
    if (dear) {
      const model::MatrixRecord& example = *kind.example;
      const double each =
          kind.cost / static_cast<double>(kind.count) * static_cast<double>(workers) / rate;
      const double factor = std::cbrt(kMaxSeconds / each);
      const ExampleShape shape =
          example_shape(example.stored_rows(), example.stored_cols(), factor);
      rate = measured_rate(engine::measured_encoding(example), shape.rows, shape.cols,
                           std::min<std::int64_t>(kind.count, 64),
                           engine::options_for(example.table, sample), backends);
    }
    covered += kind.cost;
    // The last matrices of a kind may leave workers idle, but never for longer than one takes.
    seconds += kind.cost / rate;
    const double one =
        kind.cost / static_cast<double>(kind.count) * static_cast<double>(workers) / rate;
    if (kinds.size() == 1) {
      const auto rounds = ceil_divide(kind.count, workers);
      seconds = std::max(seconds, one * static_cast<double>(rounds));
    }
  }
  seconds += product_seconds(plan, index, static_cast<double>(workers));
  return kFixedSeconds + seconds + kSecondsPerRow * static_cast<double>(plan.matrices) +
         static_cast<double>(plan.output_bytes) / kOutputBytesPerSecond;
}

std::uint64_t device_need(const engine::WorkPlan& plan, const model::ModelIndex& index,
                          const engine::RunSettings& settings, const Backend& backend) {
  std::uint64_t most = 0;
  for (const engine::WorkUnit& unit : plan.units) {
    const model::MatrixRecord& record =
        index.matrices[static_cast<std::size_t>(unit.matrices.front().matrix)];
    if (record.product != nullptr) {
      continue;  // on the host
    }
    most = std::max(
        most, backend.device_workspace_bytes(engine::measured_encoding(record),
                                             record.stored_rows(), record.stored_cols(),
                                             engine::options_for(record.table, settings.options),
                                             static_cast<std::int64_t>(unit.matrices.size())));
  }
  return most * static_cast<std::uint64_t>(backend.limits().concurrent_calls);
}

}  // namespace vindex::commands
