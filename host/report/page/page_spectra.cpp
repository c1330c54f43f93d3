// Owns thinning spectra to ranks, and the Marchenko-Pastur law beside them.
#include "page_spectra.hpp"

#include "page_values.hpp"

#include "statistics/spectrum/noise_edge.hpp"
#include "statistics/spectrum/noise_spectrum.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <string>

namespace vindex::report {

namespace {

/// Values of all spectra of a page together, and of one at least and at most.
constexpr std::int64_t kMostValues = 2'200'000;
constexpr std::int64_t kFewestRanks = 24, kMostRanks = 512;
constexpr int kLawPoints = 96;

/// ln(first / value) in steps, of which one has `in_one`.
std::uint16_t code_of(double first, double value, double in_one) {
  if (!(value > 0.0) || !(first >= value)) {
    return kNoSigma;
  }
  const double steps = std::round(std::log(first / value) * in_one);
  return steps < kNoSigma ? static_cast<std::uint16_t>(steps) : kNoSigma;
}

/// Spectra of one length, rank by rank.
struct Thinned {
  std::size_t length = 0;
  std::vector<std::int64_t> ranks;
  std::vector<double> matrices, firsts;
  std::vector<std::vector<std::uint16_t>> codes;  ///< by rank
};

void add_spectrum(Thinned& thinned, std::int64_t row, std::span<const double> sigma, double steps) {
  thinned.matrices.push_back(static_cast<double>(row));
  thinned.firsts.push_back(sigma.front());
  for (std::size_t r = 0; r < thinned.ranks.size(); ++r) {
    thinned.codes[r].push_back(
        code_of(sigma.front(), sigma[static_cast<std::size_t>(thinned.ranks[r] - 1)], steps));
  }
}

Json group_of(const Thinned& group) {
  const std::size_t count = group.matrices.size();
  std::vector<std::uint16_t> differences;
  differences.reserve(count * group.ranks.size());
  for (std::size_t r = 0; r < group.ranks.size(); ++r) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint16_t before = r == 0 ? std::uint16_t{0} : group.codes[r - 1][i];
      differences.push_back(static_cast<std::uint16_t>(group.codes[r][i] - before));
    }
  }
  return {{"ranks", group.ranks},
          {"length", group.length},
          {"matrix", packed_integers(group.matrices)},
          {"first", packed_reals(group.firsts, 24)},
          {"codes", packed_codes(differences)}};
}

Json law_of(const Shape& shape, std::int64_t most) {
  const std::int64_t p = std::min(shape.rows, shape.cols);
  const std::int64_t n = std::max(shape.rows, shape.cols);
  if (p < 2) {
    return {};
  }
  const auto long_side = static_cast<double>(n);
  const statistics::MarchenkoPastur law(static_cast<double>(p) / long_side);
  std::vector<double> places, density;
  const double root = std::sqrt(law.aspect());
  for (int i = 0; i <= kLawPoints; ++i) {
    // A square shape has a density without bound at 0, the first point.
    const double angle = std::numbers::pi * std::max(i, i == 0 && p == n ? 1 : 0) / kLawPoints;
    const double x = law.value_at(angle);
    places.push_back(x);
    density.push_back(std::sin(angle) / (std::numbers::pi * root * x));
  }
  const std::vector<double> mean = statistics::mean_noise_spectrum(law, p, n);
  const std::vector<std::int64_t> ranks = chosen_ranks(p, most);
  std::vector<double> sigma;
  for (const std::int64_t rank : ranks) {
    sigma.push_back(std::sqrt(std::max(0.0, mean[static_cast<std::size_t>(rank - 1)] / long_side)));
  }
  return {
      {"lower", law.lower_edge()},
      {"upper", law.upper_edge()},
      {"edge", statistics::upper_outlier_threshold(static_cast<double>(p), long_side) / long_side},
      {"x", packed_reals(places, 24)},
      {"density", packed_reals(density, 24)},
      {"ranks", ranks},
      {"sigma", packed_reals(sigma, 24)}};
}

}  // namespace

std::vector<std::int64_t> chosen_ranks(std::int64_t count, std::int64_t most) {
  std::set<std::int64_t> ranks;
  if (count <= most) {
    for (std::int64_t rank = 1; rank <= count; ++rank) {
      ranks.insert(rank);
    }
    return {ranks.begin(), ranks.end()};
  }
  constexpr std::int64_t kHead = 8;
  for (std::int64_t rank = 1; rank <= kHead; ++rank) {
    ranks.insert(rank);
  }
  const auto last = static_cast<double>(count);
  const std::int64_t by_ratio = (most - kHead) / 2;
  const std::int64_t by_step = most - kHead - by_ratio;
  for (std::int64_t i = 1; i <= by_ratio; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(by_ratio + 1);
    ranks.insert(std::llround(kHead * std::pow(last / kHead, share)));
  }
  for (std::int64_t i = 1; i <= by_step; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(by_step);
    ranks.insert(std::llround(kHead + (last - kHead) * share));
  }
  return {ranks.begin(), ranks.end()};
}

Json page_spectra(PageFile& file, std::span<const Shape> shapes,
                  std::span<const results::StoredRow> rows) {
  const std::int64_t most = std::clamp(kMostValues / std::max<std::int64_t>(file.rows_of_page, 1),
                                       kFewestRanks, kMostRanks);
  const double steps = sigma_steps(file.rows_of_page);
  Json groups = Json::array();
  std::vector<Thinned> by_group;
  results::SpectraPlace place;
  results::SpectraBlock block;
  while (file.reader.spectra().read_block(place, block)) {
    by_group.resize(std::max(by_group.size(), block.group + 1));
    Thinned& thinned = by_group[block.group];
    if (thinned.ranks.empty()) {
      thinned.length = block.width;
      thinned.ranks = chosen_ranks(static_cast<std::int64_t>(block.width), most);
      thinned.codes.resize(thinned.ranks.size());
    }
    for (std::size_t i = 0; block.width > 0 && i < block.rows.size(); ++i) {
      if (rows[static_cast<std::size_t>(block.rows[i])].status != MatrixStatus::kSkipped) {
        add_spectrum(thinned, block.rows[i],
                     std::span<const double>(block.sigma).subspan(i * block.width, block.width),
                     steps);
      }
    }
  }
  for (const Thinned& group : by_group) {
    groups.push_back(group_of(group));
  }
  return {{"steps", steps},
          {"groups", std::move(groups)},
          {"laws", Json::list(shapes, [&](const Shape& shape) { return law_of(shape, most); })}};
}

}  // namespace vindex::report
