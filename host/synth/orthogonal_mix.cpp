// Owns the transforms, on contiguous rows and on panels of columns.
#include "random.hpp"
#include "recipe.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <vector>

namespace vindex::synth {
namespace {

// Columns transformed together: a panel of 16 floats by a few thousand rows stays in the L2 cache.
constexpr std::int64_t kPanel = 16;

// One mix over `length` elements: `rounds` times signs and transform on the first `block` elements,
// then, where that is not all of them, on the last `block`.
struct Mix {
  std::int64_t length = 0;
  std::int64_t block = 0;
  int passes = 0;
  std::vector<std::uint32_t> sign_words;  // bit i of pass k: element k * block + i

  Mix(std::uint64_t key, Stream stream, std::int64_t n)
      : length(n), block(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)))) {
    // Three rounds leave every direction spread over all elements, also where the blocks overlap
    // little.
    passes = block == length ? 3 : 6;
    sign_words.resize(static_cast<std::size_t>((passes * block + 31) / 32));
    fill_words(key, stream, sign_words);
  }
  std::int64_t start(int pass) const { return pass % 2 == 0 ? 0 : length - block; }
  // Factor of element i of the pass's range: random sign and the transform's scale.
  double factor(int pass, std::int64_t i) const {
    const auto bit = static_cast<std::uint64_t>(pass * block + i);
    const bool negative = ((sign_words[bit / 32] >> (bit % 32)) & 1U) != 0U;
    const double scale = 1.0 / std::sqrt(static_cast<double>(block));
    return negative ? -scale : scale;
  }
};

template <typename Real>
void transform_contiguous(Real* x, std::int64_t n) {
  for (std::int64_t half = 1; half < n; half *= 2) {
    for (std::int64_t i = 0; i < n; i += 2 * half) {
      for (std::int64_t j = i; j < i + half; ++j) {
        const Real a = x[j];
        const Real b = x[j + half];
        x[j] = a + b;
        x[j + half] = a - b;
      }
    }
  }
}

// Along rows of a panel: element i is the kPanel values at x + i * kPanel. Two stages at a time
// halve the trips through the cache; the sums are those of one stage after the other.
template <typename Real>
void transform_panel(Real* x, std::int64_t n) {
  std::int64_t half = 1;
  for (; half * 4 <= n; half *= 4) {
    for (std::int64_t i = 0; i < n; i += 4 * half) {
      for (std::int64_t j = i; j < i + half; ++j) {
        Real* const p = x + j * kPanel;
        Real* const q = p + half * kPanel;
        Real* const r = q + half * kPanel;
        Real* const s = r + half * kPanel;
        for (std::int64_t k = 0; k < kPanel; ++k) {
          const Real a = p[k] + q[k];
          const Real b = p[k] - q[k];
          const Real c = r[k] + s[k];
          const Real d = r[k] - s[k];
          p[k] = a + c;
          q[k] = b + d;
          r[k] = a - c;
          s[k] = b - d;
        }
      }
    }
  }
  if (half < n) {
    for (std::int64_t j = 0; j < half; ++j) {
      Real* const p = x + j * kPanel;
      Real* const q = p + half * kPanel;
      for (std::int64_t k = 0; k < kPanel; ++k) {
        const Real a = p[k];
        const Real b = q[k];
        p[k] = a + b;
        q[k] = a - b;
      }
    }
  }
}

template <typename Real>
void mix_rows(const Mix& mix, Real* data, std::int64_t count) {
  std::vector<Real> factors(static_cast<std::size_t>(mix.passes * mix.block));
  for (int pass = 0; pass < mix.passes; ++pass) {
    for (std::int64_t i = 0; i < mix.block; ++i) {
      factors[static_cast<std::size_t>(pass * mix.block + i)] =
          static_cast<Real>(mix.factor(pass, i));
    }
  }
  for (std::int64_t row = 0; row < count; ++row) {
    for (int pass = 0; pass < mix.passes; ++pass) {
      Real* const x = data + row * mix.length + mix.start(pass);
      const Real* const f = factors.data() + pass * mix.block;
      for (std::int64_t i = 0; i < mix.block; ++i) {
        x[i] *= f[i];
      }
      transform_contiguous(x, mix.block);
    }
  }
}

template <typename Real>
void mix_columns(const Mix& mix, Real* data, std::int64_t cols) {
  std::vector<Real> panel(static_cast<std::size_t>(mix.length * kPanel));
  for (std::int64_t first = 0; first < cols; first += kPanel) {
    const std::int64_t width = std::min(kPanel, cols - first);
    for (std::int64_t row = 0; row < mix.length; ++row) {
      std::copy_n(data + row * cols + first, width, panel.data() + row * kPanel);
    }
    for (int pass = 0; pass < mix.passes; ++pass) {
      Real* const x = panel.data() + mix.start(pass) * kPanel;
      for (std::int64_t i = 0; i < mix.block; ++i) {
        const Real f = static_cast<Real>(mix.factor(pass, i));
        for (std::int64_t k = 0; k < kPanel; ++k) {
          x[i * kPanel + k] *= f;
        }
      }
      transform_panel(x, mix.block);
    }
    for (std::int64_t row = 0; row < mix.length; ++row) {
      std::copy_n(panel.data() + row * kPanel, width, data + row * cols + first);
    }
  }
}

}  // namespace

template <typename Real>
void plant_spectrum(std::uint64_t key, std::span<const double> sigma, std::int64_t rows,
                    std::int64_t cols, Real* out) {
  const auto count = static_cast<std::int64_t>(sigma.size());
  expects(count <= std::min(rows, cols), "plant_spectrum: at most min(rows, cols) values");
  std::fill_n(out, rows * cols, Real{0});
  for (std::int64_t i = 0; i < count; ++i) {
    out[i * cols + i] = static_cast<Real>(sigma[static_cast<std::size_t>(i)]);
  }
  mix_rows(Mix(key, Stream::kRightSigns, cols), out, count);
  mix_columns(Mix(key, Stream::kLeftSigns, rows), out, cols);
}

template void plant_spectrum<float>(std::uint64_t, std::span<const double>, std::int64_t,
                                    std::int64_t, float*);
template void plant_spectrum<double>(std::uint64_t, std::span<const double>, std::int64_t,
                                     std::int64_t, double*);

}  // namespace vindex::synth
