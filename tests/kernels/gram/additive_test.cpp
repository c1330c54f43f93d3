// The part of a Gram matrix whose entries are a_i + a_j (statistics::GramNorms), as a device finds
// it.
#include "kernels/gram/symmetric.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include "tests/kernels/tridiagonal/symmetric_matrices.hpp"

#include <cmath>
#include <numeric>

namespace vindex::test::additive_test {
namespace {

class Additive : public KernelTest {
 protected:
  std::vector<double> sums_of(const std::vector<SymmetricMatrix>& matrices, std::int64_t leading) {
    std::vector<float> all;
    for (const SymmetricMatrix& matrix : matrices) {
      const std::vector<float> one = matrix.padded<float>(leading);
      all.insert(all.end(), one.begin(), one.end());
    }
    const auto batch = static_cast<std::int64_t>(matrices.size());
    DeviceArray<float> device(all);
    DeviceArray<double> parts(static_cast<std::size_t>(batch * kernels::kAdditiveParts));
    kernels::add_additive(device.data(), matrices.front().order, leading, batch, parts.data(),
                          stream());
    const std::vector<double> got = parts.values();
    std::vector<double> sums;
    for (std::int64_t i = 0; i < batch; ++i) {
      const auto first = got.begin() + i * kernels::kAdditiveParts;
      sums.push_back(std::accumulate(first, first + kernels::kAdditiveParts, 0.0));
    }
    return sums;
  }
};

double off_diagonal(const SymmetricMatrix& matrix) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < matrix.order; ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      sum += 2.0 * matrix.at(i, j) * matrix.at(i, j);
    }
  }
  return sum;
}

TEST_P(Additive, SumsOfLinesCountAndNoiseDoesNot) {
  constexpr std::int64_t kP = 300;
  SymmetricMatrix sums(kP), smaller(kP), zero(kP);
  for (std::int64_t i = 0; i < kP; ++i) {
    for (std::int64_t j = 0; j < kP; ++j) {
      sums.at(i, j) =
          std::sin(0.1 * static_cast<double>(i)) + std::sin(0.1 * static_cast<double>(j));
      // As those of Kahan's triangles.
      smaller.at(i, j) = std::pow(0.99, static_cast<double>(std::min(i, j)));
    }
  }
  const SymmetricMatrix noise = gaussian_gram(kP, 2 * kP, 1.0, 3);
  const std::vector<double> got = sums_of({sums, noise, smaller, zero}, 320);
  EXPECT_NEAR(got[0], off_diagonal(sums), 0.1 * off_diagonal(sums));
  EXPECT_LT(got[1], 1e-9 * off_diagonal(noise));
  EXPECT_NEAR(got[2], off_diagonal(smaller), 0.1 * off_diagonal(smaller));
  EXPECT_EQ(got[3], 0.0);
  EXPECT_EQ(sums_of({smaller}, 320)[0], got[2]) << "the same bits alone";
  EXPECT_EQ(sums_of({SymmetricMatrix(1)}, 32)[0], 0.0);
  EXPECT_EQ(sums_of({SymmetricMatrix(3)}, 32)[0], 0.0);
}

INSTANTIATE_THREAD_ORDERS(Additive);

}  // namespace
}  // namespace vindex::test::additive_test
