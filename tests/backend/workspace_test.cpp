// Bounded memory and concurrency of the CPU back end: streamed inputs give the bits of inputs in
// memory, no call takes more than it announced, and threads do not disturb each other.
#include "cpu/workspace/workspace.hpp"

#include "backend_fixture.hpp"

#include "cpu/cpu_backend.hpp"
#include "cpu/cpu_spectrum.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/route/plan_svd.hpp"
#include "decode/encoding/code_layout.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

namespace vindex::test::workspace_test {
namespace {

/// Bytes that must be fetched: each slab replaces the one before, which is overwritten.
class StreamedInput final : public MatrixInput {
 public:
  explicit StreamedInput(const decode::EncodedMatrix& matrix) : matrix_(matrix) {}
  const decode::Encoding& encoding() const override { return *matrix_.encoding; }
  std::int64_t rows() const override { return matrix_.rows; }
  std::int64_t cols() const override { return matrix_.cols; }
  bool transposed() const override { return false; }
  std::uint64_t sign_flip_key() const override { return 99; }
  bool in_memory() const override { return false; }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    return fetch(decode::row_slab(matrix_, first, count));
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return fetch(decode::column_slab(matrix_, first, count));
  }
  std::size_t largest_slab() const { return largest_slab_; }
  int fetches() const { return fetches_; }

 private:
  decode::EncodedMatrix fetch(decode::EncodedMatrix view) {
    const auto row_bytes = static_cast<std::int64_t>(
        decode::row_bytes(*view.encoding, static_cast<std::uint64_t>(view.cols)).value());
    std::fill(bytes_.begin(), bytes_.end(), std::byte{0xFF});
    bytes_.assign(static_cast<std::size_t>(view.rows * row_bytes), std::byte{0});
    for (std::int64_t r = 0; r < view.rows; ++r) {
      std::memcpy(bytes_.data() + r * row_bytes, view.codes + r * view.row_stride_bytes,
                  static_cast<std::size_t>(row_bytes));
    }
    view.codes = bytes_.data();
    view.row_stride_bytes = row_bytes;
    largest_slab_ = std::max(largest_slab_, bytes_.size());
    ++fetches_;
    return view;
  }

  decode::EncodedMatrix matrix_;
  std::vector<std::byte> bytes_;
  std::size_t largest_slab_ = 0;
  int fetches_ = 0;
};

MatrixReport measure_one(Backend& backend, MatrixInput& input, const MeasureOptions& options,
                         std::uint64_t limit) {
  MatrixInput* const batch[] = {&input};
  std::vector<MatrixReport> out(1);
  backend.measure(batch, options, limit, out);
  return out[0];
}

/// bfloat16 codes of a matrix.
struct Bf16Matrix {
  explicit Bf16Matrix(const FloatMatrix& matrix)
      : encoding(decode::plain_encoding(decode::ElementType::kBF16)) {
    const FloatMatrix rounded = rounded_to_bf16(matrix);
    for (const float value : rounded.values) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      codes.push_back(static_cast<std::uint16_t>(bits >> 16U));
    }
    view.encoding = &encoding;
    view.rows = matrix.rows;
    view.cols = matrix.cols;
    view.codes = reinterpret_cast<const std::byte*>(codes.data());
    view.row_stride_bytes = matrix.cols * 2;
  }
  Bf16Matrix(const Bf16Matrix&) = delete;
  Bf16Matrix& operator=(const Bf16Matrix&) = delete;
  decode::Encoding encoding;
  std::vector<std::uint16_t> codes;
  decode::EncodedMatrix view;
};

/// From 1 down to `last`: sums and reduction go to float64.
std::vector<double> falling(std::int64_t p, double last) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < p; ++i) {
    values.push_back(std::pow(last, static_cast<double>(i) / static_cast<double>(p - 1)));
  }
  return values;
}

TEST(CpuMemory, StreamedInputsGiveTheBitsOfInputsInMemory) {
  const auto backend = cpu::make_cpu_backend(1);
  for (const bool wide : {false, true}) {
    const FloatMatrix matrix = gaussian_matrix(wide ? 70 : 2900, wide ? 2900 : 70, 1);
    const Bf16Matrix half(matrix);
    for (const auto& view : {as_encoded(matrix), half.view}) {
      for (const SpectrumMode mode :
           {SpectrumMode::kDefault, SpectrumMode::kStrict, SpectrumMode::kFast}) {
        MeasureOptions options = with_mode(mode);
        options.sign_flip_draws = 2;
        const auto memory = make_memory_input(view, false, 99);
        const MatrixReport expected = measure_one(*backend, *memory, options, 0);
        const std::uint64_t least = backend->workspace_bytes(*view.encoding, view.rows, view.cols,
                                                             options, InputBytes::kStreamedLeast);
        for (const std::uint64_t limit : {least, least + 500'000, std::uint64_t{0}}) {
          StreamedInput streamed(view);
          const MatrixReport report = measure_one(*backend, streamed, options, limit);
          EXPECT_EQ(report.sigma, expected.sigma);
          ASSERT_TRUE(report.sign_flip && expected.sign_flip);
          EXPECT_EQ(report.sign_flip->first_sigma, expected.sign_flip->first_sigma);
          EXPECT_EQ(report.sign_flip->draws.back().var_at_k,
                    expected.sign_flip->draws.back().var_at_k);
          EXPECT_EQ(report.moments.sum_squares, expected.moments.sum_squares);
          EXPECT_EQ(report.moments.m4, expected.moments.m4);
          if (limit == least) {
            EXPECT_GE(streamed.fetches(), 6) << "two passes of slabs, nothing kept";
            EXPECT_LT(streamed.largest_slab(), half.codes.size() * 2);
          }
        }
      }
    }
  }
}

TEST(CpuMemory, SumsInGroupsDoNotDependOnHowMuchIsRead) {
  const auto backend = cpu::make_cpu_backend(1);
  for (const bool wide : {false, true}) {
    const FloatMatrix tall = matrix_with_spectrum(2900, 544, falling(544, 5e-3), 12);
    const FloatMatrix matrix = wide ? transposed(tall) : tall;
    const Bf16Matrix half(matrix);
    for (const auto& view : {as_encoded(matrix), half.view}) {
      const MeasureOptions options = with_mode(SpectrumMode::kDefault);
      const auto memory = make_memory_input(view, false, 99);
      const MatrixReport expected = measure_one(*backend, *memory, options, 0);
      EXPECT_EQ(expected.method.substr(0, 13), "gram32+band64") << expected.method;
      const std::uint64_t least = backend->workspace_bytes(*view.encoding, view.rows, view.cols,
                                                           options, InputBytes::kStreamedLeast);
      for (const std::uint64_t limit : {least, std::uint64_t{0}}) {
        StreamedInput streamed(view);
        EXPECT_EQ(measure_one(*backend, streamed, options, limit).sigma, expected.sigma);
      }
    }
  }
}

/// Values of which the `count` smallest are lost to a Gram, the most that are found again.
std::vector<double> with_tail(std::int64_t p, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(p), 1.0);
  for (std::int64_t i = 0; i < p; ++i) {
    values[static_cast<std::size_t>(i)] =
        i < p - count ? 1.0 - 0.5 * static_cast<double>(i) / static_cast<double>(p)
                      : 1e-5 * static_cast<double>(p - i);
  }
  return values;
}

TEST(CpuMemory, NoCallTakesMoreThanItAnnounced) {
  std::vector<double> steep(90);
  for (std::size_t i = 0; i < steep.size(); ++i) {
    steep[i] = std::pow(10.0, -0.1 * static_cast<double>(i));
  }
  for (const FloatMatrix& matrix :
       {gaussian_matrix(300, 80, 1), gaussian_matrix(80, 300, 2), gaussian_matrix(90, 90, 3),
        matrix_with_spectrum(400, 90, steep, 4), matrix_with_spectrum(95, 90, steep, 5),
        gaussian_matrix(600, 530, 6), gaussian_matrix(1, 900, 7),
        matrix_with_spectrum(700, 530, with_tail(530, 33), 8), gaussian_matrix(545, 545, 9),
        matrix_with_spectrum(2200, 544, falling(544, 3e-3), 10),
        matrix_with_spectrum(2200, 544, falling(544, 1.5e-3), 11)}) {
    for (const SpectrumMode mode :
         {SpectrumMode::kDefault, SpectrumMode::kStrict, SpectrumMode::kFast}) {
      for (const std::int32_t vectors : {0, 4, 60}) {
        MeasureOptions options = with_mode(mode);
        options.vectors = vectors;
        options.sign_flip_draws = vectors == 4 ? 2 : 0;
        const auto encoded = as_encoded(matrix);
        cpu::SvdPlanRequest request{.rows = matrix.rows,
                                    .cols = matrix.cols,
                                    .encoding = encoded.encoding,
                                    .options = options,
                                    .in_memory = false};
        for (const bool least : {false, true}) {
          StreamedInput input(encoded);
          request.workspace_limit = least ? cpu::plan_svd(request).min_workspace_bytes : 0;
          const cpu::SvdPlan plan = cpu::plan_svd(request);
          cpu::Workspace workspace(0);
          MatrixReport report;
          cpu::measure_on_cpu(input, plan, options, workspace, report);
          EXPECT_EQ(report.status, MatrixStatus::kMeasured);
          EXPECT_LE(workspace.peak_bytes() + input.largest_slab(),
                    plan.workspace_bytes - plan.library_bytes)
              << matrix.rows << " x " << matrix.cols << " mode " << static_cast<int>(mode)
              << " vectors " << vectors << " by " << report.method;
        }
        // Bytes that are held need neither slabs nor a decoded copy.
        const auto held = make_memory_input(as_encoded(matrix), false, 99);
        request.in_memory = true;
        request.workspace_limit = 0;
        const cpu::SvdPlan plan = cpu::plan_svd(request);
        cpu::Workspace workspace(0);
        MatrixReport report;
        cpu::measure_on_cpu(*held, plan, options, workspace, report);
        EXPECT_LE(workspace.peak_bytes(), plan.workspace_bytes - plan.library_bytes)
            << matrix.rows << " x " << matrix.cols << " by " << report.method;
      }
    }
  }
}

TEST(CpuMemory, AHeldMatrixIsNotReservedTwice) {
  const auto backend = cpu::make_cpu_backend(1);
  const auto encoding = decode::plain_encoding(decode::ElementType::kBF16);
  const auto bytes = [&](InputBytes input) {
    return backend->workspace_bytes(encoding, 2048, 7168, {}, input);
  };
  EXPECT_GE(bytes(InputBytes::kStreamed), bytes(InputBytes::kHeld) + 4ULL * 2048 * 7168);
  EXPECT_LT(bytes(InputBytes::kHeld), bytes(InputBytes::kStreamedLeast));
  EXPECT_LT(bytes(InputBytes::kStreamedLeast), bytes(InputBytes::kStreamed));
}

TEST(CpuMemory, TooSmallALimitIsOutOfMemory) {
  const auto backend = cpu::make_cpu_backend(1);
  const FloatMatrix matrix = gaussian_matrix(100, 60, 1);
  const auto input = make_memory_input(as_encoded(matrix));
  EXPECT_THROW(measure_one(*backend, *input, {}, 1000), OutOfMemory);
}

TEST(CpuMemory, ArraysReturnWhatTheyTook) {
  cpu::Workspace workspace(1000);
  {
    cpu::WorkArray<float> first(workspace, 100, "a test");
    cpu::WorkArray<float> second = std::move(first);
    EXPECT_EQ(second.size(), 100);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second.data()) % 64, 0U);
    EXPECT_THROW(cpu::WorkArray<double>(workspace, 100, "a test"), OutOfMemory);
  }
  cpu::WorkArray<double> third(workspace, 100, "a test");
  EXPECT_EQ(workspace.peak_bytes(), cpu::array_bytes(100, sizeof(double)));
}

TEST(CpuThreads, ConcurrentCallsGiveTheBitsOfOne) {
  const auto backend = cpu::make_cpu_backend(4);
  EXPECT_EQ(backend->limits().concurrent_calls, 4);
  const FloatMatrix matrices[] = {gaussian_matrix(420, 200, 1), spiked_matrix(150, 500, 4, 3.0, 2),
                                  gaussian_matrix(160, 160, 3), gaussian_matrix(530, 700, 4)};
  const SpectrumMode modes[] = {SpectrumMode::kDefault, SpectrumMode::kStrict,
                                SpectrumMode::kStrict, SpectrumMode::kFast};
  const auto run = [&](std::size_t which) {
    const auto input = make_memory_input(as_encoded(matrices[which]));
    return measure_one(*backend, *input, with_mode(modes[which]), 0).sigma;
  };
  std::vector<std::vector<double>> expected;
  for (std::size_t i = 0; i < 4; ++i) {
    expected.push_back(run(i));
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<double>> sigma(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] { sigma[i] = run((i + static_cast<std::size_t>(round)) % 4); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(sigma[i], expected[(i + static_cast<std::size_t>(round)) % 4]);
    }
  }
}

TEST(CpuBackend, SaysWhoComputes) {
  const auto backend = cpu::make_cpu_backend(0, "", cpu::MatrixUnitPreference::kNone);
  const BackendInfo info = backend->info();
  EXPECT_EQ(info.name, "cpu");
  EXPECT_FALSE(info.device.empty());
  ASSERT_EQ(info.libraries.size(), 1U);
  EXPECT_TRUE(info.libraries[0].starts_with("OpenBLAS 0.")) << info.libraries[0];
  EXPECT_GE(backend->limits().concurrent_calls, 1);
  const auto staging = backend->make_staging(12'345);
  EXPECT_EQ(staging->bytes().size(), 12'345U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(staging->bytes().data()) % 4096, 0U);
}

}  // namespace
}  // namespace vindex::test::workspace_test
