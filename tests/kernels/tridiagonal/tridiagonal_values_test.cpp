// Eigenvalues of tridiagonal matrices against LAPACK's dsterf and by hand.
#include "kernels/tridiagonal/tridiagonal_values.hpp"

#include "tridiagonal_reference.hpp"

#include "tests/kernels/kernel_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vindex::test::tridiagonal_values_test {
namespace {

using kernels::ValueOrder;

struct Solved {
  std::vector<double> values;
  std::vector<int> failed;
};

class TridiagonalValues : public KernelTest {
 protected:
  Solved solve(const std::vector<Tridiagonal>& batch, ValueOrder order = ValueOrder::kAscending,
               std::int64_t rows_in_shared = kernels::kTridiagonalRowsInShared,
               bool in_float32 = false) {
    const std::size_t n = batch[0].diagonal.size();
    std::vector<double> diagonal;
    std::vector<double> off_diagonal;
    for (const Tridiagonal& matrix : batch) {
      diagonal.insert(diagonal.end(), matrix.diagonal.begin(), matrix.diagonal.end());
      off_diagonal.insert(off_diagonal.end(), matrix.off_diagonal.begin(),
                          matrix.off_diagonal.end());
    }
    // What lies behind the last off-diagonal is nobody's business.
    for (std::size_t i = n - 1; i < off_diagonal.size(); i += n) {
      off_diagonal[i] = std::numeric_limits<double>::quiet_NaN();
    }
    DeviceArray<double> device_diagonal(diagonal);
    DeviceArray<double> device_off(off_diagonal);
    DeviceArray<double> values(diagonal.size());
    DeviceArray<int> failed(batch.size());
    const auto find = in_float32 ? kernels::tridiagonal_values32 : kernels::tridiagonal_values;
    find(device_diagonal.data(), device_off.data(), static_cast<std::int64_t>(n),
         static_cast<std::int64_t>(batch.size()), order, values.data(), failed.data(), stream(),
         rows_in_shared);
    return {values.values(), failed.values()};
  }
  Solved solve32(const std::vector<Tridiagonal>& batch, ValueOrder order = ValueOrder::kAscending,
                 std::int64_t rows_in_shared = kernels::kTridiagonalRowsInShared) {
    return solve(batch, order, rows_in_shared, true);
  }
};

constexpr double kEps = std::numeric_limits<double>::epsilon();

TEST_P(TridiagonalValues, OfOrdersOneAndTwoAreRight) {
  const Solved one = solve({{{-3.25}, {0.0}}});
  EXPECT_NEAR(one.values[0], -3.25, 4 * kEps * 3.25);
  // [[2, 2], [2, -1]]: eigenvalues -2 and 3.
  const Solved two = solve({{{2.0, -1.0}, {2.0, 0.0}}});
  EXPECT_NEAR(two.values[0], -2.0, 12 * kEps);
  EXPECT_NEAR(two.values[1], 3.0, 12 * kEps);
  EXPECT_EQ(two.failed, std::vector<int>{0});
}

TEST_P(TridiagonalValues, AgreeWithLapackOnHardMatrices) {
  for (const std::int64_t n : {3, 16, 17, 32, 33, 100, 255, 300}) {
    if (GetParam() != 0 && n != 33 && n != 300) {
      continue;
    }
    std::vector<Tridiagonal> batch;
    const auto named = hard_tridiagonals(n, static_cast<std::uint64_t>(n));
    for (const NamedTridiagonal& one : named) {
      batch.push_back(one.matrix);
    }
    const Solved solved = solve(batch);
    for (std::size_t b = 0; b < batch.size(); ++b) {
      const std::vector<double> reference = values_of(batch[b]);
      const std::span<const double> got(solved.values.data() + b * static_cast<std::size_t>(n),
                                        static_cast<std::size_t>(n));
      // dsterf's own error grows with n.
      EXPECT_LE(largest_difference(got, reference),
                (8.0 + 0.1 * static_cast<double>(n)) * kEps * largest_magnitude(reference))
          << named[b].name << ", n = " << n;
      EXPECT_TRUE(std::is_sorted(got.begin(), got.end())) << named[b].name;
      EXPECT_EQ(solved.failed[b], 0);
    }
  }
}

TEST_P(TridiagonalValues, OfTheLaplaceMatrixAreKnown) {
  constexpr std::int64_t kN = 257;
  const Solved solved = solve({hard_tridiagonals(kN, 1)[1].matrix});
  for (std::int64_t i = 0; i < kN; ++i) {
    const double angle = M_PI * static_cast<double>(i + 1) / static_cast<double>(2 * (kN + 1));
    EXPECT_NEAR(solved.values[static_cast<std::size_t>(i)], 4.0 * std::sin(angle) * std::sin(angle),
                16 * kEps);
  }
}

TEST_P(TridiagonalValues, DescendingIsTheSameReversed) {
  const std::vector<Tridiagonal> batch = {hard_tridiagonals(45, 5)[0].matrix,
                                          hard_tridiagonals(45, 6)[0].matrix};
  const Solved up = solve(batch);
  const Solved down = solve(batch, ValueOrder::kDescending);
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t i = 0; i < 45; ++i) {
      EXPECT_EQ(up.values[b * 45 + i], down.values[b * 45 + 44 - i]);
    }
  }
}

TEST_P(TridiagonalValues, ScaleWithTheMatrix) {
  const Tridiagonal matrix = hard_tridiagonals(40, 9)[0].matrix;
  const Solved plain = solve({matrix});
  for (const int exponent : {-1000, -400, 400, 1000}) {
    Tridiagonal scaled = matrix;
    for (std::size_t i = 0; i < 40; ++i) {
      scaled.diagonal[i] = std::ldexp(scaled.diagonal[i], exponent);
      scaled.off_diagonal[i] = std::ldexp(scaled.off_diagonal[i], exponent);
    }
    const Solved solved = solve({scaled});
    for (std::size_t i = 0; i < 40; ++i) {
      EXPECT_EQ(solved.values[i], std::ldexp(plain.values[i], exponent)) << exponent;
    }
  }
}

TEST_P(TridiagonalValues, AZeroOrBrokenMatrixLeavesItsNeighboursAlone) {
  const Tridiagonal sound = hard_tridiagonals(70, 3)[0].matrix;
  const Tridiagonal zero = {std::vector<double>(70, 0.0), std::vector<double>(70, 0.0)};
  Tridiagonal broken = sound;
  broken.diagonal[69] = std::numeric_limits<double>::quiet_NaN();
  Tridiagonal endless = sound;
  endless.off_diagonal[0] = std::numeric_limits<double>::infinity();
  const Solved all = solve({broken, sound, zero, endless, sound});
  const Solved alone = solve({sound});
  EXPECT_EQ(all.failed, (std::vector<int>{1, 0, 0, 1, 0}));
  for (std::size_t i = 0; i < 70; ++i) {
    EXPECT_TRUE(std::isnan(all.values[i]));
    EXPECT_EQ(all.values[70 + i], alone.values[i]);
    EXPECT_EQ(all.values[140 + i], 0.0);
    EXPECT_TRUE(std::isnan(all.values[210 + i]));
    EXPECT_EQ(all.values[280 + i], alone.values[i]);
  }
}

// A matrix of more rows than shared memory holds passes through it in pieces.
TEST_P(TridiagonalValues, InPiecesHaveTheSameBits) {
  std::vector<Tridiagonal> batch;
  for (const NamedTridiagonal& one : hard_tridiagonals(275, 8)) {
    batch.push_back(one.matrix);
  }
  EXPECT_EQ(solve(batch, ValueOrder::kAscending, 64).values, solve(batch).values);
}

constexpr double kEps32 = std::numeric_limits<float>::epsilon();

TEST_P(TridiagonalValues, InFloat32AgreeWithLapackOnHardMatrices) {
  for (const std::int64_t n : {1, 2, 3, 16, 17, 33, 100, 300, 600}) {
    if (GetParam() != 0 && n != 33 && n != 300) {
      continue;
    }
    std::vector<Tridiagonal> batch;
    const auto named = hard_tridiagonals(n, static_cast<std::uint64_t>(n));
    for (const NamedTridiagonal& one : named) {
      batch.push_back(one.matrix);
    }
    const Solved solved = solve32(batch);
    for (std::size_t b = 0; b < batch.size(); ++b) {
      const std::vector<double> reference = values_of(batch[b]);
      const std::span<const double> got(solved.values.data() + b * static_cast<std::size_t>(n),
                                        static_cast<std::size_t>(n));
      EXPECT_LE(largest_difference(got, reference), kEps32 * largest_magnitude(reference))
          << named[b].name << ", n = " << n;
      EXPECT_TRUE(std::is_sorted(got.begin(), got.end())) << named[b].name;
      EXPECT_EQ(solved.failed[b], 0);
    }
  }
}

// What small values ask of spectra with large ones.
TEST_P(TridiagonalValues, InFloat32AreAsGoodAsTheRowsOfAGradedMatrix) {
  constexpr std::int64_t kN = 200;
  Tridiagonal graded;
  for (std::int64_t i = 0; i < kN; ++i) {
    const double size = std::pow(0.95, static_cast<double>(i));  // down to 4e-5
    graded.diagonal.push_back(static_cast<float>(size));
    graded.off_diagonal.push_back(i + 1 < kN ? static_cast<float>(0.3 * size) : 0.0);
  }
  const Solved got = solve32({graded});
  const std::vector<double> reference = values_of(graded);
  for (std::size_t i = 0; i < kN; ++i) {
    EXPECT_NEAR(got.values[i], reference[i], 4.0 * kEps32 * reference[i] + 0x1p-29) << i;
  }
}

TEST_P(TridiagonalValues, InFloat32HaveTheSameBitsHoweverTheyAreAskedFor) {
  std::vector<Tridiagonal> batch;
  for (const NamedTridiagonal& one : hard_tridiagonals(275, 8)) {
    batch.push_back(one.matrix);
  }
  const Solved up = solve32(batch);
  EXPECT_EQ(solve32(batch, ValueOrder::kAscending, 64).values, up.values);
  EXPECT_EQ(solve32({batch[3]}).values,
            std::vector<double>(up.values.begin() + 3 * 275, up.values.begin() + 4 * 275));
  std::vector<double> down = solve32({batch[3]}, ValueOrder::kDescending).values;
  std::reverse(down.begin(), down.end());
  EXPECT_EQ(down, solve32({batch[3]}).values);
  for (const int exponent : {-900, 900}) {
    Tridiagonal scaled = batch[0];
    for (std::size_t i = 0; i < scaled.diagonal.size(); ++i) {
      scaled.diagonal[i] = std::ldexp(scaled.diagonal[i], exponent);
      scaled.off_diagonal[i] = std::ldexp(scaled.off_diagonal[i], exponent);
    }
    const Solved solved = solve32({scaled});
    for (std::size_t i = 0; i < 275; ++i) {
      EXPECT_EQ(solved.values[i], std::ldexp(up.values[i], exponent)) << exponent;
    }
  }
}

TEST_P(TridiagonalValues, InFloat32AZeroOrBrokenMatrixLeavesItsNeighboursAlone) {
  const Tridiagonal sound = hard_tridiagonals(70, 3)[0].matrix;
  const Tridiagonal zero = {std::vector<double>(70, 0.0), std::vector<double>(70, 0.0)};
  Tridiagonal broken = sound;
  broken.diagonal[69] = std::numeric_limits<double>::quiet_NaN();
  Tridiagonal endless = sound;
  endless.off_diagonal[0] = -std::numeric_limits<double>::infinity();
  const Solved all = solve32({broken, sound, zero, endless});
  const Solved alone = solve32({sound});
  EXPECT_EQ(all.failed, (std::vector<int>{1, 0, 0, 1}));
  for (std::size_t i = 0; i < 70; ++i) {
    EXPECT_TRUE(std::isnan(all.values[i]));
    EXPECT_EQ(all.values[70 + i], alone.values[i]);
    EXPECT_EQ(all.values[140 + i], 0.0);
    EXPECT_TRUE(std::isnan(all.values[210 + i]));
  }
}

INSTANTIATE_THREAD_ORDERS(TridiagonalValues);

}  // namespace
}  // namespace vindex::test::tridiagonal_values_test
