// Owns float64 Gram matrices of small matrices, many by one launch and one product: of 512 x 1024
// weights one product has 16 tiles of 128, an eighth of a large device, and launches cost as much
// as it.
#include "batch_solver.hpp"

#include "kernels/decode/decode_wide.hpp"
#include "kernels/device/range.hpp"

#include <algorithm>

namespace vindex::kernels {

/// Small matrices, phase.together at a time, whatever there is of them: the library gets the same
/// number in every call, zeros in the place of those that are missing.
void BatchSolver::form_grams64_together(const Indices& which, const Float64Phase& phase,
                                        RawMoments* moments) {
  const auto together = static_cast<std::size_t>(phase.together);
  const auto weights = static_cast<std::size_t>(task_.rows * task_.cols);
  std::vector<decode::DecodeView> views;
  for (std::size_t first = 0; first < which.size(); first += together) {
    const std::size_t last = std::min(first + together, which.size());
    throw_if_stopped(options_.stop);
    batch_.upload(which[last - 1] + 1);
    const Range range("decode and gram");
    const StageClock::Span span(gram_clock_, stream());
    views.clear();
    for (std::size_t i = first; i < last; ++i) {
      views.push_back(batch_[which[i]].view);
    }
    decode_wide(batch_.encoding(), views, phase.wide, phase.sum_parts, moments + first, stream());
    const std::size_t missing = together - (last - first);
    if (missing > 0) {
      check(cudaMemsetAsync(phase.wide + (last - first) * weights, 0,
                            missing * weights * sizeof(double), stream()));
    }
    form_grams_together(
        lane_.solver, phase.wide, task_.row_chunks(), task_.n(), task_.p(), phase.leading,
        phase.together,
        phase.grams + static_cast<std::int64_t>(first) * phase.leading * phase.leading);
  }
}

}  // namespace vindex::kernels
