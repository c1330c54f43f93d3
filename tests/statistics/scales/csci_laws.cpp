// Owns drawing from these laws and the scores of many sequences.
#include "csci_laws.hpp"

#include "statistics/samples/random_draws.hpp"
#include "statistics/scales/scale_sums.hpp"

#include <array>
#include <cmath>

namespace vindex::statistics {

namespace {

template <typename Draw>
std::vector<float> drawn(std::int64_t count, std::uint64_t draw, const Draw& value) {
  DrawStream stream(0x63736369, draw);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& one : out) {
    one = static_cast<float>(value(stream));
  }
  return out;
}

constexpr std::array<CsciLaw, 5> kCsciLaws = {{
    {"normal",
     [](std::int64_t count, std::uint64_t draw) {
       return drawn(count, draw, [](DrawStream& stream) { return stream.normal(); });
     }},
    {"Laplace",
     [](std::int64_t count, std::uint64_t draw) {
       return drawn(count, draw, [](DrawStream& stream) {
         const double u = stream.uniform() - 0.5;
         return std::copysign(std::log1p(-2.0 * std::abs(u)), u);
       });
     }},
    {"Student, 3 degrees",
     [](std::int64_t count, std::uint64_t draw) {
       return drawn(count, draw, [](DrawStream& stream) {
         return stream.normal() / std::sqrt(draw_chi_squared(3, stream) / 3.0);
       });
     }},
    {"uniform",
     [](std::int64_t count, std::uint64_t draw) {
       return drawn(count, draw, [](DrawStream& stream) { return stream.uniform() - 0.5; });
     }},
    {"normal, rows of 256 with norms exp(0.3 z)",
     [](std::int64_t count, std::uint64_t draw) {
       double norm = 1.0;
       std::int64_t place = 0;
       return drawn(count, draw, [&](DrawStream& stream) {
         norm = place++ % 256 == 0 ? std::exp(0.3 * stream.normal()) : norm;
         return norm * stream.normal();
       });
     },
     true},
}};

struct ScoreSums {
  double sum = 0.0, squares = 0.0, count = 0.0;
  void add(double value) {
    sum += value;
    squares += value * value;
    count += 1.0;
  }
  double mean() const { return sum / count; }
  double sd() const { return std::sqrt((squares - sum * mean()) / (count - 1.0)); }
};

}  // namespace

std::span<const CsciLaw> csci_laws() { return kCsciLaws; }

CsciScores csci_scores(const CsciLaw& law, std::int64_t count, int sequences) {
  ScoreSums normal, signs, permuted, slope;
  for (int i = 0; i < sequences; ++i) {
    std::vector<float> weights = law.weights(count, static_cast<std::uint64_t>(i));
    ScaleSums sums(count, 0x7369676E + static_cast<std::uint64_t>(i));
    sums.add(0, weights);
    const ScaleFigures found = sums.figures();
    normal.add(found.csci / found.csci_null_sd);
    signs.add((found.csci - found.csci_signflip) / (std::sqrt(2.0) * found.csci_null_sd));
    permuted.add((found.csci - found.csci_permuted) /
                 (found.csci_permuted_sd * std::sqrt(1.0 + 1.0 / 8.0)));
    slope.add((found.z_modulus - found.z_modulus_null) / found.z_modulus_null_sd);
  }
  return {normal.mean(),   normal.sd(),   signs.mean(), signs.sd(),
          permuted.mean(), permuted.sd(), slope.sd()};
}

}  // namespace vindex::statistics
