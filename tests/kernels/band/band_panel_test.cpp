// Panels alone, of every number of rows that a thread holds: their reflectors, applied on the host
// in long double, take the columns to the R that was written.
#include "kernels/band/band_panel.hpp"

#include "tests/kernels/kernel_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace vindex::test::band_panel_test {
namespace {

using namespace kernels;

class BandPanel : public KernelTest {
 protected:
  /// Largest error of R, and of what should be zero below it, over the norm of the largest column.
  template <typename Real>
  double error_of(std::int64_t rows) {
    const std::int64_t order = band_order(rows + kBand);
    std::mt19937 words(static_cast<unsigned>(rows));
    std::vector<Real> columns(static_cast<std::size_t>(order * kBand), Real(0));
    for (std::int64_t c = 0; c < kBand; ++c) {
      for (std::int64_t row = 0; row < rows; ++row) {
        const double noise = static_cast<double>(words()) * 0x1p-31 - 1.0;
        const double size = c == 5 ? 0.0 : c == 20 ? 1e-3 : 1.0;  // one is zero, one is small
        columns[static_cast<std::size_t>(c * order + row)] = static_cast<Real>(noise * size);
      }
    }
    std::copy_n(columns.begin() + 7 * order, order, columns.begin() + 9 * order);  // and two equal
    DeviceArray<Real> device(columns);
    DeviceArray<Real> factors(static_cast<std::size_t>(order * kFactorStride));
    DeviceArray<Real> taus(static_cast<std::size_t>(kBand));
    DeviceArray<Real> band(
        std::vector<Real>(static_cast<std::size_t>(band_elements(order)), Real(0)));
    factor_panels(Panel<Real>{.columns = device.data(),
                              .factors = factors.data(),
                              .taus = taus.data(),
                              .band = band.data(),
                              .order = order,
                              .rows = rows,
                              .start = 0,
                              .batch = 1},
                  stream());
    const std::vector<Real> v = factors.values();
    const std::vector<Real> tau = taus.values();
    const std::vector<Real> r = band.values();
    double worst = 0.0;
    for (std::int64_t c = 0; c < kBand; ++c) {
      std::vector<long double> x(columns.begin() + c * order, columns.begin() + c * order + rows);
      for (std::int64_t k = 0; k < kBand; ++k) {
        long double dot = 0.0;
        for (std::int64_t row = 0; row < rows; ++row) {
          dot += static_cast<long double>(v[static_cast<std::size_t>(row * kFactorStride + k)]) *
                 x[static_cast<std::size_t>(row)];
        }
        for (std::int64_t row = 0; row < rows; ++row) {
          x[static_cast<std::size_t>(row)] -=
              static_cast<long double>(tau[static_cast<std::size_t>(k)]) * dot *
              static_cast<long double>(v[static_cast<std::size_t>(row * kFactorStride + k)]);
        }
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        const long double wanted =
            row <= c
                ? static_cast<long double>(r[static_cast<std::size_t>(band_index(kBand + row, c))])
                : 0.0L;
        worst = std::max(worst,
                         static_cast<double>(std::abs(x[static_cast<std::size_t>(row)] - wanted)));
      }
    }
    return worst / std::sqrt(static_cast<double>(rows) / 3.0);
  }
};

TEST_P(BandPanel, ReflectorsLeadToR) {
  const bool is_short = is_emulated() && GetParam() != 0;
  for (const std::int64_t rows : {32, 33, 130, 900, 1100, 2100, 4200}) {
    if (is_short && rows > 1100) {
      continue;  // one order of threads is enough for size
    }
    EXPECT_LE(error_of<float>(rows), 8e-7) << rows;
    EXPECT_LE(error_of<double>(rows), 1.6e-15) << rows;
  }
}

INSTANTIATE_THREAD_ORDERS(BandPanel);

}  // namespace
}  // namespace vindex::test::band_panel_test
