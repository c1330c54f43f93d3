// W diag(d) as an input: the same weights whatever the storage and whichever slab is asked for, and
// on every back end the spectrum of the product worked out beforehand.
#include "backend_fixture.hpp"

#include "backend/derived_input.hpp"
#include "decode/encode/encode.hpp"
#include "tests/support/encoded_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <span>

namespace vindex::test::scaled_input_test {
namespace {

using decode::ElementType;
using decode::Encoding;

/// `matrix` in `encoding`, and what it decodes to.
struct Stored : testing::EncodedWeights {
  Stored(const FloatMatrix& matrix, const Encoding& wanted)
      : EncodedWeights(testing::encoded_weights(wanted, matrix.rows, matrix.cols, matrix.values)),
        view(EncodedWeights::view()),
        decoded{rows, cols, weights()} {}
  Stored(const Stored&) = delete;

  decode::EncodedMatrix view;
  FloatMatrix decoded;
};

std::vector<Encoding> encodings() {
  return {decode::plain_encoding(ElementType::kF32),  decode::plain_encoding(ElementType::kBF16),
          decode::plain_encoding(ElementType::kQ8_0), decode::fp8_block_encoding(128, 128),
          decode::fp8_block_encoding(160, 384),  // one scale for all
          decode::packed_int_encoding(4, 32)};
}

std::vector<double> some_scale(std::int64_t count) {
  std::mt19937 random(7);
  std::vector<double> scale;
  for (std::int64_t i = 0; i < count; ++i) {
    scale.push_back(std::exp(static_cast<double>(random()) / 1.5e9) - 0.9);
  }
  scale[3] = 0.0;  // an input that is never used
  return scale;
}

/// The definition: every weight times its column's factor in float64, rounded once.
FloatMatrix scaled(const FloatMatrix& matrix, const std::vector<double>& scale, bool turned) {
  FloatMatrix out = matrix;
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    for (std::int64_t c = 0; c < matrix.cols; ++c) {
      out.at(r, c) = static_cast<float>(static_cast<double>(matrix.at(r, c)) *
                                        scale[static_cast<std::size_t>(turned ? r : c)]);
    }
  }
  return out;
}

TEST(ScaledInput, EverySlabHoldsTheBitsOfTheProduct) {
  const FloatMatrix matrix = gaussian_matrix(160, 384, 3);
  for (const Encoding& encoding : encodings()) {
    const Stored stored(matrix, encoding);
    for (const bool turned : {false, true}) {
      SCOPED_TRACE(encoding.label + (turned ? " turned" : ""));
      const std::vector<double> scale = some_scale(turned ? 160 : 384);
      const FloatMatrix wanted = scaled(stored.decoded, scale, turned);
      const auto input = make_scaled_input(make_memory_input(stored.view, turned, 5), scale);
      EXPECT_EQ(input->encoding().label, "F32");
      EXPECT_EQ(input->transposed(), turned);
      EXPECT_EQ(input->sign_flip_key(), 5U);
      const auto expect_bits = [&](const decode::EncodedMatrix& slab) {
        std::vector<float> values(static_cast<std::size_t>(slab.rows * slab.cols));
        decode::decode_matrix(slab, values.data(), slab.cols);
        for (std::int64_t r = 0; r < slab.rows; ++r) {
          for (std::int64_t c = 0; c < slab.cols; ++c) {
            ASSERT_EQ(values[static_cast<std::size_t>(r * slab.cols + c)],
                      wanted.at(slab.first_row + r, slab.first_col + c));
          }
        }
      };
      for (const auto& [first, count] : {std::pair{0, 160}, {0, 1}, {7, 100}, {128, 32}}) {
        const auto slab = input->row_slab(first, count);
        ASSERT_EQ(slab.rows, count);
        ASSERT_EQ(slab.first_row, first);
        expect_bits(slab);
        expect_bits(decode::row_slab(slab, count / 2, count - count / 2));
      }
      input->release();
      for (const auto& [first, count] : {std::pair{0, 384}, {1, 1}, {37, 300}, {256, 128}}) {
        const auto slab = input->column_slab(first, count);
        ASSERT_EQ(slab.cols, count);
        ASSERT_EQ(slab.first_col, first);
        expect_bits(slab);
        expect_bits(decode::column_slab(slab, count / 3, count - count / 3));
      }
    }
  }
}

/// Passes slabs on and counts the weights that it is asked for.
class CountingInput final : public MatrixInput {
 public:
  CountingInput(std::unique_ptr<MatrixInput> inner, std::int64_t& most)
      : inner_(std::move(inner)), most_(most) {}
  const Encoding& encoding() const override { return inner_->encoding(); }
  std::int64_t rows() const override { return inner_->rows(); }
  std::int64_t cols() const override { return inner_->cols(); }
  bool transposed() const override { return inner_->transposed(); }
  std::uint64_t sign_flip_key() const override { return inner_->sign_flip_key(); }
  bool in_memory() const override { return inner_->in_memory(); }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    most_ = std::max(most_, count * cols());
    return inner_->row_slab(first, count);
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    most_ = std::max(most_, count * rows());
    return inner_->column_slab(first, count);
  }

 private:
  std::unique_ptr<MatrixInput> inner_;
  std::int64_t& most_;
};

// One scale for the whole tensor: its block is the matrix, and a slab is a slab all the same.
TEST(ScaledInput, ASlabOfRowsReadsThoseRows) {
  const FloatMatrix matrix = gaussian_matrix(160, 384, 3);
  for (const Encoding& encoding : encodings()) {
    const Stored stored(matrix, encoding);
    std::int64_t most = 0;
    const auto input = make_scaled_input(
        std::make_unique<CountingInput>(make_memory_input(stored.view), most), some_scale(384));
    (void)input->row_slab(13, 10);
    EXPECT_EQ(most, 10 * 384) << encoding.label;
  }
}

TEST(ScaledInput, ASlabTakesNoMoreThanSaid) {
  EXPECT_EQ(scaled_slab_bytes(10, 20), 800U);
  const std::uint64_t wide = scaled_slab_bytes(2048, 7168);
  EXPECT_GE(wide, (32ULL << 20U));
  EXPECT_LE(wide, 4ULL * 2048 * 7168);
}

class ScaledSpectrum : public BackendTest {};

TEST_P(ScaledSpectrum, IsThatOfTheProductInEveryStorage) {
  for (const auto& [rows, cols] : {std::pair{150, 64}, {48, 256}}) {
    const FloatMatrix matrix = gaussian_matrix(rows, cols, 11);
    for (const Encoding& encoding : encodings()) {
      const Stored stored(matrix, encoding);
      for (const bool turned : {false, true}) {
        SCOPED_TRACE(encoding.label + " " + std::to_string(rows) + (turned ? " turned" : ""));
        const std::vector<double> scale = some_scale(turned ? rows : cols);
        const FloatMatrix product = scaled(stored.decoded, scale, turned);
        MeasureOptions options = with_mode(SpectrumMode::kStrict);
        options.sign_flip_draws = 1;
        const auto input = make_scaled_input(make_memory_input(stored.view, turned, 9), scale);
        MatrixInput* const batch[] = {input.get()};
        std::vector<MatrixReport> reports(1);
        backend_->measure(batch, options, 0, reports);
        ASSERT_EQ(reports[0].status, MatrixStatus::kMeasured) << reports[0].reason;
        const auto reference = reference_singular_values(product);
        ASSERT_EQ(reports[0].sigma.size(), reference.size());
        for (std::size_t i = 0; i < reference.size(); ++i) {
          EXPECT_NEAR(reports[0].sigma[i], reference[i], 1e-10 * reference[0]) << i;
        }
        // The sign flip of W D is that of W times D: the product's own, by the same key.
        const auto dense = measure_floats(product, options, 0, turned, 9);
        ASSERT_TRUE(dense.sign_flip && reports[0].sign_flip);
        const std::vector<double>& flipped = reports[0].sign_flip->first_sigma;
        const std::vector<double>& wanted = dense.sign_flip->first_sigma;
        ASSERT_EQ(wanted.size(), flipped.size());
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          EXPECT_NEAR(flipped[i], wanted[i], 1e-10 * wanted[0]);
        }
        EXPECT_EQ(reports[0].moments.sum_squares, dense.moments.sum_squares);
      }
    }
    if (is_emulated()) {
      break;
    }
  }
}

TEST_P(ScaledSpectrum, OfABatchBelongsToItsMatrices) {
  std::vector<std::unique_ptr<Stored>> stored;
  std::vector<std::unique_ptr<MatrixInput>> inputs;
  std::vector<MatrixInput*> batch;
  std::vector<double> first;
  for (std::uint64_t i = 0; i < 10; ++i) {  // more than a back end holds at a time
    stored.push_back(std::make_unique<Stored>(gaussian_matrix(16, 32, 100 + i),
                                              decode::plain_encoding(ElementType::kBF16)));
    std::vector<double> scale(32, 1.0);
    scale[i] = 1000.0;
    first.push_back(reference_singular_values(scaled(stored[i]->decoded, scale, false))[0]);
    inputs.push_back(make_scaled_input(make_memory_input(stored[i]->view), scale));
    batch.push_back(inputs.back().get());
  }
  std::vector<MatrixReport> reports(batch.size());
  backend_->measure(batch, {}, 0, reports);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    ASSERT_EQ(reports[i].status, MatrixStatus::kMeasured) << reports[i].reason;
    EXPECT_NEAR(reports[i].sigma[0], first[i], 1e-4 * first[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ScaledSpectrum, every_backend(),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace vindex::test::scaled_input_test
