// Owns the wrapped functions, by their mangled names, and what each planted fault does to a result.
#include "planted_faults.hpp"

#include "blas/steps/steps.hpp"
#include "core/philox.hpp"
#include "cpu/band/band_storage.hpp"
#include "cpu/band/simd_band_reduction.hpp"
#include "statistics/judgement/step_result.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <stop_token>
#include <vector>

// The mangled names of what the linker option names (tests/cpu/CMakeLists.txt).
#define VINDEX_WRAPPED(name, symbol, result, ...)        \
  result real_##name(__VA_ARGS__) asm("__real_" symbol); \
  result wrap_##name(__VA_ARGS__) asm("__wrap_" symbol)

namespace vindex::cpu::planted_faults {
namespace {

Stage planted_stage = Stage::kBand64;
Fault planted_fault = Fault::kNone;
int planted_count = 0;

bool is_planted(Stage stage, Fault fault) {
  if (planted_fault != fault || planted_stage != stage) {
    return false;
  }
  ++planted_count;
  return true;
}

/// A with H A H^T in its place for a reflector in a random direction whose tau is wrong by `error`.
/// Lower triangle, rows `stride` apart.
template <typename Real>
std::vector<Real> wrongly_reflected(const Real* matrix, std::int64_t n, std::int64_t stride,
                                    double error) {
  const auto order = static_cast<std::size_t>(n);
  std::vector<double> v(order), product(order, 0.0);
  double length = 0.0;
  for (std::size_t i = 0; i < order; ++i) {
    v[i] =
        static_cast<double>(philox4x32_10({{static_cast<std::uint32_t>(i), 0, 0, 9}}, 0).word[0]) *
            0x1p-31 -
        1.0;
    length += v[i] * v[i];
  }
  const auto at = [&](std::size_t i, std::size_t j) {
    return static_cast<double>(matrix[static_cast<std::int64_t>(std::max(i, j)) * stride +
                                      static_cast<std::int64_t>(std::min(i, j))]);
  };
  double overlap = 0.0;
  for (std::size_t i = 0; i < order; ++i) {
    for (std::size_t j = 0; j < order; ++j) {
      product[i] += at(i, j) * v[j];
    }
    overlap += product[i] * v[i];
  }
  const double tau = 2.0 / length * (1.0 + error);
  std::vector<Real> out(order * static_cast<std::size_t>(stride), Real{0});
  for (std::size_t i = 0; i < order; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      out[i * static_cast<std::size_t>(stride) + j] =
          static_cast<Real>(at(i, j) - tau * (product[i] * v[j] + v[i] * product[j]) +
                            tau * tau * overlap * v[i] * v[j]);
    }
  }
  return out;
}

constexpr double kError32 = 2e-2;
constexpr double kError64 = 1e-6;

/// Forgets an element of the band that the first panel leaves.
void drop_from_band(std::span<double> band) {
  constexpr std::int64_t kColumn = 3;
  band[static_cast<std::size_t>(kColumn * kBandStride + kColumn + kBand)] = 0.0;
}

template <typename Real>
void plant_in_tridiagonal(std::int64_t n, Real* d, Real* e) {
  if (is_planted(Stage::kOneStage, Fault::kWrongReflector)) {
    d[n / 2] *= Real(1.0 + (sizeof(Real) == 4 ? kError32 : kError64));
  } else if (is_planted(Stage::kOneStage, Fault::kDroppedRotation)) {
    e[n / 2] = Real{0};
  }
}

}  // namespace

using Stop = const std::stop_token&;
using Doubles = blas::steps::Columns<double>;
using Floats = blas::steps::Columns<float>;

VINDEX_WRAPPED(band64,
               "_ZN6vindex3cpu14reduce_to_bandEPKdlldSt4spanIdLm18446744073709551615EES4_"
               "NS0_9SimdLevelERKSt10stop_token",
               void, const double*, std::int64_t, std::int64_t, double, std::span<double>,
               std::span<double>, SimdLevel, Stop);
VINDEX_WRAPPED(begin_band,
               "_ZN6vindex3cpu10begin_bandEPKdlldSt4spanIdLm18446744073709551615EES4_"
               "RNS0_9BandProbeENS0_9SimdLevelERKSt10stop_token",
               std::int64_t, const double*, std::int64_t, std::int64_t, double, std::span<double>,
               std::span<double>, BandProbe&, SimdLevel, Stop);
VINDEX_WRAPPED(band32,
               "_ZN6vindex3cpu14reduce_to_bandEPKfllfSt4spanIdLm18446744073709551615EES3_"
               "IfLm18446744073709551615EENS0_9SimdLevelERKSt10stop_token",
               void, const float*, std::int64_t, std::int64_t, float, std::span<double>,
               std::span<float>, SimdLevel, Stop);
VINDEX_WRAPPED(partial_band,
               "_ZN6vindex3cpu22reduce_to_band_in_partEPKfllfSt4spanIdLm18446744073709551615EES3_"
               "IfLm18446744073709551615EERNS0_9BandProbeENS0_9SimdLevelERKSt10stop_token",
               std::int64_t, const float*, std::int64_t, std::int64_t, float, std::span<double>,
               std::span<float>, BandProbe&, SimdLevel, Stop);
VINDEX_WRAPPED(chase,
               "_ZN6vindex3cpu10chase_bandESt4spanIdLm18446744073709551615EElS2_S2_"
               "NS0_9SimdLevelERKSt10stop_token",
               void, std::span<double>, std::int64_t, std::span<double>, std::span<double>,
               SimdLevel, Stop);
VINDEX_WRAPPED(sytrd64, "_ZN6vindex4blas5steps5sytrdElNS1_7ColumnsIdEEPdS4_S4_S4_RKSt10stop_token",
               void, std::int64_t, Doubles, double*, double*, double*, double*, Stop);
VINDEX_WRAPPED(sytrd32, "_ZN6vindex4blas5steps5sytrdElNS1_7ColumnsIfEEPfS4_S4_S4_RKSt10stop_token",
               void, std::int64_t, Floats, float*, float*, float*, float*, Stop);
VINDEX_WRAPPED(gebrd, "_ZN6vindex4blas5steps5gebrdElNS1_7ColumnsIdEEPdS4_S4_S4_S4_RKSt10stop_token",
               void, std::int64_t, Doubles, double*, double*, double*, double*, double*, Stop);
VINDEX_WRAPPED(tpqrt, "_ZN6vindex4blas5steps5tpqrtEllNS1_7ColumnsIdEES3_PdS4_RKSt10stop_token",
               void, std::int64_t, std::int64_t, Doubles, Doubles, double*, double*, Stop);
VINDEX_WRAPPED(values,
               "_ZN6vindex10statistics16take_eigenvaluesERKNS0_11RawSpectrumERNS0_10StepResultE",
               void, const statistics::RawSpectrum&, statistics::StepResult&);

void wrap_band64(const double* matrix, std::int64_t n, std::int64_t stride, double scale,
                 std::span<double> band, std::span<double> workspace, SimdLevel level, Stop stop) {
  std::vector<double> wrong;
  if (is_planted(Stage::kBand64, Fault::kWrongReflector)) {
    wrong = wrongly_reflected(matrix, n, stride, kError64);
  }
  real_band64(wrong.empty() ? matrix : wrong.data(), n, stride, scale, band, workspace, level,
              stop);
  if (is_planted(Stage::kBand64, Fault::kDroppedRotation)) {
    drop_from_band(band);
  }
}

std::int64_t wrap_begin_band(const double* matrix, std::int64_t n, std::int64_t stride,
                             double scale, std::span<double> band, std::span<double> workspace,
                             BandProbe& probe, SimdLevel level, Stop stop) {
  std::vector<double> wrong;
  if (is_planted(Stage::kBand64, Fault::kWrongReflector)) {
    wrong = wrongly_reflected(matrix, n, stride, kError32);
  }
  const std::int64_t columns = real_begin_band(wrong.empty() ? matrix : wrong.data(), n, stride,
                                               scale, band, workspace, probe, level, stop);
  if (is_planted(Stage::kBand64, Fault::kDroppedRotation)) {
    drop_from_band(band);
  }
  return columns;
}

void wrap_band32(const float* matrix, std::int64_t n, std::int64_t stride, float scale,
                 std::span<double> band, std::span<float> workspace, SimdLevel level, Stop stop) {
  std::vector<float> wrong;
  if (is_planted(Stage::kBand32, Fault::kWrongReflector)) {
    wrong = wrongly_reflected(matrix, n, stride, kError32);
  }
  real_band32(wrong.empty() ? matrix : wrong.data(), n, stride, scale, band, workspace, level,
              stop);
  if (is_planted(Stage::kBand32, Fault::kDroppedRotation)) {
    drop_from_band(band);
  }
}

std::int64_t wrap_partial_band(const float* matrix, std::int64_t n, std::int64_t stride,
                               float scale, std::span<double> band, std::span<float> workspace,
                               BandProbe& probe, SimdLevel level, Stop stop) {
  std::vector<float> wrong;
  if (is_planted(Stage::kPartialBand, Fault::kWrongReflector)) {
    wrong = wrongly_reflected(matrix, n, stride, kError32);
  }
  return real_partial_band(wrong.empty() ? matrix : wrong.data(), n, stride, scale, band, workspace,
                           probe, level, stop);
}

void wrap_chase(std::span<double> band, std::int64_t n, std::span<double> diagonal,
                std::span<double> off_diagonal, SimdLevel level, Stop stop) {
  if (is_planted(Stage::kChase, Fault::kDroppedRotation)) {
    drop_from_band(band);
  }
  real_chase(band, n, diagonal, off_diagonal, level, stop);
  const auto place = static_cast<std::size_t>(n / 2);
  if (is_planted(Stage::kChase, Fault::kWrongReflector)) {
    diagonal[place] *= 1.0 + kError32;
  } else if (is_planted(Stage::kChase, Fault::kLostValue)) {
    diagonal[place] = off_diagonal[place] = off_diagonal[place - 1] = 0.0;
  }
}

void wrap_sytrd64(std::int64_t n, Doubles a, double* d, double* e, double* tau, double* work,
                  Stop stop) {
  real_sytrd64(n, a, d, e, tau, work, stop);
  plant_in_tridiagonal(n, d, e);
}

void wrap_sytrd32(std::int64_t n, Floats a, float* d, float* e, float* tau, float* work,
                  Stop stop) {
  real_sytrd32(n, a, d, e, tau, work, stop);
  plant_in_tridiagonal(n, d, e);
}

void wrap_gebrd(std::int64_t n, Doubles a, double* d, double* e, double* tau_left,
                double* tau_right, double* work, Stop stop) {
  real_gebrd(n, a, d, e, tau_left, tau_right, work, stop);
  if (is_planted(Stage::kBidiagonal, Fault::kWrongReflector)) {
    d[n / 2] *= 1.0 + kError64;
  } else if (is_planted(Stage::kBidiagonal, Fault::kDroppedRotation)) {
    e[n / 2] = 0.0;
  } else if (is_planted(Stage::kBidiagonal, Fault::kLostValue)) {
    d[n / 2] = 0.0;
  }
}

void wrap_tpqrt(std::int64_t m, std::int64_t n, Doubles r, Doubles b, double* reflectors,
                double* work, Stop stop) {
  real_tpqrt(m, n, r, b, reflectors, work, stop);
  if (is_planted(Stage::kFactor, Fault::kWrongReflector)) {
    *r.at(n / 2, n / 2) *= 1.0 + kError64;
  } else if (is_planted(Stage::kFactor, Fault::kDroppedRotation)) {
    *r.at(n / 2, n / 2 + 1) = 0.0;
  }
}

void wrap_values(const statistics::RawSpectrum& raw, statistics::StepResult& found) {
  std::vector<double> values(raw.eigenvalues.begin(), raw.eigenvalues.end());
  is_planted(Stage::kValues, Fault::kNone);  // counted, no more
  if (values.size() > 1 && is_planted(Stage::kValues, Fault::kLostValue)) {
    values[values.size() / 2] = values[values.size() / 2 - 1];
  }
  statistics::RawSpectrum changed = raw;
  changed.eigenvalues = values;
  real_values(changed, found);
}

Planted::Planted(Stage stage, Fault fault) {
  planted_stage = stage;
  planted_fault = fault;
  planted_count = 0;
}
Planted::~Planted() { planted_fault = Fault::kNone; }
int Planted::count() { return planted_count; }

bool can_be_planted(Stage stage, Fault fault) {
  switch (stage) {
    case Stage::kValues:
      return fault == Fault::kLostValue;
    case Stage::kPartialBand:
      return fault == Fault::kWrongReflector;
    case Stage::kChase:
    case Stage::kBidiagonal:
      return fault != Fault::kNone;
    default:
      return fault == Fault::kWrongReflector || fault == Fault::kDroppedRotation;
  }
}

std::string name_of(Stage stage) {
  constexpr const char* kNames[] = {"band64",    "band32", "partial band", "chase",
                                    "one stage", "values", "factor",       "bidiagonal"};
  return kNames[static_cast<std::size_t>(stage)];
}

std::string name_of(Fault fault) {
  constexpr const char* kNames[] = {"nothing", "a wrong reflector", "a dropped rotation",
                                    "a lost value"};
  return kNames[static_cast<std::size_t>(fault)];
}

}  // namespace vindex::cpu::planted_faults
