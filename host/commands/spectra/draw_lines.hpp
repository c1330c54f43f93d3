// Owns how a file of spectra remembers its draw: a line of the fingerprint with the seed, which
// later runs and other parts must not contradict, the attribute `sample` of the root, and what its
// rows say of it.
#pragma once

#include "results/rows/stored_row.hpp"
#include "results/schema/run_description.hpp"
#include "statistics/null/finite_sample.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace vindex::commands {

/// The line of a run that draws by `seed`. Runs without one may be before it or behind it: the
/// selection may grow, and rows of no draw are in no estimate.
std::pair<std::string, std::string> draw_line(std::uint64_t seed);

/// The seed that a line of `lines` names; nothing where nothing was drawn.
std::optional<std::string> draw_seed(const results::Fingerprint& lines);

/// What a row says of the draw of its group.
inline statistics::DrawnMember drawn_member(const results::StoredRow& row) {
  return {
      .draw = row.draw, .draw_of = row.draw_of, .is_tried = row.status != MatrixStatus::kSkipped};
}

/// "16:7" as --sample takes it: the most matrices that are drawn of any group of routed experts (1
/// where there is none), measured or not, and the seed.
std::string sample_attribute(std::span<const results::StoredRow* const> rows,
                             const std::string& seed);

}  // namespace vindex::commands
