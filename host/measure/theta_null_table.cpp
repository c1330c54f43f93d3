// Made of draws of the bidiagonal model of Gaussian noise (Dumitriu and Edelman 2002), 12,000 to
// 200,000 for each shape: statistical error 0.5 % to 1.5 %.
#include "theta_null_table.hpp"

#include "drawn_nulls.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

namespace vindex::measure {
namespace {

constexpr std::array<double, 6> kRoots = {0.125, 0.25, 0.5, 0.70711, 0.86603, 1};
constexpr std::size_t kShapes = 12;
constexpr std::array<double, kShapes> kThetaRows = {16,  24,  32,  48,  64,   96,
                                                    128, 192, 256, 512, 1024, 2048};
static_assert(kThetaRows.front() == kMinTabulatedTheta);

/// By root, then by rows.
constexpr std::array<std::array<double, kShapes>, kRoots.size()> kFactors = {
    {{0.12597, 0.12812, 0.12871, 0.12901, 0.1314, 0.13118, 0.1308, 0.12999, 0.13109, 0.13061,
      0.12996, 0.12623},
     {0.1299, 0.13576, 0.13452, 0.13437, 0.13517, 0.13318, 0.13413, 0.13378, 0.13215, 0.13179,
      0.13259, 0.13201},
     {0.1486, 0.14899, 0.15056, 0.14868, 0.14674, 0.14247, 0.14307, 0.14104, 0.13983, 0.13873,
      0.13876, 0.13333},
     {0.1712, 0.16972, 0.1684, 0.16564, 0.16273, 0.15833, 0.1558, 0.15473, 0.15018, 0.14442,
      0.14217, 0.13767},
     {0.20188, 0.19763, 0.19308, 0.18636, 0.1826, 0.1752, 0.17074, 0.16577, 0.16168, 0.15503,
      0.14675, 0.14181},
     {0.23352, 0.22817, 0.22355, 0.21495, 0.20572, 0.19732, 0.19044, 0.18211, 0.17751, 0.16433,
      0.1567, 0.15084}}};

/// Where x lies among ascending `nodes`: the node below and how far it is to the next.
template <std::size_t N>
std::pair<std::size_t, double> place(const std::array<double, N>& nodes, double x) {
  const auto above = std::upper_bound(nodes.begin() + 1, nodes.end() - 1, x);
  const auto low = static_cast<std::size_t>(above - nodes.begin()) - 1;
  return {low, std::clamp((x - nodes[low]) / (nodes[low + 1] - nodes[low]), 0.0, 1.0)};
}

std::array<double, kShapes> logarithms() {
  std::array<double, kShapes> out = {};
  std::transform(kThetaRows.begin(), kThetaRows.end(), out.begin(),
                 [](double p) { return std::log(p); });
  return out;
}

}  // namespace

double theta_null_factor(double p, double root) {
  static const std::array<double, kShapes> kLogarithms = logarithms();
  const auto [row, along] = place(kLogarithms, std::log(p));
  const auto [shape, across] = place(kRoots, root);
  const auto at = [&, i = row, t = along](std::size_t s) {
    return kFactors[s][i] + t * (kFactors[s][i + 1] - kFactors[s][i]);
  };
  return at(shape) + across * (at(shape + 1) - at(shape));
}

}  // namespace vindex::measure
