// The float64 Gram matrices of a part of a batch: of E4M3 codes several at once (code_slices.hpp),
// of other small matrices too (batch_together.cpp), else of decoded weights one by one.
#include "batch_solver.hpp"

#include "kernels/device/range.hpp"

#include <algorithm>

namespace vindex::kernels {

/// Of `which`, in their order; phase.grams, and moments [which][chunk_count].
void BatchSolver::form_grams64(const Indices& which, SignDraw flip, const Float64Phase& phase,
                               RawMoments* moments) {
  const std::int64_t elements = phase.leading * phase.leading;
  const auto most =
      static_cast<std::size_t>(task_.codes_at_once(static_cast<std::int64_t>(which.size())));
  rounded_codes_.assign(which.size(), false);
  if (most == 0 && phase.together > 1 && !flip) {
    form_grams64_together(which, phase, moments);
    return;
  }
  std::vector<decode::DecodeView> views;
  std::vector<std::uint64_t> keys;
  for (std::size_t first = 0; first < which.size();) {
    throw_if_stopped(options_.stop);
    // Neighbours of one kind, so that a matrix keeps its bits whatever stands beside it.
    const auto kind_of = [&](std::size_t i) {
      batch_.upload(which[i] + 1);
      return most == 0 ? CodeScales::kUnfit : batch_[which[i]].scales;
    };
    const CodeScales kind = kind_of(first);
    std::size_t last = first + 1;
    while (kind != CodeScales::kUnfit && last < which.size() && last - first < most &&
           kind_of(last) == kind) {
      ++last;
    }
    const Range range("decode and gram");
    const StageClock::Span span(gram_clock_, stream());
    const auto position = static_cast<std::int64_t>(first);
    double* const grams = phase.grams + position * elements;
    RawMoments* const own = moments + position * task_.chunk_count();
    if (kind == CodeScales::kUnfit) {
      form_gram64(which[first], flip, phase, grams, own);
    } else {
      views.clear();
      keys.clear();
      for (std::size_t i = first; i < last; ++i) {
        views.push_back(batch_[which[i]].view);
        if (flip) {
          keys.push_back(batch_[which[i]].sign_flip_key);
        }
        rounded_codes_[i] = kind == CodeScales::kRounded;
      }
      kernels_.code_grams({.views = views,
                           .product = task_.routes.code_product,
                           .rounded = kind == CodeScales::kRounded,
                           .sign_flip_keys = keys,
                           .transposed = batch_[which[first]].transposed,
                           .sign_flip_draw = flip ? flip->value : 0,
                           .leading = phase.leading,
                           .grams = grams,
                           .moments = own,
                           .moments_each = task_.chunk_count()},
                          phase.slices, stream());
    }
    first = last;
  }
}

}  // namespace vindex::kernels
