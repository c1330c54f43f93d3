// Owns the product of singular triplets that is kept, and multiplying it out.
#include <vindex/blas/blas.hpp>
#include <vindex/core/error.hpp>
#include <vindex/jobs/purify/purify_methods.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stop_token>

namespace vindex::purify {

LowRank low_rank_of(measure::Backend& backend, const decode::EncodedMatrix& matrix,
                    std::span<const double> kept, std::stop_token stop) {
  expects(
      !kept.empty() && static_cast<std::int64_t>(kept.size()) <= std::min(matrix.rows, matrix.cols),
      "low_rank_of: between one and all singular values");
  const auto input = measure::make_memory_input(matrix);
  measure::MeasureOptions options;
  options.vectors = static_cast<std::int32_t>(kept.size());
  options.stop = std::move(stop);
  measure::MatrixReport report;
  measure::MatrixInput* const batch[] = {input.get()};
  backend.measure(batch, options, 0, std::span(&report, 1));
  LowRank out{.rows = matrix.rows,
              .cols = matrix.cols,
              .rank = options.vectors,
              .a = {},
              .b = {},
              .residual = 0.0,
              .failure = {}};
  if (report.status != measure::Status::kMeasured || !report.vectors) {
    out.failure = report.reason.empty() ? "the back end found no vectors" : report.reason;
    return out;
  }
  measure::SingularVectors& vectors = *report.vectors;
  if (vectors.count < out.rank) {
    out.failure = fmt::format("{} singular vectors of {} were found", vectors.count, out.rank);
    return out;
  }
  const auto rank = static_cast<std::size_t>(out.rank);
  const auto rows = static_cast<std::size_t>(out.rows);
  const auto cols = static_cast<std::size_t>(out.cols);
  out.a = std::move(vectors.right);
  out.b.resize(rows * rank);
  for (std::size_t k = 0; k < rank; ++k) {
    const auto root = static_cast<float>(std::sqrt(kept[k]));
    for (std::size_t j = 0; j < cols; ++j) {
      out.a[k * cols + j] *= root;
    }
    for (std::size_t i = 0; i < rows; ++i) {
      out.b[i * rank + k] = root * vectors.left[k * rows + i];
    }
    out.residual = std::max(out.residual, vectors.residual[k] / vectors.sigma.front());
  }
  return out;
}

void multiply_out(const LowRank& factors, std::span<float> out) {
  expects(static_cast<std::int64_t>(out.size()) == factors.rows * factors.cols,
          "multiply_out: a matrix of the factors' shape");
  blas::blas().cblas_sgemm(
      CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(factors.rows),
      static_cast<int>(factors.cols), static_cast<int>(factors.rank), 1.0F, factors.b.data(),
      static_cast<int>(factors.rank), factors.a.data(), static_cast<int>(factors.cols), 0.0F,
      out.data(), static_cast<int>(factors.cols));
}

}  // namespace vindex::purify
