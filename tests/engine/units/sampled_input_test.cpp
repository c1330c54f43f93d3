// The sample that is taken of a matrix on its way to a back end, whatever the format and whatever
// slabs the back end asks for.
#include "commands/spectra/sampled/sampled_input.hpp"

#include "decode/decode_matrix.hpp"
#include "decode/encode/encoded_sample.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include "statistics/spectrum/sample_angles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

namespace vindex::commands::sampled_input_test {
namespace {

/// Bits, so that NaN equals itself.
std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) {
    bits.push_back(std::bit_cast<std::uint32_t>(value));
  }
  return bits;
}

std::vector<float> every(const decode::EncodedMatrix& matrix, std::int64_t stride,
                         std::size_t count) {
  std::vector<float> all(static_cast<std::size_t>(matrix.rows * matrix.cols));
  decode::decode_matrix(matrix, all.data(), matrix.cols);
  std::vector<float> out;
  for (std::size_t i = 0; out.size() < count; i += static_cast<std::size_t>(stride)) {
    out.push_back(all.at(i));
  }
  return out;
}

TEST(DecodeStridedTest, EveryFormatGivesTheBitsOfTheWholeMatrix) {
  std::mt19937 random(7);
  const auto fill = [&](auto values, auto, auto) {
    for (std::uint8_t& value : values) {
      value = static_cast<std::uint8_t>(random());
    }
  };
  std::size_t formats = 0;
  for (const decode::FormatRow& row : decode::format_rows()) {
    for (const decode::SampleShape& shape : decode::shapes_of(row, 11, 134, 16)) {
      SCOPED_TRACE(shape.encoding.label);
      ++formats;
      const decode::EncodedSample sample(shape, 0, fill);
      const decode::EncodedMatrix& matrix = sample.matrix();
      for (const std::int64_t stride : {1, 3, 7, 190}) {
        const auto count = static_cast<std::size_t>((matrix.rows * matrix.cols - 1) / stride);
        const std::vector<float> wanted = every(matrix, stride, count);
        std::vector<float> whole(count);
        EXPECT_EQ(decode::decode_strided(matrix, matrix.cols, stride, whole),
                  static_cast<std::int64_t>(count));
        EXPECT_EQ(bits_of(whole), bits_of(wanted)) << stride;
        // The same from two slabs.
        std::vector<float> parts(count);
        const std::int64_t granularity = decode::column_granularity(*matrix.encoding);
        const std::int64_t cut = matrix.cols / 2 / granularity * granularity;
        std::int64_t written = 0;
        if (cut > 0) {
          written +=
              decode::decode_strided(column_slab(matrix, 0, cut), matrix.cols, stride, parts);
        }
        written += decode::decode_strided(column_slab(matrix, cut, matrix.cols - cut), matrix.cols,
                                          stride, parts);
        EXPECT_EQ(written, static_cast<std::int64_t>(count));
        EXPECT_EQ(bits_of(parts), bits_of(wanted)) << stride;
      }
    }
  }
  EXPECT_GT(formats, 60U);
}

/// Float32 weights 0, 1, 2, ... of rows x cols, as if read slab by slab or held in memory.
class CountingInput final : public MatrixInput {
 public:
  CountingInput(std::int64_t rows, std::int64_t cols, bool in_memory)
      : values_(static_cast<std::size_t>(rows * cols)), in_memory_(in_memory) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<float>(i);
    }
    matrix_ = decode::float32_view(values_.data(), rows, cols);
  }
  const decode::Encoding& encoding() const override { return decode::float32_encoding(); }
  std::int64_t rows() const override { return matrix_.rows; }
  std::int64_t cols() const override { return matrix_.cols; }
  bool transposed() const override { return false; }
  std::uint64_t sign_flip_key() const override { return 5; }
  bool in_memory() const override { return in_memory_; }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    EXPECT_FALSE(released);
    return decode::row_slab(matrix_, first, count);
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    EXPECT_FALSE(released);
    return decode::column_slab(matrix_, first, count);
  }
  void release() override { released = true; }
  std::vector<float>& values() { return values_; }

  bool released = false;

 private:
  std::vector<float> values_;
  decode::EncodedMatrix matrix_;
  bool in_memory_;
};

std::vector<float> wanted_of(std::int64_t rows, std::int64_t cols) {
  std::vector<float> out;
  const std::int64_t stride = statistics::sample_stride(rows * cols);
  for (std::int64_t i = 0;
       static_cast<std::int64_t>(out.size()) < statistics::sample_size(rows * cols); ++i) {
    out.push_back(static_cast<float>(i * stride));
  }
  return out;
}

TEST(SampledInputTest, TakesTheSampleWhenTheBytesAreLetGo) {
  CountingInput inner(701, 500, true);
  SampledInput input(inner);
  (void)input.column_slab(0, 3);  // no more than that is asked for
  EXPECT_FALSE(inner.released);
  input.release();
  EXPECT_TRUE(inner.released);
  EXPECT_EQ(input.take_sample().weights, wanted_of(701, 500));
}

TEST(SampledInputTest, TakesItFromSlabsThatPassBy) {
  CountingInput inner(701, 500, false);
  SampledInput input(inner);
  for (std::int64_t row = 0; row < 701; row += 50) {
    (void)input.row_slab(std::max<std::int64_t>(0, row - 7),
                         std::min<std::int64_t>(57, 701 - std::max<std::int64_t>(0, row - 7)));
  }
  (void)input.row_slab(0, 701);  // a second pass changes nothing
  input.release();
  EXPECT_EQ(input.take_sample().weights, wanted_of(701, 500));
  CountingInput again(701, 500, false);
  SampledInput columns(again);
  for (std::int64_t col = 0; col < 500; col += 100) {
    (void)columns.column_slab(col, 100);
  }
  EXPECT_EQ(columns.take_sample().weights, wanted_of(701, 500));
}

/// Normal weights in place of the counted ones.
CountingInput noise(std::int64_t rows, std::int64_t cols, bool in_memory) {
  CountingInput input(rows, cols, in_memory);
  std::mt19937_64 engine(4);
  std::normal_distribution<float> law;
  for (float& value : input.values()) {
    value = law(engine);
  }
  return input;
}

std::vector<std::uint64_t> bits_of(const statistics::ScaleFigures& figures) {
  std::vector<std::uint64_t> bits;
  for (const double value :
       {figures.z_modulus, figures.z_modulus_null, figures.z_modulus_null_sd, figures.csci,
        figures.csci_null_sd, figures.z_modulus_signflip, figures.csci_signflip,
        figures.csci_permuted, figures.csci_permuted_sd}) {
    bits.push_back(std::bit_cast<std::uint64_t>(value));
  }
  return bits;
}

TEST(SampledInputTest, ScalesHaveTheSameBitsForEverySlab) {
  CountingInput inner = noise(701, 1500, true);
  SampledInput held(inner, true);
  (void)held.row_slab(0, 1);
  held.release();
  const statistics::ScaleFigures figures = held.take_sample().scales;
  EXPECT_NEAR(figures.z_modulus, 0.0, 3.0 * figures.z_modulus_null_sd);
  EXPECT_NEAR(figures.csci, 0.0, 3.0 * figures.csci_null_sd);
  EXPECT_NEAR(figures.csci_signflip, 0.0, 3.0 * figures.csci_null_sd);
  const std::vector<std::uint64_t> wanted = bits_of(figures);
  inner.released = false;
  SampledInput without(inner);
  (void)without.row_slab(0, 1);
  without.release();
  const statistics::ScaleFigures plain = without.take_sample().scales;
  EXPECT_EQ(plain.csci, figures.csci);
  EXPECT_TRUE(std::isnan(plain.csci_signflip));
  for (const std::int64_t step : {50, 128, 701}) {
    CountingInput streamed = noise(701, 1500, false);
    SampledInput rows(streamed, true);
    for (std::int64_t row = 0; row < 701; row += step) {
      const std::int64_t first = std::max<std::int64_t>(0, row - 7);  // they overlap
      (void)rows.row_slab(first, std::min(step + 7, 701 - first));
    }
    (void)rows.row_slab(0, 701);
    EXPECT_EQ(bits_of(rows.take_sample().scales), wanted) << step;
  }
  for (const std::int64_t step : {100, 512, 1499}) {
    CountingInput streamed = noise(701, 1500, false);
    SampledInput columns(streamed, true);
    for (std::int64_t col = 0; col < 1500; col += step) {
      (void)columns.column_slab(col, std::min(step, 1500 - col));
    }
    (void)columns.column_slab(0, step);
    EXPECT_EQ(bits_of(columns.take_sample().scales), wanted) << step;
  }
}

TEST(SampledInputTest, ThreadsLookAtMatricesThatADeviceLetGo) {
  ScaleThreads threads(2);
  std::vector<CountingInput> matrices;
  matrices.reserve(21);  // inputs refer to them
  std::vector<std::unique_ptr<SampledInput>> inputs;
  for (int i = 0; i < 20; ++i) {
    matrices.push_back(noise(200 + i, 300, true));
  }
  for (CountingInput& matrix : matrices) {
    inputs.push_back(std::make_unique<SampledInput>(matrix, true, &threads));
    (void)inputs.back()->row_slab(0, 5);
    inputs.back()->release();
    inputs.back()->release();  // the job says it again
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TakenSample taken = inputs[i]->take_sample();
    EXPECT_TRUE(matrices[i].released);
    CountingInput again = noise(matrices[i].rows(), 300, true);
    SampledInput alone(again, true);
    (void)alone.row_slab(0, 5);
    alone.release();
    const TakenSample wanted = alone.take_sample();
    EXPECT_EQ(taken.weights, wanted.weights);
    EXPECT_EQ(bits_of(taken.scales), bits_of(wanted.scales));
  }
  matrices.push_back(noise(200, 300, true));
  SampledInput dropped(matrices.back(), true, &threads);  // its end waits for the thread
  (void)dropped.row_slab(0, 5);
  dropped.release();
}

TEST(DecodedScalesTest, EveryFormatGivesThoseOfTheWholeMatrix) {
  std::mt19937 random(8);
  const auto fill = [&](auto values, auto, auto) {
    for (std::uint8_t& value : values) {
      value = static_cast<std::uint8_t>(random());
    }
  };
  for (const decode::FormatRow& row : decode::format_rows()) {
    for (const decode::SampleShape& shape : decode::shapes_of(row, 40, 530, 16)) {
      SCOPED_TRACE(shape.encoding.label);
      const decode::EncodedSample sample(shape, 0, fill);
      const decode::EncodedMatrix& matrix = sample.matrix();
      std::vector<float> all(static_cast<std::size_t>(matrix.rows * matrix.cols));
      decode::decode_matrix(matrix, all.data(), matrix.cols);
      statistics::ScaleSums sums(matrix.rows * matrix.cols, 17);
      sums.add(0, all);
      const auto wanted = bits_of(sums.figures());
      EXPECT_EQ(bits_of(scales_of(matrix, 17)), wanted);
      SlabScales slabs(matrix.rows, matrix.cols, 17);
      const std::int64_t granularity = decode::column_granularity(*matrix.encoding);
      const std::int64_t cut = matrix.cols / 2 / granularity * granularity;
      if (cut > 0) {
        slabs.add(column_slab(matrix, 0, cut));
        slabs.add(column_slab(matrix, cut, matrix.cols - cut));
      } else {
        slabs.add(matrix);
      }
      EXPECT_TRUE(slabs.is_complete());
      EXPECT_EQ(bits_of(slabs.figures()), wanted);
    }
  }
}

TEST(SampledInputTest, HasNoneOfAMatrixThatWasNotSeen) {
  CountingInput inner(701, 500, false);
  SampledInput input(inner);
  (void)input.row_slab(0, 350);
  input.release();
  EXPECT_TRUE(input.take_sample().weights.empty());
  CountingInput unasked(701, 500, true);
  SampledInput idle(unasked);
  idle.release();  // its bytes may never arrive
  EXPECT_TRUE(idle.take_sample().weights.empty());
}

}  // namespace
}  // namespace vindex::commands::sampled_input_test
