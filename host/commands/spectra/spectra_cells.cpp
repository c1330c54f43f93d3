// Owns the table of columns of /matrix/, /imatrix/ and /product/, and the numbers in their places.
#include "spectra_cells.hpp"

#include "commands/spectra/sampled/sample_columns.hpp"
#include "core/constants.hpp"
#include "statistics/null/sign_flip_null.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <string>
#include <type_traits>

namespace vindex::commands {

namespace {

using statistics::Metric;
using statistics::SignFlipSpread;
using statistics::SignFlipSummary;

static_assert(std::is_standard_layout_v<SpectrumNumbers> &&
              std::is_trivially_copyable_v<SpectrumNumbers>);
static_assert(sizeof(SpectrumNumbers) ==
                  sizeof(double) *
                          (2 * (statistics::kMetricCount + kVarAtK.size()) + 3 + kMomentCount +
                           kSampleCount + kScaleCount + 2 * kVarAtK.size()) +
                      sizeof(SignFlipSummary),
              "doubles and nothing else");

constexpr std::size_t place_of(std::size_t offset) { return offset / sizeof(double); }
constexpr std::size_t kNumbers = place_of(sizeof(SpectrumNumbers));
constexpr std::size_t kVarAtKPlace = place_of(offsetof(statistics::MetricValues, var_at_k));
constexpr std::size_t kValues = place_of(offsetof(SpectrumNumbers, values));
constexpr std::size_t kNulls = place_of(offsetof(SpectrumNumbers, nulls));
constexpr std::size_t kMoments = place_of(offsetof(SpectrumNumbers, moments));
constexpr std::size_t kScales = place_of(offsetof(SpectrumNumbers, scales));

void set_by_k(results::CellColumn& column) {
  column.scale = "k";
  column.width = kVarAtK.size();
}

/// The table while it is made. Names live as long as the program.
class Maker {
 public:
  std::vector<results::CellColumn> columns;

  results::CellColumn& add(std::string name, std::string long_name, std::size_t offset,
                           const char* group = nullptr) {
    results::CellColumn column;
    column.name = texts_.emplace_back(std::move(name));
    column.long_name = texts_.emplace_back(std::move(long_name));
    column.place = place_of(offset);
    if (group != nullptr) {
      column.presence = results::Presence::kOptional;
      column.group = group;
    }
    return columns.emplace_back(column);
  }
  void add_by_k(const char* name, const char* long_name, std::size_t offset,
                const char* group = nullptr) {
    set_by_k(add(name, long_name, offset, group));
  }

 private:
  std::deque<std::string> texts_;
};

constexpr std::size_t sign_flip(std::size_t offset) {
  return offsetof(SpectrumNumbers, sign_flip) + offset;
}

void add_spread(Maker& to, const char* metric, std::size_t offset, bool by_k) {
  struct Part {
    const char* suffix;
    const char* long_name;
    std::size_t offset;
    const char* group;
  };
  constexpr Part kParts[] = {
      {"mean", "mean of {} over the sign flips", offsetof(SignFlipSpread, mean), "spread"},
      {"std", "standard deviation of {} over the sign flips", offsetof(SignFlipSpread, std),
       "spread"},
      {"z", "{} less the mean of the sign flips, over their deviation sqrt(1 + 1/draws)",
       offsetof(SignFlipSpread, z), "spread"},
      {"p", "two-sided probability of that z of {} by Student's distribution",
       offsetof(SignFlipSpread, p), "spread_p"}};
  for (const Part& part : kParts) {
    results::CellColumn& column =
        to.add(fmt::format("{}_signflip_{}", metric, part.suffix),
               fmt::format(fmt::runtime(part.long_name), metric), offset + part.offset, part.group);
    if (by_k) {
      set_by_k(column);
      column.stride = place_of(sizeof(SignFlipSpread));
    }
  }
}

void add_sign_flip(Maker& to) {
  to.add_by_k("var_at_k_signflip",
              "share of the squared norm in the first k values after random sign flips",
              sign_flip(offsetof(SignFlipSummary, var_at_k)), "signflip");
  add_spread(to, "var_at_k", sign_flip(offsetof(SignFlipSummary, var_at_k_spread)), true);
  add_spread(to, "stable_rank", sign_flip(offsetof(SignFlipSummary, stable_rank)), false);
  add_spread(to, "effective_rank", sign_flip(offsetof(SignFlipSummary, effective_rank)), false);
  add_spread(to, "mp_outliers", sign_flip(offsetof(SignFlipSummary, mp_outliers)), false);
  to.add("rand_distance_signflip",
         "root of the Jensen-Shannon divergence between sigma^2 and those of a sign flip",
         sign_flip(offsetof(SignFlipSummary, rand_distance)), "distance");
}

void add_metrics(Maker& to) {
  for (const statistics::MetricRow& metric : statistics::metric_rows()) {
    const char* const group = metric.needs_bulk ? "theta" : nullptr;
    const std::size_t offset = sizeof(double) * static_cast<std::size_t>(metric.metric);
    to.add(std::string(metric.name), std::string(metric.long_name),
           offsetof(SpectrumNumbers, values) + offset, group)
        .integer = metric.is_integer;
    if (metric.has_null) {
      to.add(fmt::format("{}_null", metric.name),
             fmt::format("{}, of iid noise of that shape", metric.long_name),
             offsetof(SpectrumNumbers, nulls) + offset, group);
    }
  }
}

Maker made() {
  Maker to;
  to.add("sigma_error", "error that the route answers for, of any singular value, in their units",
         offsetof(SpectrumNumbers, sigma_error), "sigma_error");
  constexpr std::size_t kByK = offsetof(statistics::MetricValues, var_at_k);
  to.add_by_k("var_at_k", "share of the squared norm in the first k singular values",
              offsetof(SpectrumNumbers, values) + kByK);
  to.add_by_k("var_at_k_null", "var_at_k of iid noise of that shape (Marchenko-Pastur)",
              offsetof(SpectrumNumbers, nulls) + kByK);
  add_sign_flip(to);
  to.add_by_k("var_at_k_lower", "certified lower bound of var_at_k",
              offsetof(SpectrumNumbers, var_at_k_lower), "fast");
  to.add_by_k("var_at_k_upper", "certified upper bound of var_at_k",
              offsetof(SpectrumNumbers, var_at_k_upper), "fast");
  to.add("stable_rank_lower", "certified lower bound of stable_rank",
         offsetof(SpectrumNumbers, stable_rank_lower), "fast");
  to.add("stable_rank_upper", "certified upper bound of stable_rank",
         offsetof(SpectrumNumbers, stable_rank_upper), "fast");
  add_metrics(to);
  std::size_t offset = offsetof(SpectrumNumbers, sample);
  for (const SampleColumn& sample : sample_columns()) {
    to.add(sample.name, sample.long_name, offset, "sampled").integer = sample.is_count;
    offset += sizeof(double);
  }
  offset = offsetof(SpectrumNumbers, scales);
  std::size_t number = 0;
  for (const ScaleColumn& column : scale_columns()) {
    to.add(column.name, column.long_name, offset, number++ < kOlderScales ? "scales" : "permuted");
    offset += sizeof(double);
  }
  return to;
}

/// Those that older programs wrote without, and those that were asked for.
constexpr std::array<results::ColumnGroup, 10> kSpectraGroups = {
    {{"sigma_error", "sigma_error"},
     {"theta", "theta"},
     {"signflip", "var_at_k_signflip"},
     {"spread", "var_at_k_signflip_mean"},
     {"spread_p", "var_at_k_signflip_p"},
     {"distance", "rand_distance_signflip"},
     {"sampled", "theta_seed"},
     {"scales", "z_modulus"},
     {"permuted", "csci_permuted"},
     {"drawn", "draw"}}};

constexpr std::array<results::SecondScale, 2> kSpectraScales = {
    {{"k", "number of singular values counted", kVarAtK}, {"moment", "number of the moment"}}};

constexpr std::array<results::CellColumn, 1> kSpectraResume = {
    {{.name = "moments",
      .long_name = "count zeros nonfinite mean m2 m3 m4 sum_squares min max of the decoded weights",
      .scale = "moment",
      .width = kMomentCount,
      .place = kMoments}}};

}  // namespace

SpectrumNumbers::SpectrumNumbers() {
  moments.fill(kNaN);
  sample.fill(kNaN);
  scales.fill(kNaN);
  var_at_k_lower.fill(kNaN);
  var_at_k_upper.fill(kNaN);
}

void SpectrumNumbers::set_moments(const decode::Moments& m) {
  if (m.count > 0 || m.nonfinite > 0) {
    moments = {static_cast<double>(m.count),
               static_cast<double>(m.zeros),
               static_cast<double>(m.nonfinite),
               m.mean,
               m.m2,
               m.m3,
               m.m4,
               m.sum_squares,
               m.min,
               m.max};
  }
}

void SpectrumNumbers::set_bounds(const SpectrumBounds& bounds) {
  const auto copy = [](const std::vector<double>& from, auto& to) {
    std::copy_n(from.begin(), std::min(from.size(), to.size()), to.begin());
  };
  copy(bounds.var_at_k_lower, var_at_k_lower);
  copy(bounds.var_at_k_upper, var_at_k_upper);
  stable_rank_lower = bounds.stable_rank_lower;
  stable_rank_upper = bounds.stable_rank_upper;
}

void SpectrumNumbers::set_sample(const statistics::SampleAngles& angles) {
  std::transform(sample_columns().begin(), sample_columns().end(), sample.begin(),
                 [&](const SampleColumn& column) { return column.value(angles); });
}

void SpectrumNumbers::set_scales(const statistics::ScaleFigures& figures) {
  std::transform(scale_columns().begin(), scale_columns().end(), scales.begin(),
                 [&](const ScaleColumn& column) { return figures.*column.member; });
}

std::vector<double> spectra_cells(const SpectrumNumbers& numbers) {
  std::vector<double> cells(kNumbers);
  std::memcpy(cells.data(), &numbers, sizeof numbers);
  // Only what reads back with the same bits.
  const auto is_number = [](double value) {
    return std::bit_cast<std::uint64_t>(value) != std::bit_cast<std::uint64_t>(kNaN);
  };
  cells.erase(std::find_if(cells.rbegin(), cells.rend(), is_number).base(), cells.end());
  cells.shrink_to_fit();
  return cells;
}

SpectrumNumbers spectrum_numbers(const std::vector<double>& cells) {
  SpectrumNumbers numbers;
  std::memcpy(static_cast<void*>(&numbers), cells.data(),
              sizeof(double) * std::min(cells.size(), kNumbers));
  return numbers;
}

double metric_of(const results::RowOutcome& row, Metric metric) {
  return row.cell(kValues + static_cast<std::size_t>(metric));
}
double var_at_k_of(const results::RowOutcome& row, std::size_t place) {
  return row.cell(kValues + kVarAtKPlace + place);
}
double var_at_k_null_of(const results::RowOutcome& row, std::size_t place) {
  return row.cell(kNulls + kVarAtKPlace + place);
}

std::optional<decode::Moments> moments_of(const results::RowOutcome& row) {
  const auto at = [&](std::size_t i) { return row.cell(kMoments + i); };
  for (std::size_t i = 0; i < 3; ++i) {
    // NaN marks a row that was never decoded; a count beyond 2^53 was never written.
    if (!(at(i) >= 0.0 && at(i) <= 9007199254740992.0)) {
      return std::nullopt;
    }
  }
  decode::Moments m;
  m.count = static_cast<std::int64_t>(at(0));
  m.zeros = static_cast<std::int64_t>(at(1));
  m.nonfinite = static_cast<std::int64_t>(at(2));
  m.mean = at(3);
  m.m2 = at(4);
  m.m3 = at(5);
  m.m4 = at(6);
  m.sum_squares = at(7);
  m.min = at(8);
  m.max = at(9);
  return m;
}

statistics::ScaleFigures scales_of(const results::RowOutcome& row) {
  statistics::ScaleFigures figures;
  std::size_t place = kScales;
  for (const ScaleColumn& column : scale_columns()) {
    figures.*column.member = row.cell(place++);
  }
  return figures;
}

const results::CellTable& spectra_table() {
  static const Maker maker = made();
  static const results::CellTable table = {.cells = maker.columns,
                                           .groups = kSpectraGroups,
                                           .second = kSpectraScales,
                                           .resume = kSpectraResume};
  return table;
}

}  // namespace vindex::commands
