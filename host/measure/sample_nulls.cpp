// Owns the means of theta_seed and theta_qq over samples of independent normal numbers: draws by
// this code, 400 (the largest samples) to 40,000 for each size.
//
// Why a table: neither has a formula at small counts, where the least and the greatest value of the
// sample decide, and both change so slowly with the count that 23 rows and a line between them do.
#include <vindex/core/error.hpp>
#include <vindex/measure/sample_angles.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace vindex::measure {
namespace {

struct DrawnSample {
  std::int64_t count = 0;
  double seed = 0.0, qq = 0.0;
};

constexpr std::array<DrawnSample, 23> kDrawn = {
    {{4, 35.119, 16.7938},    {5, 31.907, 16.8695},    {6, 30.157, 16.5650},
     {8, 28.295, 15.5627},    {11, 26.134, 14.2518},   {16, 23.888, 12.7105},
     {23, 22.047, 11.1868},   {32, 20.624, 9.8731},    {45, 19.437, 8.6648},
     {64, 18.473, 7.5230},    {90, 17.774, 6.5458},    {128, 17.182, 5.6319},
     {181, 16.733, 4.8499},   {256, 16.525, 4.1809},   {512, 16.568, 3.0786},
     {1024, 17.035, 2.2562},  {2048, 17.685, 1.6398},  {4096, 18.387, 1.1895},
     {8192, 19.036, 0.8748},  {16384, 19.633, 0.6320}, {32768, 20.132, 0.4424},
     {65536, 20.607, 0.3205}, {100000, 20.753, 0.2534}}};

/// Linear in ln(count); beyond the largest as there.
template <typename Value>
double between(std::int64_t count, Value value) {
  expects(count >= kMinSampled, "a null of at least four values");
  const auto above = std::upper_bound(
      kDrawn.begin() + 1, kDrawn.end() - 1, count,
      [](std::int64_t wanted, const DrawnSample& row) { return wanted < row.count; });
  const DrawnSample& low = *(above - 1);
  const double from = std::log(static_cast<double>(low.count));
  const double width = std::log(static_cast<double>(above->count)) - from;
  const double at = std::min(1.0, (std::log(static_cast<double>(count)) - from) / width);
  return value(low) + at * (value(*above) - value(low));
}

}  // namespace

double theta_seed_null(std::int64_t count) {
  return between(count, [](const DrawnSample& row) { return row.seed; });
}

double theta_qq_null(std::int64_t count) {
  // It falls about as a power of the count.
  return std::exp(between(count, [](const DrawnSample& row) { return std::log(row.qq); }));
}

}  // namespace vindex::measure
