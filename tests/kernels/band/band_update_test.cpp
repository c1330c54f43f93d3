// One pass over a trailing matrix against float64: A - V W^T - W V^T and its product with the next
// reflectors, as the two parts that the kernel hands on.
#include "kernels/band/band_update.hpp"

#include "kernels/band/trailing_pass.hpp"
#include "tests/kernels/kernel_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace vindex::test::band_update_test {
namespace {

using kernels::BandArithmetic;
using kernels::kBand;
using kernels::kFactorStride;

/// Entries of magnitude about one, and what each row and column of A, V and W is multiplied by.
struct Operands {
  std::string name;
  std::function<double(std::mt19937_64&)> entry;
  double matrix_scale = 1.0;
  double pending_scale = 1.0;
};

double gaussian(std::mt19937_64& generator) {
  return std::normal_distribution<double>()(generator);
}

std::vector<Operands> kinds_of_operands() {
  const auto heavy = [](std::mt19937_64& generator) {
    const double value = 0.1 * std::student_t_distribution<double>(3.0)(generator);
    return std::uniform_real_distribution<double>()(generator) < 0.01 ? 30.0 * value : value;
  };
  const auto graded = [](std::mt19937_64& generator) {
    return gaussian(generator) *
           std::exp2(-20.0 * std::uniform_real_distribution<double>()(generator));
  };
  const auto spiked = [](std::mt19937_64& generator) {
    return gaussian(generator) *
           (std::uniform_real_distribution<double>()(generator) < 0.03 ? 1.0 : 1e-3);
  };
  return {{"noise", gaussian},
          {"heavy tails", heavy},
          {"graded", graded},
          {"spiked", spiked},
          // The norm of a matrix whose diagonal is below 1 is at most its order, 8192.
          {"largest norm", gaussian, 0x1p11, 0x1p15},
          {"small", gaussian, 0x1p-6, 0x1p-8}};
}

/// Largest and root mean square error in units of 2^-24 of what the terms would add up to if they
/// were all of one sign.
struct Errors {
  double largest = 0.0;
  double squares = 0.0;
  double count = 0.0;
  void add(double got, double wanted, double magnitude) {
    const double error = std::abs(got - wanted) / magnitude * 0x1p24;
    largest = error <= largest ? largest : error;  // keeps not-a-number
    squares += error * error;
    count += 1.0;
  }
  double mean() const { return std::sqrt(squares / count); }
};

class BandUpdate : public KernelTest {
 protected:
  struct Outcome {
    Errors matrix;   ///< of the updated matrix
    Errors product;  ///< of its product with V
  };

  /// Three strips of two blocks, the last of one.
  Outcome run(const Operands& kind, BandArithmetic arithmetic) {
    constexpr std::int64_t kRows = 5 * kBand;
    constexpr std::int64_t kOrder = kRows + 2 * kBand;
    constexpr std::int64_t kStart = kOrder - kRows;
    constexpr std::int64_t kStrip = 2 * kBand;
    std::mt19937_64 generator(17);
    const auto fill = [&](std::vector<float>& values, double scale) {
      for (float& value : values) {
        value = static_cast<float>(kind.entry(generator) * scale);
      }
    };
    std::vector<float> matrix(kOrder * kOrder);
    fill(matrix, kind.matrix_scale);
    for (std::int64_t i = 0; i < kOrder; ++i) {
      for (std::int64_t j = 0; j < i; ++j) {
        matrix[static_cast<std::size_t>(j * kOrder + i)] =
            matrix[static_cast<std::size_t>(i * kOrder + j)];
      }
    }
    std::vector<float> pending(kOrder * kFactorStride);
    std::vector<float> factors(kOrder * kFactorStride);
    const double reflector_scale = 0.2;  // reflectors have a norm of at most the root of two
    fill(pending, reflector_scale);
    fill(factors, reflector_scale);
    for (std::size_t i = 0; i < pending.size(); ++i) {
      const bool is_w = i % kFactorStride / kBand == 1;
      pending[i] = is_w ? static_cast<float>(pending[i] * kind.pending_scale)
                        : std::clamp(pending[i], -1.0F, 1.0F);
      factors[i] = std::clamp(factors[i], -1.0F, 1.0F);
    }

    float bound = 0.0F;
    for (std::size_t i = 0; i < pending.size(); ++i) {
      bound = i % kFactorStride / kBand == 1 ? std::max(bound, std::abs(pending[i])) : bound;
    }
    DeviceArray<float> bounds(std::vector<float>{bound});
    DeviceArray<float> device_matrix(matrix);
    DeviceArray<float> device_pending(pending);
    DeviceArray<float> device_factors(factors);
    // What is not written must not be read: not a number, and no uninitialised memory to copy.
    const auto poisoned = [](std::int64_t count) {
      return std::vector<float>(static_cast<std::size_t>(count),
                                std::numeric_limits<float>::quiet_NaN());
    };
    DeviceArray<float> products(poisoned(kOrder * kBand));
    DeviceArray<float> partials(poisoned(kernels::partial_elements(kOrder, kStrip)));
    kernels::update_and_multiply(
        kernels::TrailingPass<float>{device_matrix.data(), device_pending.data(), bounds.data(),
                                     device_factors.data(), products.data(), partials.data(),
                                     kOrder, kStart, kRows, kStrip, 1},
        arithmetic, stream());
    const std::vector<float> updated = device_matrix.values();
    const std::vector<float> rows_part = products.values();
    const std::vector<float> columns_part = partials.values();

    const auto at = [&](const std::vector<float>& from, std::int64_t i, std::int64_t j) {
      return static_cast<double>(
          from[static_cast<std::size_t>((kStart + i) * kOrder + kStart + j)]);
    };
    Outcome out;
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        double wanted = at(matrix, i, j);
        double magnitude = std::abs(wanted);
        const auto pair = [&](std::int64_t row, std::int64_t k) {
          return static_cast<double>(
              pending[static_cast<std::size_t>((row + kBand) * kFactorStride + k)]);
        };
        for (std::int64_t k = 0; k < kBand; ++k) {
          const double one = pair(i, k) * pair(j, kBand + k);
          const double other = pair(i, kBand + k) * pair(j, k);
          wanted -= one + other;
          magnitude += std::abs(one) + std::abs(other);
        }
        out.matrix.add(at(updated, i, j), wanted, magnitude);
      }
    }
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t column = 0; column < kBand; ++column) {
        double wanted = 0.0;
        double magnitude = 0.0;
        for (std::int64_t j = 0; j < kRows; ++j) {
          const double term =
              at(updated, std::max(i, j), std::min(i, j)) *
              static_cast<double>(factors[static_cast<std::size_t>(j * kFactorStride + column)]);
          wanted += term;
          magnitude += std::abs(term);
        }
        double got = static_cast<double>(rows_part[static_cast<std::size_t>(i * kBand + column)]);
        const std::int64_t block = i / kBand * kBand;
        for (std::int64_t strip = i / kStrip; strip * kStrip < kRows; ++strip) {
          if (block + kBand < std::min((strip + 1) * kStrip, kRows)) {
            got += static_cast<double>(
                columns_part[static_cast<std::size_t>((strip * kOrder + i) * kBand + column)]);
          }
        }
        out.product.add(got, wanted, magnitude);
      }
    }
    return out;
  }
};

TEST_P(BandUpdate, IsRightToAFewUnitsInTheLastPlace) {
  for (const BandArithmetic arithmetic : {BandArithmetic::kPlain, BandArithmetic::kTensor}) {
    const bool is_tensor = arithmetic == BandArithmetic::kTensor;
    if (!is_tried(is_tensor ? "tensor" : "plain")) {
      continue;
    }
    for (const Operands& kind : kinds_of_operands()) {
      const Outcome out = run(kind, arithmetic);
      const std::string name = kind.name + (is_tensor ? ", tensor" : ", plain");
      RecordProperty(
          name, std::to_string(out.matrix.largest) + " " + std::to_string(out.matrix.mean()) + " " +
                    std::to_string(out.product.largest) + " " + std::to_string(out.product.mean()));
      const double allowed = is_tensor ? 10.0 : 16.0;
      EXPECT_LE(out.matrix.largest, allowed) << name;
      EXPECT_LE(out.matrix.mean(), allowed / 8.0) << name;
      EXPECT_LE(out.product.largest, allowed) << name;
      EXPECT_LE(out.product.mean(), allowed / 8.0) << name;
    }
  }
}

INSTANTIATE_THREAD_ORDERS(BandUpdate);

}  // namespace
}  // namespace vindex::test::band_update_test
