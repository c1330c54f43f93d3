// How exact the Gram matrix is where nothing is exact by construction: the loss of tensor cores
// that cut what they add, as the emulation does, and what it does to the share of the largest
// values. The diagonal is rounded once, whatever is cut elsewhere.
#include "gram_fixture.hpp"

#include <lapacke.h>

#include <numeric>

namespace vindex::test::gram_accuracy_test {
namespace {

using decode::ElementType;
using kernels::ProductKernel;

class GramAccuracy : public KernelTest {};

constexpr std::int64_t kRows = 1024;
constexpr std::int64_t kCols = 128;

/// Ascending eigenvalues of p x p `symmetric`.
std::vector<double> eigenvalues(std::vector<double> symmetric, std::int64_t p) {
  std::vector<double> values(static_cast<std::size_t>(p));
  const auto n = static_cast<lapack_int>(p);
  const lapack_int room = 64 * n;
  std::vector<double> work(static_cast<std::size_t>(room));
  lapack_int info = 0;
  LAPACK_dsyev("N", "L", &n, symmetric.data(), &n, values.data(), work.data(), &room, &info);
  EXPECT_EQ(info, 0);
  return values;
}

/// Share of the largest `count` of ascending `values` in `total`.
double share(const std::vector<double>& values, std::int64_t count, double total) {
  return std::accumulate(values.end() - count, values.end(), 0.0) / total;
}

struct Loss {
  double diagonal;  ///< mean of (g_ii - exact) / exact
  double worst;     ///< largest of abs(g_ii - exact) / exact
  double share;     ///< relative, of the 8 largest values in the sum of squares
};

Loss loss_of(const HostMatrix& matrix, ProductKernel kernel, cudaStream_t stream) {
  const std::vector<double> exact = matrix.gram();
  const Grams grams = form({&matrix}, kernel, stream);
  std::vector<double> got(exact.size());
  Loss loss{0.0, 0.0, 0.0};
  for (std::int64_t i = 0; i < kCols; ++i) {
    for (std::int64_t j = 0; j < kCols; ++j) {
      got[static_cast<std::size_t>(i * kCols + j)] = grams.entry(0, i, j);
    }
    const double error =
        grams.entry(0, i, i) / exact[static_cast<std::size_t>(i * kCols + i)] - 1.0;
    loss.diagonal += error / static_cast<double>(kCols);
    loss.worst = std::max(loss.worst, std::abs(error));
  }
  const double total = kernels::moments_of(grams.facts[0]).sum_squares;
  loss.share =
      share(eigenvalues(got, kCols), 8, total) / share(eigenvalues(exact, kCols), 8, total) - 1.0;
  return loss;
}

/// Noise, and noise with one strong direction: what cuts a diagonal cuts a common part as well.
std::vector<HostMatrix::Weight> weights() {
  const auto noise = gaussian(41);
  const auto common = gaussian(42, 0.05F);
  std::vector<float> line(static_cast<std::size_t>(kRows));
  std::generate(line.begin(), line.end(), [&] { return common(0, 0); });
  return {noise, [noise, line](std::int64_t row, std::int64_t col) {
            return line[static_cast<std::size_t>(row)] + noise(row, col);
          }};
}

/// `unrounded`: what the Gram matrix is made of and decoded weights differ by, relative.
void expect_small_loss(const decode::Encoding& encoding, ProductKernel kernel, cudaStream_t stream,
                       double unrounded = 0.0) {
  for (const HostMatrix::Weight& weight : weights()) {
    const Loss loss = loss_of(HostMatrix::encoded(encoding, kRows, kCols, weight), kernel, stream);
    EXPECT_LE(std::abs(loss.diagonal), 1e-8) << encoding.label;
    EXPECT_LE(loss.worst, 0x1p-24 * 1.000001 + 2 * unrounded) << encoding.label;
    EXPECT_LE(std::abs(loss.share), 1e-7) << encoding.label;
  }
}

TEST_P(GramAccuracy, Fp8) {
  expect_small_loss(decode::fp8_block_encoding(128, 128), ProductKernel::kWarp, stream(), 0x1p-24);
}
TEST_P(GramAccuracy, Bfloat16) {
  expect_small_loss(decode::plain_encoding(ElementType::kBF16), ProductKernel::kWarp, stream());
}
TEST_P(GramAccuracy, Half) {
  expect_small_loss(decode::plain_encoding(ElementType::kF16), ProductKernel::kWarp, stream());
}
TEST_P(GramAccuracy, FourBitIntegers) {
  expect_small_loss(decode::packed_int_encoding(4, 32), ProductKernel::kWarp, stream());
}
TEST_P(GramAccuracy, Pairs) {
  expect_small_loss(decode::plain_encoding(ElementType::kF32), ProductKernel::kWarp, stream());
}

INSTANTIATE_TEST_SUITE_P(Order, GramAccuracy, ::testing::Values(0ULL));

}  // namespace
}  // namespace vindex::test::gram_accuracy_test
