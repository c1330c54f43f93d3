// Subspaces side by side: closed forms, rotations of a basis and of the room, random ones beside
// their null, and spectra whose first directions are no definite subspace.
#include "statistics/spectrum/subspace_overlap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <utility>
#include <vector>

namespace vindex::statistics::subspace_overlap_test {
namespace {

using Vectors = std::vector<float>;

constexpr double kDegree = std::numbers::pi / 180.0;

/// `count` orthonormal vectors of `length` numbers.
Vectors random_basis(std::int64_t count, std::int64_t length, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> basis;
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<double> v(static_cast<std::size_t>(length));
    for (double& x : v) {
      x = normal(random);
    }
    for (int pass = 0; pass < 2; ++pass) {
      for (const auto& other : basis) {
        double inner = 0.0;
        for (std::size_t k = 0; k < v.size(); ++k) {
          inner += v[k] * other[k];
        }
        for (std::size_t k = 0; k < v.size(); ++k) {
          v[k] -= inner * other[k];
        }
      }
    }
    double norm = 0.0;
    for (const double x : v) {
      norm += x * x;
    }
    for (double& x : v) {
      x /= std::sqrt(norm);
    }
    basis.push_back(v);
  }
  Vectors out;
  for (const auto& v : basis) {
    out.insert(out.end(), v.begin(), v.end());
  }
  return out;
}

/// Vector i leans by angles[i] from axis i towards axis i + 32 of 64.
Vectors leaning(const std::vector<double>& degrees) {
  Vectors out(degrees.size() * 64);
  for (std::size_t i = 0; i < degrees.size(); ++i) {
    out[i * 64 + i] = static_cast<float>(std::cos(degrees[i] * kDegree));
    out[i * 64 + 32 + i] = static_cast<float>(std::sin(degrees[i] * kDegree));
  }
  return out;
}

/// The same span by other vectors: `turn` is orthogonal.
Vectors turned(const Vectors& basis, const Vectors& turn, std::size_t count, std::size_t length) {
  Vectors out(basis.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < length; ++k) {
      double sum = 0.0;
      for (std::size_t j = 0; j < count; ++j) {
        sum += static_cast<double>(turn[i * count + j]) * basis[j * length + k];
      }
      out[i * length + k] = static_cast<float>(sum);
    }
  }
  return out;
}

TEST(SubspaceOverlapTest, AnglesThatWerePlantedAreFoundInOrder) {
  const std::vector<double> planted = {40.0, 0.001, 90.0, 15.0, 0.0, 89.99};
  const SubspaceOverlap found =
      *subspace_overlap(leaning(std::vector<double>(6, 0.0)), leaning(planted), 6, 64);
  const std::vector<double> wanted = {0.0, 0.001, 15.0, 40.0, 89.99, 90.0};
  double overlap = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    // Float32 vectors know an angle to 3e-6 degrees, wherever it lies.
    EXPECT_NEAR(found.angles[i], wanted[i], 5e-6) << i;
    overlap += std::pow(std::cos(wanted[i] * kDegree), 2) / 6.0;
  }
  EXPECT_NEAR(found.overlap, overlap, 1e-7);
}

TEST(SubspaceOverlapTest, ASubspaceIsItselfByAnyOfItsBases) {
  const Vectors basis = random_basis(7, 50, 1);
  const SubspaceOverlap same = *subspace_overlap(basis, basis, 7, 50);
  EXPECT_NEAR(same.overlap, 1.0, 1e-14);
  for (const double angle : same.angles) {
    EXPECT_NEAR(angle, 0.0, 1e-12);
  }
  const Vectors other = turned(basis, random_basis(7, 7, 2), 7, 50);
  const SubspaceOverlap by_another = *subspace_overlap(basis, other, 7, 50);
  EXPECT_NEAR(by_another.overlap, 1.0, 1e-6);
  EXPECT_LT(by_another.angles.back(), 3e-5);
}

TEST(SubspaceOverlapTest, RotationsOfBasesChangeNothingAndSidesMayChange) {
  const Vectors a = random_basis(5, 64, 3);
  const Vectors b = leaning({3, 20, 45, 70, 88});
  const SubspaceOverlap plain = *subspace_overlap(a, b, 5, 64);
  const SubspaceOverlap swapped = *subspace_overlap(b, a, 5, 64);
  const SubspaceOverlap rotated = *subspace_overlap(turned(a, random_basis(5, 5, 4), 5, 64),
                                                    turned(b, random_basis(5, 5, 5), 5, 64), 5, 64);
  EXPECT_NEAR(plain.overlap, swapped.overlap, 1e-12);
  EXPECT_NEAR(plain.overlap, rotated.overlap, 1e-6);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(plain.angles[i], swapped.angles[i], 1e-9);
    EXPECT_NEAR(plain.angles[i], rotated.angles[i], 1e-4);
    EXPECT_TRUE(i == 0 || plain.angles[i - 1] <= plain.angles[i]);
  }
}

TEST(SubspaceOverlapTest, RandomSubspacesOverlapAsTheNullSays) {
  constexpr int kDraws = 1000;
  unsigned seed = 100;
  for (const auto& [count, length] :
       {std::pair<std::int64_t, std::int64_t>{1, 20}, {4, 40}, {9, 12}}) {
    double sum = 0.0;
    double squares = 0.0;
    for (int draw = 0; draw < kDraws; ++draw) {
      const Vectors a = random_basis(count, length, seed++);
      const double overlap =
          subspace_overlap(a, random_basis(count, length, seed++), count, length)->overlap;
      sum += overlap;
      squares += overlap * overlap;
    }
    const double mean = sum / kDraws;
    const double deviation = std::sqrt(squares / kDraws - mean * mean);
    const OverlapNull null = subspace_overlap_null(count, length);
    EXPECT_DOUBLE_EQ(null.mean, static_cast<double>(count) / static_cast<double>(length));
    EXPECT_NEAR(mean, null.mean, 4.0 * null.deviation / std::sqrt(kDraws)) << count;
    EXPECT_NEAR(deviation / null.deviation, 1.0, 0.1) << count;
  }
}

TEST(SubspaceOverlapTest, NullsByHandAndWhereThereIsNoSubspace) {
  // A squared cosine of one direction in n has the law of Beta(1/2, (n - 1)/2).
  EXPECT_DOUBLE_EQ(subspace_overlap_null(1, 5).deviation, std::sqrt(2.0 * 4.0 / (25.0 * 7.0)));
  EXPECT_EQ(subspace_overlap_null(5, 5).mean, 1.0);
  EXPECT_EQ(subspace_overlap_null(5, 5).deviation, 0.0);
  EXPECT_EQ(subspace_overlap_null(1, 1).deviation, 0.0);
  for (const auto& [count, length] : {std::pair<std::int64_t, std::int64_t>{16, 8}, {0, 8}}) {
    EXPECT_TRUE(std::isnan(subspace_overlap_null(count, length).mean));
    EXPECT_TRUE(std::isnan(subspace_overlap_null(count, length).deviation));
  }
}

TEST(SubspaceOverlapTest, VectorsThatDependOnEachOtherSpanNothing) {
  Vectors twice = random_basis(3, 30, 8);
  std::copy_n(twice.begin(), 30, twice.begin() + 60);
  EXPECT_FALSE(subspace_overlap(twice, random_basis(3, 30, 9), 3, 30).has_value());
  EXPECT_FALSE(subspace_overlap(random_basis(3, 30, 9), twice, 3, 30).has_value());
  EXPECT_FALSE(subspace_overlap(Vectors(60), Vectors(60), 2, 30).has_value());
  twice[0] = std::nanf("");
  EXPECT_FALSE(subspace_overlap(twice, twice, 3, 30).has_value());
}

TEST(SubspaceOverlapTest, TheWholeRoomIsItself) {
  const SubspaceOverlap whole =
      *subspace_overlap(random_basis(9, 9, 6), random_basis(9, 9, 7), 9, 9);
  EXPECT_NEAR(whole.overlap, 1.0, 1e-12);
  EXPECT_LT(whole.angles.back(), 1e-5);
}

MatrixReport report_of(std::vector<double> sigma, std::int32_t found) {
  MatrixReport report;
  report.status = MatrixStatus::kMeasured;
  report.sigma = sigma;
  report.sigma_error = 1e-6 * sigma.front();
  SingularVectors vectors;
  vectors.count = found;
  for (std::int32_t i = 0; i < found; ++i) {
    vectors.sigma.push_back(sigma[static_cast<std::size_t>(i)]);
    vectors.residual.push_back(1e-7 * sigma.front());
    vectors.gap.push_back(1.0);
  }
  report.vectors = vectors;
  return report;
}

TEST(SubspaceOverlapTest, GapsSayWhatIsNoDefiniteSubspace) {
  const SubspaceGap wide = subspace_gap(report_of({5, 4, 2, 1}, 2), 2, 4);
  EXPECT_EQ(wide.relative, 0.5);
  EXPECT_EQ(wide.error, "");
  // Two values that are equal to what is known of them.
  const SubspaceGap close = subspace_gap(report_of({5, 4, 4.0 - 2e-6, 1}, 2), 2, 4);
  EXPECT_NEAR(close.relative, 5e-7, 1e-12);
  EXPECT_NE(close.error.find("values 2 and 3 differ by"), std::string::npos) << close.error;
  EXPECT_TRUE(close.is_found);  // they are singular vectors, though others would do as well
  // Fewer directions than asked for; values that are zero to what is known have any vectors.
  MatrixReport zeros = report_of({5, 1e-7, 1e-7, 1e-8}, 3);
  zeros.vectors->residual[2] = 5.0;
  const SubspaceGap one = subspace_gap(zeros, 3, 4);
  EXPECT_EQ(one.error, "1 singular value distinct from zero");
  EXPECT_TRUE(std::isnan(one.relative));
  EXPECT_FALSE(one.is_found);
  EXPECT_EQ(subspace_gap(zeros, 1, 4).error, "");
  EXPECT_EQ(subspace_gap(report_of({5, 0, 0, 0}, 1), 2, 4).error, "1 singular value above zero");
  EXPECT_EQ(subspace_gap(report_of({5, 4}, 2), 3, 2).error, "its short side is 2");
  // All there are: nothing they could be mixed up with.
  const SubspaceGap all = subspace_gap(report_of({5, 4}, 2), 2, 2);
  EXPECT_EQ(all.relative, 1.0);
  EXPECT_EQ(all.error, "");
}

}  // namespace
}  // namespace vindex::statistics::subspace_overlap_test
