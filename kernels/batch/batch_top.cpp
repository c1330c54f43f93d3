// The top of the spectra of a batch: `fast` by iteration, and singular vectors. Both form Gram
// matrices, iterate on them, and go over the decoded weights a second time.
#include "batch_solver.hpp"

#include "kernels/device/range.hpp"
#include "statistics/judgement/further_results.hpp"
#include "statistics/spectrum/singular_triplets.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::kernels {

using statistics::StepResult;

namespace {

bool has_values(const decode::Moments& moments) {
  return moments.nonfinite == 0 && moments.max_abs() > 0.0;
}

}  // namespace

LibraryHandles BatchSolver::handles() const {
  return {.stream = stream(),
          .blas = lane_.solver.blas.get(),
          .solver = lane_.solver.solver.get(),
          .parameters = lane_.solver.solver.parameters(),
          .one_by_one = lane_.solver.one_by_one};
}

/// add_weights() for `which`, whose weights fit into the phase, several at once: the products of
/// one are too small to fill a device.
void BatchSolver::add_together(std::span<const std::size_t> which, SignDraw flip,
                               const TopPhase& phase) {
  const std::int64_t weights = task_.rows * task_.cols;
  const std::int64_t step = task_.chunk_rows();
  const auto most = static_cast<std::size_t>(phase.at_once);
  for (std::size_t first = 0; first < which.size(); first += most) {
    const std::span<const std::size_t> part =
        which.subspan(first, std::min(most, which.size() - first));
    double* to = phase.weights;
    for (const std::size_t index : part) {
      for (std::int64_t row = 0; row < task_.rows; row += step) {
        batch_.decode_rows(index, flip, row, std::min(step, task_.rows - row), phase.wide.decoded,
                           to + row * task_.cols);
      }
      to += weights;
    }
    lane_.ends->fast.add(handles(), static_cast<std::int64_t>(first),
                         {.weights = phase.weights,
                          .over_rows = task_.row_chunks(),
                          .first = 0,
                          .length = task_.n(),
                          .matrices = static_cast<std::int64_t>(part.size()),
                          .stride = weights});
  }
}

/// float32 Gram matrices and what is known of `which`, at most as many as the phase was made for.
/// `found` gets one entry for each, the result those that have values, in the same order.
std::vector<FastMatrix> BatchSolver::form_top_grams(const TopPhase& phase, const Indices& which,
                                                    SignDraw flip, std::vector<StepResult>& found) {
  const SpectrumRoute& route = task_.routes.top;
  const auto count = static_cast<std::int64_t>(which.size());
  check(cudaMemsetAsync(device_results_, 0, result_bytes_, stream()));
  Arena result_memory(device_results_, result_bytes_);
  const BatchResults results(task_, count, result_memory);
  if (route.is_float32()) {
    form_grams32(which, flip, route.product, phase.grams, phase.gram_workspace,
                 phase.gram_workspace_bytes, results.gram_facts);
  } else {
    const StageClock::Span span(gram_clock_, stream());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::size_t index = which[static_cast<std::size_t>(i)];
      batch_.upload(index + 1);
      form_gram64(index, flip, phase.wide, phase.wide.grams + i * task_.p() * task_.p(),
                  results.moments + i * task_.chunk_count());
    }
    complete_symmetric(phase.wide.grams, task_.p(), task_.p(), count,
                       phase.wide.symmetric_workspace, results.symmetric_facts, stream());
  }
  const BatchResults host = download(count);
  found = facts_in(host, route, which.size());
  std::vector<FastMatrix> matrices;
  std::vector<double> scales;
  for (std::size_t i = 0; i < which.size(); ++i) {
    const decode::Moments& moments = found[i].moments;
    if (!has_values(moments)) {
      scales.push_back(0.0);
      continue;
    }
    const double sum = moments.sum_squares;
    const int exponent =
        route.is_float32() ? host.gram_facts[i].gram_exponent : 2 * std::ilogb(moments.max_abs());
    FastMatrix matrix;
    matrix.gram_scale = std::ldexp(1.0, exponent);
    scales.push_back(1.0 / matrix.gram_scale);
    const double frobenius = route.is_float32()
                                 ? std::sqrt(host.gram_facts[i].scaled_norm_squared)
                                 : std::sqrt(found[i].gram_norm_squared) / matrix.gram_scale;
    matrix.gram = {
        .data = phase.grams + static_cast<std::int64_t>(i) * phase.leading * phase.leading,
        .leading = phase.leading,
        .trace = sum / matrix.gram_scale,
        .frobenius = frobenius};
    matrix.gram_error =
        route.is_float32()
            ? tensor_gram_error_bound(task_.n(), task_.operands.sum_depth(), sum)
            : rounded_gram_error_bound(task_.n(), sum, frobenius * matrix.gram_scale);
    matrix.sum_squares = sum;
    matrices.push_back(matrix);
  }
  if (!route.is_float32()) {
    check(cudaMemcpyAsync(phase.scales, scales.data(), scales.size() * sizeof(double),
                          cudaMemcpyHostToDevice, stream()));
    narrow_scaled(phase.wide.grams, phase.grams, phase.scales, task_.p(), count, stream());
  }
  return matrices;
}

/// The largest values of `which` by iteration; bounds unless signs are flipped.
std::vector<StepResult> BatchSolver::run_top(const Indices& which, SignDraw flip) {
  std::vector<StepResult> out;
  const auto most = static_cast<std::size_t>(sizes_.wide);
  for (std::size_t first = 0; first < which.size(); first += most) {
    const Indices part(
        which.begin() + static_cast<std::ptrdiff_t>(first),
        which.begin() + static_cast<std::ptrdiff_t>(std::min(first + most, which.size())));
    Arena memory(arena_, arena_bytes_);
    const TopPhase phase(task_, static_cast<std::int64_t>(part.size()), memory);
    std::vector<StepResult> found;
    const std::vector<FastMatrix> matrices = form_top_grams(phase, part, flip, found);
    std::vector<FastValues> values;
    if (!matrices.empty()) {
      const Range range("filtered iteration");
      const StageClock::Span span(eigen_clock_, stream());
      lane_.ends->fast.search(handles(), matrices, task_.p(), task_.n());
      Indices searched;
      for (std::size_t i = 0; i < part.size(); ++i) {
        if (has_values(found[i].moments)) {
          searched.push_back(part[i]);
        }
      }
      if (phase.at_once > 1) {
        add_together(searched, flip, phase);
      } else {
        for (std::size_t i = 0; i < searched.size(); ++i) {
          add_weights(lane_.ends->fast, static_cast<std::int64_t>(i), searched[i], flip,
                      phase.wide);
        }
      }
      values = lane_.ends->fast.finish(handles(), !flip, proof_bytes(task_, sizes_.wide));
    }
    auto next = values.begin();
    for (StepResult& one : found) {
      one.method = task_.routes.top.top_method();
      if (has_values(one.moments)) {
        one.sigma = std::move(next->sigma);
        one.bounds = std::move(next->bounds);
        ++next;
      }
      out.push_back(std::move(one));
    }
  }
  return out;
}

void BatchSolver::run_vectors() {
  Indices wanted;
  for (std::size_t i = 0; i < out_.size(); ++i) {
    if (statistics::begin_vectors(options_, out_[i])) {
      wanted.push_back(i);
    }
  }
  const auto most = static_cast<std::size_t>(sizes_.wide);
  for (std::size_t first = 0; first < wanted.size(); first += most) {
    vectors_of(
        {wanted.begin() + static_cast<std::ptrdiff_t>(first),
         wanted.begin() + static_cast<std::ptrdiff_t>(std::min(first + most, wanted.size()))});
  }
}

/// Top singular vectors of at most sizes_.wide matrices that have values.
void BatchSolver::vectors_of(const Indices& which) {
  const auto count = static_cast<std::int64_t>(which.size());
  const std::int64_t p = task_.p();
  const Range range("singular vectors");
  Arena memory(arena_, arena_bytes_);
  const auto add_all = [&](const Float64Phase& phase) {
    for (std::int64_t i = 0; i < count; ++i) {
      add_weights(lane_.ends->vectors, i, which[static_cast<std::size_t>(i)], std::nullopt, phase);
    }
    lane_.ends->vectors.finish(handles());
  };
  if (task_.routes.has_top && !statistics::are_dense_vectors(p, task_.vector_columns)) {
    const TopPhase phase(task_, count, memory);
    std::vector<StepResult> found;
    std::vector<GramView> grams;
    for (const FastMatrix& matrix : form_top_grams(phase, which, std::nullopt, found)) {
      grams.push_back(matrix.gram);
    }
    lane_.ends->vectors.search(handles(), grams, p, task_.n(), task_.vector_columns);
    add_all(phase.wide);
  } else {
    const Float64Phase phase(
        task_, {.gram = GramChoice::kLibrary64, .solver = SolverChoice::kLibrary}, count, memory);
    Arena result_memory(device_results_, result_bytes_);
    const BatchResults results(task_, count, result_memory);
    for (std::int64_t i = 0; i < count; ++i) {
      form_gram64(which[static_cast<std::size_t>(i)], std::nullopt, phase, phase.grams + i * p * p,
                  results.moments + i * task_.chunk_count());
    }
    lane_.ends->vectors.solve(handles(), phase.grams, count, p, task_.n(), task_.vector_columns);
    add_all(phase);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t index = which[static_cast<std::size_t>(i)];
    const bool short_is_right = task_.row_chunks() != batch_[index].transposed;
    out_[index].vectors = lane_.ends->vectors.triplets(
        handles(), i, options_.vectors, short_is_right, out_[index].moments.sum_squares);
  }
}

}  // namespace vindex::kernels
