// Sums of inner products on every back end, against float64 sums over the decoded weights: every
// encoding, any cut, any scale, columns with means, and vectors that are not finite.
#include "backend/inner_products.hpp"

#include "backend_fixture.hpp"

#include "core/process/stop.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encode/encode.hpp"
#include "decode/encode/encoded_sample.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <stop_token>
#include <thread>
#include <vector>

namespace vindex::test::inner_products_test {
namespace {

using decode::EncodedMatrix;

using Vectors = std::vector<std::vector<double>>;

std::vector<double> decoded(const EncodedMatrix& matrix) {
  std::vector<float> weights(static_cast<std::size_t>(matrix.rows * matrix.cols));
  decode::decode_matrix(matrix, weights.data(), matrix.cols);
  return {weights.begin(), weights.end()};
}

Vectors decoded_all(const std::vector<EncodedMatrix>& matrices) {
  Vectors out;
  for (const EncodedMatrix& matrix : matrices) {
    out.push_back(decoded(matrix));
  }
  return out;
}

/// |got - sum left_i right_j| within `allowed` |left_i| |right_j|; NaN and infinity of a vector are
/// its own.
void expect_products(const std::vector<double>& got, const Vectors& left, const Vectors& right,
                     double allowed) {
  ASSERT_EQ(got.size(), left.size() * right.size());
  const auto is_finite = [](const std::vector<double>& vector) {
    return std::all_of(vector.begin(), vector.end(), [](double x) { return std::isfinite(x); });
  };
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    long double sum = 0.0L;
    for (std::size_t k = 0; k < a.size(); ++k) {
      sum += static_cast<long double>(a[k]) * static_cast<long double>(b[k]);
    }
    return static_cast<double>(sum);
  };
  for (std::size_t i = 0; i < left.size(); ++i) {
    for (std::size_t j = 0; j < right.size(); ++j) {
      const double value = got[i * right.size() + j];
      if (!is_finite(left[i]) || !is_finite(right[j])) {
        EXPECT_FALSE(std::isfinite(value)) << i << ", " << j;
        continue;
      }
      const double scale = std::sqrt(dot(left[i], left[i])) * std::sqrt(dot(right[j], right[j]));
      EXPECT_LE(std::abs(value - dot(left[i], right[j])), allowed * scale)
          << i << ", " << j << ": " << value;
    }
  }
}

FloatMatrix noise(std::int64_t rows, std::int64_t cols, unsigned seed, double mean = 0.0) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(static_cast<float>(mean), 1.0F);
  FloatMatrix matrix{rows, cols, std::vector<float>(static_cast<std::size_t>(rows * cols))};
  for (float& value : matrix.values) {
    value = normal(random);
  }
  return matrix;
}

std::vector<FloatMatrix> noises(std::int64_t count, std::int64_t rows, std::int64_t cols,
                                unsigned seed) {
  std::vector<FloatMatrix> out;
  for (std::int64_t i = 0; i < count; ++i) {
    out.push_back(noise(rows, cols, seed + static_cast<unsigned>(i)));
  }
  return out;
}

std::vector<EncodedMatrix> views_of(const std::vector<FloatMatrix>& matrices) {
  std::vector<EncodedMatrix> out;
  for (const FloatMatrix& matrix : matrices) {
    out.push_back(as_encoded(matrix));
  }
  return out;
}

std::vector<EncodedMatrix> rows_of_all(const std::vector<EncodedMatrix>& matrices,
                                       std::int64_t first, std::int64_t count) {
  std::vector<EncodedMatrix> out;
  for (const EncodedMatrix& matrix : matrices) {
    out.push_back(matrix.encoding == nullptr ? matrix : decode::row_slab(matrix, first, count));
  }
  return out;
}

std::vector<double> sums_of(InnerProducts& products, const InnerProductShape& shape) {
  std::vector<double> out(static_cast<std::size_t>(shape.left * shape.columns()));
  products.read(out);
  return out;
}

class InnerProductsTest : public BackendTest {
 protected:
  std::vector<double> gram_of(const std::vector<EncodedMatrix>& matrices, std::int64_t cols,
                              std::int32_t threads = 1) {
    const InnerProductShape shape{
        .left = static_cast<std::int64_t>(matrices.size()), .cols = cols, .threads = threads};
    const auto products = backend_->inner_products(shape);
    products->add({.matrices = matrices});
    return sums_of(*products, shape);
  }
};

constexpr double kTypical = 1e-6;  ///< of |left| |right|; the bound is 2048 eps32

TEST_P(InnerProductsTest, EveryEncoding) {
  std::mt19937 random(11);
  const auto fill = [&](auto values, auto, auto) {
    for (std::uint8_t& value : values) {
      value = static_cast<std::uint8_t>(random());
    }
  };
  for (const decode::FormatRow& row : decode::format_rows()) {
    for (const decode::SampleShape& shape : decode::shapes_of(row, 19, 70, 16)) {
      SCOPED_TRACE(shape.encoding.label);
      std::vector<decode::EncodedSample> samples;
      for (int i = 0; i < 3; ++i) {
        samples.emplace_back(shape, 1, fill);
      }
      std::vector<EncodedMatrix> matrices;
      for (const decode::EncodedSample& sample : samples) {
        matrices.push_back(sample.matrix());
      }
      const Vectors vectors = decoded_all(matrices);
      expect_products(gram_of(matrices, shape.cols), vectors, vectors, kTypical);
    }
  }
}

TEST_P(InnerProductsTest, EncodingsSideBySide) {
  const FloatMatrix source = noise(8, 2304, 3);
  std::vector<std::vector<std::byte>> codes;
  std::vector<decode::Encoding> encodings;
  for (const auto type : {decode::ElementType::kF32, decode::ElementType::kBF16,
                          decode::ElementType::kQ8_0, decode::ElementType::kQ4_0}) {
    encodings.push_back(decode::plain_encoding(type));
  }
  std::vector<EncodedMatrix> matrices;
  for (const decode::Encoding& encoding : encodings) {
    const auto size = decode::encoded_size(encoding, source.rows, source.cols).value();
    codes.emplace_back(size.code_bytes);
    decode::encode_matrix(encoding, source.values.data(), source.rows, source.cols, source.cols,
                          codes.back(), {});
    matrices.push_back({.encoding = &encoding,
                        .rows = source.rows,
                        .cols = source.cols,
                        .codes = codes.back().data(),
                        .row_stride_bytes = static_cast<std::int64_t>(codes.back().size()) / 8});
  }
  const Vectors vectors = decoded_all(matrices);
  const std::vector<double> gram = gram_of(matrices, source.cols);
  expect_products(gram, vectors, vectors, kTypical);
  // A quantised copy is its original but for the rounding.
  const double cosine = gram[3] / std::sqrt(gram[0] * gram[15]);
  EXPECT_GT(cosine, 0.99);
  EXPECT_LT(cosine, 0.9999);
}

TEST_P(InnerProductsTest, TwoSidesOfDifferentCounts) {
  for (const std::int64_t cols : {3, 100, 1500, 2600}) {
    SCOPED_TRACE(cols);
    const auto left = noises(5, 7, cols, 20);
    const auto right = noises(2, 7, cols, 40);
    const auto left_views = views_of(left);
    const auto right_views = views_of(right);
    const InnerProductShape shape{.left = 5, .right = 2, .cols = cols};
    const auto products = backend_->inner_products(shape);
    products->add({.matrices = left_views}, {.matrices = right_views});
    expect_products(sums_of(*products, shape), decoded_all(left_views), decoded_all(right_views),
                    kTypical);
  }
}

TEST_P(InnerProductsTest, NoBitDependsOnTheCut) {
  for (const std::int64_t cols : {40, 700, 2100}) {
    SCOPED_TRACE(cols);
    const auto matrices = noises(4, 96, cols, 60);
    const auto views = views_of(matrices);
    const std::int64_t unit = inner_product_rows(*views[0].encoding, cols, false);
    const std::vector<double> whole = gram_of(views, cols);
    for (const std::int64_t step : {unit, 2 * unit, 3 * unit}) {
      const InnerProductShape shape{.left = 4, .cols = cols};
      const auto products = backend_->inner_products(shape);
      for (std::int64_t first = 0; first < 96; first += step) {
        const auto slab = rows_of_all(views, first, std::min<std::int64_t>(step, 96 - first));
        products->add({.matrices = slab});
      }
      EXPECT_EQ(sums_of(*products, shape), whole) << step;
    }
  }
}

TEST_P(InnerProductsTest, NoBitDependsOnThreads) {
  // Threads share blocks of few vectors, and tiles of many.
  for (const std::int64_t count : {std::int64_t{20}, std::int64_t{is_emulated() ? 30 : 530}}) {
    SCOPED_TRACE(count);
    const auto matrices = noises(count, 7, 1300, 90);
    const auto views = views_of(matrices);
    EXPECT_EQ(gram_of(views, 1300, 3), gram_of(views, 1300, 1));
  }
}

TEST_P(InnerProductsTest, AStopEndsEveryThreadOfASum) {
  const auto matrices = noises(6, 40, 1300, 90);
  const auto views = views_of(matrices);
  std::stop_source stop;
  const InnerProductShape shape{.left = 6, .cols = 1300, .threads = 3, .stop = stop.get_token()};
  const auto products = backend_->inner_products(shape);
  products->add({.matrices = views});
  stop.request_stop();
  EXPECT_THROW(products->add({.matrices = views}), Stopped);
}

TEST_P(InnerProductsTest, ColumnsLessTheirMeans) {
  const std::int64_t tokens = 1024 + 300;
  const FloatMatrix x = noise(tokens, 6, 100, 50.0);
  const FloatMatrix y = noise(tokens, 3, 101, -2.0);
  const std::vector<EncodedMatrix> views = {as_encoded(x), as_encoded(y)};
  const auto columns_of = [](const FloatMatrix& matrix, std::vector<double>& means) {
    Vectors out(static_cast<std::size_t>(matrix.cols));
    for (std::size_t j = 0; j < out.size(); ++j) {
      for (std::int64_t k = 0; k < matrix.rows; ++k) {
        out[j].push_back(
            static_cast<double>(matrix.values[static_cast<std::size_t>(k * matrix.cols) + j]));
        means[j] += out[j].back() / static_cast<double>(matrix.rows);
      }
      for (double& value : out[j]) {
        value -= means[j];
      }
    }
    return out;
  };
  std::vector<double> means_x(6);
  std::vector<double> means_y(3);
  const Vectors left = columns_of(x, means_x);
  const Vectors right = columns_of(y, means_y);
  const InnerProductShape shape{.left = 6, .right = 3};
  const InnerProductShape symmetric{.left = 6};
  const auto cross = backend_->inner_products(shape);
  const auto own = backend_->inner_products(symmetric);
  std::vector<double> whole;
  for (const std::int64_t step : {std::int64_t{1024}, tokens}) {
    const auto again = backend_->inner_products(shape);
    for (std::int64_t first = 0; first < tokens; first += step) {
      const std::int64_t rows = std::min(step, tokens - first);
      const std::vector<EncodedMatrix> slabs = rows_of_all(views, first, rows);
      const VectorSlab slab_x{
          .matrices = std::span(slabs).first(1), .columns = true, .means = means_x};
      const VectorSlab slab_y{
          .matrices = std::span(slabs).last(1), .columns = true, .means = means_y};
      again->add(slab_x, slab_y);
      if (step == 1024) {
        cross->add(slab_x, slab_y);
        own->add(slab_x);
      }
    }
    whole = sums_of(*again, shape);
  }
  const std::vector<double> sums = sums_of(*cross, shape);
  expect_products(sums, left, right, kTypical);
  EXPECT_EQ(sums, whole);  // cut anywhere at multiples of 1024
  expect_products(sums_of(*own, symmetric), left, left, kTypical);
}

TEST_P(InnerProductsTest, AMissingVectorIsZerosAndNobodyElseNotices) {
  const auto matrices = noises(4, 5, 64, 120);
  auto views = views_of(matrices);
  const std::vector<double> all = gram_of(views, 64);
  views[2] = {};
  const std::vector<double> without = gram_of(views, 64);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      const double wanted = i == 2 || j == 2 ? 0.0 : all[i * 4 + j];
      EXPECT_EQ(without[i * 4 + j], wanted) << i << ", " << j;
    }
  }
}

TEST_P(InnerProductsTest, ANonFiniteWeightSpoilsItsOwnVectorAlone) {
  auto matrices = noises(3, 4, 700, 130);
  matrices[1].values[900] = std::numeric_limits<float>::quiet_NaN();
  const auto views = views_of(matrices);
  const std::vector<double> gram = gram_of(views, 700);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      EXPECT_EQ(std::isfinite(gram[i * 3 + j]), i != 1 && j != 1) << i << ", " << j;
    }
  }
}

/// Squares of such weights are no float32.
TEST_P(InnerProductsTest, VeryLargeAndVerySmallVectors) {
  auto matrices = noises(4, 6, 300, 140);
  for (float& value : matrices[1].values) {
    value *= 1e-30F;
  }
  for (float& value : matrices[2].values) {
    value *= 1e30F;
  }
  for (float& value : matrices[3].values) {
    value = std::ldexp(value, -145);  // subnormal
  }
  const auto views = views_of(matrices);
  const Vectors vectors = decoded_all(views);
  expect_products(gram_of(views, 300), vectors, vectors, kTypical);
  const FloatMatrix columns = [&] {
    FloatMatrix out{1800, 4, {}};
    for (std::size_t k = 0; k < 1800; ++k) {
      for (const FloatMatrix& matrix : matrices) {
        out.values.push_back(matrix.values[k]);
      }
    }
    return out;
  }();
  const std::vector<EncodedMatrix> one = {as_encoded(columns)};
  const InnerProductShape shape{.left = 4};
  const auto products = backend_->inner_products(shape);
  products->add({.matrices = one, .columns = true});
  expect_products(sums_of(*products, shape), vectors, vectors, kTypical);
}

/// A constant vector: float32 sums of squares would drift.
TEST_P(InnerProductsTest, SumsOfSquaresAreFloat64) {
  FloatMatrix constant{64, 512, std::vector<float>(64 * 512, 0.1F)};
  const std::vector<EncodedMatrix> views = {as_encoded(constant)};
  const auto value = static_cast<double>(0.1F);
  EXPECT_NEAR(gram_of(views, 512)[0] / (64.0 * 512.0 * value * value), 1.0, 1e-13);
}

TEST_P(InnerProductsTest, SeveralAtOnce) {
  const auto matrices = noises(6, 9, 400, 160);
  const auto views = views_of(matrices);
  const std::vector<double> wanted = gram_of(views, 400);
  std::vector<std::vector<double>> got(3);
  {
    std::vector<std::jthread> threads;
    for (std::vector<double>& out : got) {
      threads.emplace_back([&] { out = gram_of(views, 400); });
    }
  }
  for (const std::vector<double>& one : got) {
    EXPECT_EQ(one, wanted);
  }
}

TEST_P(InnerProductsTest, WhatDoesNotFitIsRefused) {
  const auto matrices = noises(3, 4, 10, 170);
  const auto views = views_of(matrices);
  const auto products = backend_->inner_products({.left = 2, .cols = 10});
  EXPECT_ANY_THROW(products->add({.matrices = views}));
  const auto other = noises(2, 5, 10, 180);
  const auto other_views = views_of(other);
  const auto cross = backend_->inner_products({.left = 3, .right = 2, .cols = 10});
  EXPECT_ANY_THROW(cross->add({.matrices = views}, {.matrices = other_views}));
  EXPECT_ANY_THROW(cross->add({.matrices = views}));
  EXPECT_ANY_THROW(products->add({.matrices = other_views}, {.matrices = other_views}));
  std::vector<double> sums(4, 1.0);
  EXPECT_ANY_THROW(products->read(std::span(sums).first(3)));
  EXPECT_ANY_THROW(backend_->inner_products({.left = 0, .cols = 10}));
  products->read(sums);
  EXPECT_EQ(sums, std::vector<double>(4, 0.0)) << "nothing was added";
}

TEST_P(InnerProductsTest, MemoryIsToldBeforehand) {
  const InnerProductMemory small = backend_->inner_product_memory({.left = 8, .cols = 64});
  const InnerProductMemory large = backend_->inner_product_memory({.left = 384, .cols = 7168});
  EXPECT_GT(large.host + large.device, small.host + small.device);
  EXPECT_GE(large.host + large.device, 384U * 384U * sizeof(double));
  EXPECT_LT(large.host, 64U << 20U);
}

INSTANTIATE_TEST_SUITE_P(Backends, InnerProductsTest, every_backend(),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace vindex::test::inner_products_test
