// Float64 Gram matrices by int8 products: exact where they promise it, else as good as float64.
#include "kernels/gram/codes/sliced_gram.hpp"

#include "tests/kernels/kernel_fixture.hpp"

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace vindex::test::sliced_gram_test {
namespace {

using Weights = std::vector<double>;

class SlicedGram : public KernelTest {
 protected:
  /// The lower triangle, column-major [p][leading], in slabs of `slab` steps.
  std::vector<double> form(const Weights& weights, std::int64_t length, std::int64_t p,
                           bool over_rows, std::int64_t slab, std::int64_t leading,
                           std::int64_t segment_chunks = 128) {
    DeviceArray<double> on_device(weights);
    DeviceArray<double> gram(std::vector<double>(static_cast<std::size_t>(p * leading), -7.0));
    DeviceArray<std::byte> workspace(kernels::sliced_gram_bytes(p, slab));
    for (std::int64_t first = 0; first < length; first += slab) {
      kernels::add_sliced_gram({.slab = on_device.data() + first * p,
                                .over_rows = over_rows,
                                .length = std::min(slab, length - first),
                                .p = p,
                                .first = first == 0,
                                .leading = leading,
                                .gram = gram.data(),
                                .segment_chunks = segment_chunks},
                               workspace.data(), stream());
    }
    return gram.values();
  }
};

/// length x p where rows are contracted, else p x length.
Weights weights_of(std::int64_t length, std::int64_t p, bool over_rows,
                   const std::function<float(std::int64_t line, std::int64_t step)>& weight) {
  Weights out(static_cast<std::size_t>(length * p));
  for (std::int64_t line = 0; line < p; ++line) {
    for (std::int64_t step = 0; step < length; ++step) {
      out[static_cast<std::size_t>(over_rows ? step * p + line : line * length + step)] =
          static_cast<double>(weight(line, step));
    }
  }
  return out;
}

long double product(const Weights& weights, std::int64_t length, std::int64_t p, bool over_rows,
                    std::int64_t a, std::int64_t b) {
  long double sum = 0.0L;
  for (std::int64_t step = 0; step < length; ++step) {
    const auto at = [&](std::int64_t line) {
      return static_cast<long double>(
          weights[static_cast<std::size_t>(over_rows ? step * p + line : line * length + step)]);
    };
    sum += at(a) * at(b);
  }
  return sum;
}

/// Integers as E4M3 codes are, below 2^18, times a bfloat16 scale: float64 holds every sum.
TEST_P(SlicedGram, CodesUnderAScaleAreExact) {
  std::mt19937 random(3);
  for (const bool over_rows : {true, false}) {
    for (const auto& [length, p] : {std::pair{100, 130}, {1, 3}}) {
      const std::int64_t leading = p + 5;
      const Weights weights =
          weights_of(length, p, over_rows, [&](std::int64_t line, std::int64_t) {
            const auto bits = static_cast<std::uint32_t>(random());
            const int units = static_cast<int>(8 + bits % 8) << (bits >> 8U) % 15U;
            const float scale = line % 2 == 0 ? 0x1.54p-20F : 0x1.8p+90F;
            return (bits >> 30U == 0 ? -1.0F : 1.0F) * static_cast<float>(units) * scale;
          });
      const std::vector<double> got = form(weights, length, p, over_rows, length, leading);
      for (std::int64_t col = 0; col < p; ++col) {
        for (std::int64_t row = 0; row < leading; ++row) {
          const double one = got[static_cast<std::size_t>(col * leading + row)];
          if (row < col || row >= p) {
            EXPECT_EQ(one, -7.0) << "what is not of the lower triangle stays";
            continue;
          }
          EXPECT_EQ(one, static_cast<double>(product(weights, length, p, over_rows, row, col)))
              << row << " " << col << " of " << p;
        }
      }
    }
  }
}

/// Weights of 24 bits over many binades: as near as float64 sums come. Rows in two slabs, the first
/// of two segments; columns at once, in segments of two chunks and one.
TEST_P(SlicedGram, AnyWeightsAreAsGoodAsFloat64) {
  constexpr std::int64_t kLength = 300;
  constexpr std::int64_t kSide = 20;
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  for (const bool over_rows : {true, false}) {
    const Weights weights =
        weights_of(kLength, kSide, over_rows, [&](std::int64_t line, std::int64_t step) {
          return std::ldexp(normal(random), static_cast<int>(-(step % 7) * 6 + line * 3));
        });
    const std::vector<double> got = form(weights, kLength, kSide, over_rows,
                                         over_rows ? 256 : kLength, kSide, over_rows ? 1 : 2);
    const auto exact = [&](std::int64_t a, std::int64_t b) {
      return product(weights, kLength, kSide, over_rows, a, b);
    };
    for (std::int64_t col = 0; col < kSide; ++col) {
      for (std::int64_t row = col; row < kSide; ++row) {
        const auto one = static_cast<long double>(got[static_cast<std::size_t>(col * kSide + row)]);
        EXPECT_LE(std::abs(one - exact(row, col)),
                  1e-15L * std::sqrt(exact(row, row) * exact(col, col)))
            << row << " " << col << " " << over_rows;
      }
    }
  }
}

/// Every byte at its largest: sums of a segment stay within 32 bits by what sliced_gram.cu asserts;
/// here signs and carries of bytes.
TEST_P(SlicedGram, BytesAtTheirEnds) {
  for (const float weight :
       {0x1.fefefep+0F, -0x1.fefefep+0F, 0x1.010102p+0F, 0x1.fffffep+127F, -0x1p-149F}) {
    const Weights weights = weights_of(128, 2, true, [&](std::int64_t, std::int64_t step) {
      return step % 3 == 0 ? weight : -weight;
    });
    const std::vector<double> got = form(weights, 128, 2, true, 128, 2);
    EXPECT_EQ(got[0], static_cast<double>(product(weights, 128, 2, true, 0, 0))) << weight;
  }
}

TEST_P(SlicedGram, ALineThatIsNotFiniteSpoilsItselfAlone) {
  for (const float odd : {HUGE_VALF, NAN}) {
    const Weights weights = weights_of(130, 4, true, [&](std::int64_t line, std::int64_t step) {
      return line == 2 && step == 129 ? odd : line == 3 ? 0.0F : static_cast<float>(step % 5);
    });
    const std::vector<double> got = form(weights, 130, 4, true, 130, 4);
    for (std::int64_t col = 0; col < 4; ++col) {
      for (std::int64_t row = col; row < 4; ++row) {
        const double one = got[static_cast<std::size_t>(col * 4 + row)];
        if (row == 2 || col == 2) {
          EXPECT_TRUE(std::isnan(one));
        } else {
          EXPECT_EQ(one, static_cast<double>(product(weights, 130, 4, true, row, col)));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Order, SlicedGram, ::testing::Values(0ULL));

}  // namespace
}  // namespace vindex::test::sliced_gram_test
