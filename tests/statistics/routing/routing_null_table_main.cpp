// Prints how nulls of routing fit routers without preference (docs/commands/routing.md, "How well
// the nulls fit"): over all documented cases, or every statistic of one.
// Usage: routing_null_table [LAYERS] [CASE]
#include "routing_calibration.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace {

using vindex::statistics::testing::CalibratedStatistic;
using vindex::statistics::testing::RoutingCase;

/// One statistic over cases.
struct Range {
  double min_mean = 1e9, max_mean = -1e9, min_sd = 1e9, max_sd = -1e9;
  double beyond = 0.0, at_05 = 0.0, p = 0.0, count = 0.0;
  void add(const CalibratedStatistic& one) {
    min_mean = std::min(min_mean, one.z_mean);
    max_mean = std::max(max_mean, one.z_mean);
    min_sd = std::min(min_sd, one.z_sd);
    max_sd = std::max(max_sd, one.z_sd);
    beyond += one.beyond * one.count;
    at_05 += one.at_05 * one.count;
    p += one.mean_p * one.count;
    count += one.count;
  }
};

void print_case(const RoutingCase& routing, const std::vector<CalibratedStatistic>& statistics) {
  std::printf("%s, T = %ld, logits N(%g, %g)\n", routing.name.c_str(),
              static_cast<long>(routing.tokens), routing.logit_mean, routing.logit_sd);
  for (const CalibratedStatistic& one : statistics) {
    std::printf("| `%s` | %.2f | %.2f | %.4f | %.4f | %.2f | %.0f |\n", one.name.c_str(),
                one.z_mean, one.z_sd, one.beyond, one.at_05, one.mean_p, one.count);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int layers = argc > 1 ? std::atoi(argv[1]) : 250;
  const std::vector<RoutingCase> cases = vindex::statistics::testing::documented_cases();
  std::vector<std::string> names;
  std::map<std::string, Range> ranges;
  for (std::size_t number = 0; number < cases.size(); ++number) {
    if (argc > 2 && number != static_cast<std::size_t>(std::atoi(argv[2]))) {
      continue;
    }
    const auto statistics = calibrate(cases[number], layers);
    if (argc > 2) {
      print_case(cases[number], statistics);
    }
    for (const CalibratedStatistic& one : statistics) {
      if (!ranges.contains(one.name)) {
        names.push_back(one.name);
      }
      ranges[one.name].add(one);
    }
  }
  std::puts(
      "| statistic | mean of z | sd of z | beyond 3 | p <= 0.05 | mean p | of |\n"
      "|---|---|---|---|---|---|---|");
  for (const std::string& name : names) {
    const Range& range = ranges[name];
    const double share = range.beyond / range.count;
    if (name.ends_with(" p")) {
      std::printf("| `%s` | | | %.4f | %.4f | %.2f | %.0f |\n", name.c_str(), share,
                  range.at_05 / range.count, range.p / range.count, range.count);
    } else {
      std::printf("| `%s` | %+.2f to %+.2f | %.2f to %.2f | %.4f | | | %.0f |\n", name.c_str(),
                  range.min_mean, range.max_mean, range.min_sd, range.max_sd, share, range.count);
    }
  }
}
