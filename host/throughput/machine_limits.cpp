// Owns the measurements of those limits that need no device or disk: memory copies and BLAS.
#include "machine_limits.hpp"

#include "encoded_weights.hpp"

#include "blas/blas_library.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

namespace vindex::throughput {

namespace {

template <typename T>
std::vector<double> syrk_milliseconds(const blas::ReferenceBlas& blas, std::int64_t p, int workers,
                                      const Sampling& sampling) {
  const std::vector<float> values = noise(p * p, 1);
  const std::vector<T> from(values.begin(), values.end());
  std::vector<std::vector<T>> grams(static_cast<std::size_t>(workers),
                                    std::vector<T>(values.size()));
  return take_samples(sampling, [&] {
    return 1e3 * run_together(workers, [&](int worker) {
             blas.rank_update(p, from.data(), grams[static_cast<std::size_t>(worker)].data());
           });
  });
}

/// `bytes` of words of no pattern: pages of zeros may be copied faster.
std::vector<std::uint64_t> words(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::uint64_t> values(bytes / sizeof(std::uint64_t));
  for (std::uint64_t& value : values) {
    value = seed = seed * 6364136223846793005U + 1442695040888963407U;
  }
  return values;
}

}  // namespace

Row memcpy_row(std::size_t bytes, const Sampling& sampling) {
  const std::vector<std::uint64_t> source = words(bytes, 1);
  std::vector<std::uint64_t> target(source.size(), 1);
  Row row{.name = "probe.memcpy", .route = "one thread", .unit = "gb_per_s"};
  row.samples = take_samples(sampling, [&] {
    const double start = thread_seconds();
    std::memcpy(target.data(), source.data(), bytes);
    return 1e-9 * static_cast<double>(bytes) / (thread_seconds() - start);
  });
  return row;
}

Row memcpy_together_row(int workers, std::size_t bytes, const Sampling& sampling) {
  std::vector<std::vector<std::uint64_t>> sources;
  std::vector<std::vector<std::uint64_t>> targets;
  for (int worker = 0; worker < workers; ++worker) {
    sources.push_back(words(bytes, static_cast<std::uint64_t>(worker) + 1));
    targets.emplace_back(sources.back().size(), 1);
  }
  Row row{.name = "probe.memcpy",
          .route = std::to_string(workers) + " threads",
          .batch = workers,
          .unit = "gb_per_s"};
  row.samples = take_samples(sampling, [&] {
    const double seconds = run_together(workers, [&](int worker) {
      const auto index = static_cast<std::size_t>(worker);
      std::memcpy(targets[index].data(), sources[index].data(), bytes);
    });
    return 1e-9 * static_cast<double>(workers) * static_cast<double>(bytes) / seconds;
  });
  return row;
}

Row syrk_row(bool wide, std::int64_t p, int workers, const Sampling& sampling) {
  const blas::ReferenceBlas& blas = blas::reference_blas();
  Row row{.name = wide ? "probe.dsyrk" : "probe.ssyrk",
          .route = "library",
          .rows = p,
          .cols = p,
          .batch = workers,
          .encoding = wide ? "F64" : "F32",
          .unit = "ms_per_matrix",
          .peer = wide ? "openblas.dsyrk" : "openblas.ssyrk"};
  if (!blas.why_none.empty()) {
    row.note = "no limit is known: " + blas.why_none;
    return row;
  }
  row.note = "one matrix on each worker at once, " + blas.info.text();
  row.samples = wide ? syrk_milliseconds<double>(blas, p, workers, sampling)
                     : syrk_milliseconds<float>(blas, p, workers, sampling);
  return row;
}

double syrk_rate(const Row& row) {
  const auto p = static_cast<double>(row.rows);
  return p * p * (p + 1.0) / (1e-3 * best_of(row));
}

}  // namespace vindex::throughput
