// Owns the judgement of what the cosines of two models' matrices say of their descent.
#include "graft_ancestry.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::organ {

std::vector<GraftFinding> check_ancestry(std::span<const Likeness> likeness) {
  std::vector<const Likeness*> known;
  for (const Likeness& one : likeness) {
    if (one.cosine) {
      known.push_back(&one);
    }
  }
  if (known.empty()) {
    return {{.id = "ancestry",
             .level = Level::kWarning,
             .what = "no matrix that is grafted could be set beside one of the same name",
             .advice = "whether the models descend from one another is not known"}};
  }
  std::sort(known.begin(), known.end(), [](const Likeness* a, const Likeness* b) {
    return *a->cosine != *b->cosine ? *a->cosine < *b->cosine : a->tensor < b->tensor;
  });
  const auto below = [&](double limit) {
    return std::count_if(known.begin(), known.end(),
                         [limit](const Likeness* one) { return *one->cosine < limit; });
  };
  const auto unrelated = below(kUnrelatedCosine);
  const auto unlike = below(kUnlikeCosine) - unrelated;
  const auto text = [&](const Likeness& one) {
    return fmt::format("{:.4f} in {}", *one.cosine, excerpt(one.tensor));
  };
  std::vector<GraftFinding> findings;
  if (unrelated > 0) {
    findings.push_back(
        {.id = "ancestry",
         .level = Level::kError,
         .what = fmt::format("{} of {} matrices are unrelated (cosine below {}): minimum {}",
                             unrelated, known.size(), kUnrelatedCosine, text(*known.front())),
         .advice = "unrelated models do not share a basis, and their parts do not fit together; "
                   "choose models of one family, or --accept-findings"});
  }
  if (unlike > 0) {
    findings.push_back(
        {.id = "ancestry",
         .level = Level::kWarning,
         .what = fmt::format("{} of {} matrices are far apart (cosine below {}): minimum {}",
                             unlike, known.size(), kUnlikeCosine,
                             text(*known[static_cast<std::size_t>(unrelated)])),
         .advice = "fine-tunes of one model have more than 0.9"});
  }
  findings.push_back(
      {.id = "ancestry",
       .level = Level::kNote,
       .what = fmt::format("cosine of {} matrices of donor and host: median {:.4f}, minimum {}",
                           known.size(), *known[known.size() / 2]->cosine, text(*known.front()))});
  return findings;
}

}  // namespace vindex::organ
