// Owns the choice of the kernel that multiplies the weights, and the exact diagonal put in
// afterwards.
#include "form_gram.hpp"

#include "gram.hpp"
#include "group_sums.hpp"
#include "short_norms.hpp"
#include "simd_gram_bf16.hpp"
#include "split_gram.hpp"

#include "core/integers.hpp"
#include "cpu/workspace/stopwatch.hpp"
#include "decode/encoding/code_layout.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace vindex::cpu {
namespace {

/// Weights whose largest magnitude is within 2^-30 .. 2^30 give a float32 Gram that neither
/// overflows (n < 2^27) nor loses to underflow (2^27 2^-149 against 2^-60); the bfloat16 kernel,
/// which flushes subnormals, asks for 2^-32 .. 2^32.
constexpr int kSafeExponent = 30;

/// Rms of the means of neighbouring elements about that of all, beyond what independent ones have.
double spread_of_blocks(std::span<const double> values) {
  constexpr std::size_t kBlock = 32;
  const std::size_t blocks = values.size() / kBlock;
  if (blocks < 2) {
    return 0.0;
  }
  double sum = 0.0;
  double squares = 0.0;
  double means_squared = 0.0;
  for (std::size_t block = 0; block < blocks; ++block) {
    double own = 0.0;
    for (const double value : values.subspan(block * kBlock, kBlock)) {
      own += value;
      squares += value * value;
    }
    sum += own;
    means_squared += own * own / (kBlock * kBlock);
  }
  const auto count = static_cast<double>(blocks);
  const double mean = sum / (count * kBlock);
  const double by_chance = squares / (count * kBlock) / kBlock;
  constexpr double kChance = 2.0;
  return std::sqrt(std::max(0.0, means_squared / count - mean * mean - kChance * by_chance));
}

/// Puts exact sums of squares on the diagonal, and takes the bias that they show out of the other
/// entries by their squared cosine: it is that of sums of one sign, so it is in full where two
/// lines are nearly parallel, and their small difference lives by its being equal. Sums of both
/// signs stay small while they grow and have none; taking it from them too would be an error of its
/// own, the same multiple of every entry off the diagonal. What the sums of one sign were seen to
/// round, and how much of the matrix they are, goes to `formed`.
template <typename Real>
void set_diagonal(WorkArray<double>& norms, Real* gram, FormedGram& formed) {
  const std::int64_t p = norms.size();
  WorkArray<double>& share = norms;  // becomes half the relative bias, once the sum is placed
  double rounding_squared = 0.0;
  for (std::int64_t i = 0; i < p; ++i) {
    Real& entry = gram[i * p + i];
    const double rounded = static_cast<double>(entry);
    const double exact = norms[i];
    entry = static_cast<Real>(exact);
    share[i] = rounded > 0.0 && std::isfinite(exact) ? 0.5 * (exact / rounded - 1.0) : 0.0;
    rounding_squared += 4.0 * share[i] * share[i];
  }
  const double spread = 2.0 * spread_of_blocks(share.span());
  double aligned = 0.0;
  double parallel = 0.0;
  for (std::int64_t j = 0; j < p; ++j) {
    const auto own = static_cast<double>(gram[j * p + j]);
    for (std::int64_t i = 0; i < j; ++i) {
      const auto entry = static_cast<double>(gram[j * p + i]);
      const double norms_squared = own * static_cast<double>(gram[i * p + i]);
      const double cosine_squared =
          norms_squared > 0.0 ? std::min(1.0, entry * entry / norms_squared) : 0.0;
      const double part = entry * entry * cosine_squared;
      aligned += 2.0 * part;
      parallel += 2.0 * part * cosine_squared;
      gram[j * p + i] = static_cast<Real>(entry + entry * cosine_squared * (share[i] + share[j]));
    }
  }
  formed.diagonal_rounding = std::sqrt(rounding_squared / static_cast<double>(p));
  formed.aligned_norm_squared = aligned;
  formed.block_rounding = spread * std::sqrt(parallel);
}

/// One pass that fills the upper triangle of a matrix.
template <typename Real>
class GramPass {
 public:
  /// `groups`, where given, says whether `gram` takes all sums.
  GramPass(const SvdPlan& plan, const TileChange& change, Real* gram, GroupSums* groups,
           Workspace& workspace, double& seconds)
      : plan_(plan),
        gram_(gram),
        groups_(groups),
        workspace_(workspace),
        seconds_(seconds),
        wide_(workspace, kWide ? plan.chunk * plan.short_side : 0, "weights as doubles"),
        norms_(workspace, kWide ? 0 : plan.short_side, "the diagonal of the Gram matrix") {
    // Weights that are exact in bfloat16 take the faster kernel in a pass that changes nothing.
    if (kWide || !plan.takes_bf16 || change.sign_flip_draw.has_value() ||
        change.scale_exponent != 0) {
      exact_in_bf16_ = false;
    }
  }

  /// Rubbish where a weight is not finite.
  FormedGram run(TileReader& reader, const TileChange& change) {
    formed_ = {};
    std::fill_n(gram_, plan_.short_side * plan_.short_side, Real{0});
    std::fill_n(norms_.data(), norms_.size(), 0.0);
    if (groups_ != nullptr) {
      groups_->begin();
    }
    reader.pass(change, std::bind_front(&GramPass::use_tile, this),
                std::bind_front(&GramPass::use_slab, this));
    if (reader.finite()) {
      finish();
    }
    formed_.depth = exact_in_bf16_.value_or(false) ? kBf16Depth : plan_.chunk;
    return formed_;
  }

 private:
  static constexpr bool kWide = sizeof(Real) == sizeof(double);

  bool needs_products() const { return groups_ == nullptr || groups_->kind() != GramSums::kWide; }

  void use_tile(const Tile& tile) {
    const Stopwatch watch(seconds_);
    if constexpr (!kWide) {
      add_short_norms(tile, plan_.row_slabs, norms_.data());
      add_line_norms(tile);
      if (groups_ != nullptr) {
        groups_->see(tile, formed_.line_norms_squared);
      }
    }
    if (tile.encoded == nullptr) {
      exact_in_bf16_ = false;
    } else if (!exact_in_bf16_.has_value()) {
      exact_in_bf16_ = gram_bf16_takes(*tile.encoded, plan_.row_slabs);
    }
    if (!*exact_in_bf16_ && needs_products()) {
      add(tile);
    }
  }

  /// A few outlier lines anywhere round like all of them together (statistics::GramNorms).
  void add_line_norms(const Tile& tile) {
    // The lines of the long side are those of the short side of the tile turned.
    line_norms_.assign(as_size(plan_.row_slabs ? tile.rows : tile.cols), 0.0);
    add_short_norms(tile, !plan_.row_slabs, line_norms_.data());
    for (const double norm : line_norms_) {
      formed_.line_norms_squared += norm * norm;
    }
  }

  void add(const Tile& tile) {
    if constexpr (kWide) {
      add_to_gram(tile, plan_.row_slabs, wide_.data(), gram_);
    } else {
      // A matrix unit takes weights that it multiplies faster in parts.
      const int parts =
          plan_.tiles == nullptr ? 0 : split_parts_of(tile, max_split_parts(plan_.long_side));
      if (parts == 0) {
        add_to_gram(tile, plan_.row_slabs, gram_);
      } else {
        add_split_gram(tile, parts, plan_.row_slabs, gram_,
                       pack_into(split_gram_workspace_bytes(plan_.short_side)), plan_.tiles,
                       best_simd_level(), workspace_.stop());
      }
      are_added(plan_.row_slabs ? tile.rows : tile.cols);
    }
  }

  void use_slab(const decode::EncodedMatrix& slab) {
    if constexpr (!kWide) {
      if (!exact_in_bf16_.value_or(false)) {
        return;
      }
      const Stopwatch watch(seconds_);
      const std::int64_t p = plan_.short_side;
      const std::int64_t rows = plan_.row_slabs ? slab.rows : slab.cols;
      std::int64_t count = 0;
      for (std::int64_t first = 0; first < rows && needs_products(); first += count) {
        count = std::min(groups_ == nullptr ? rows : groups_->room(), rows - first);
        const decode::EncodedMatrix part = plan_.row_slabs
                                               ? decode::row_slab(slab, first, count)
                                               : decode::column_slab(slab, first, count);
        gram_bf16(part, plan_.row_slabs, 1.0F, gram_, p,
                  pack_into(gram_bf16_workspace_bytes(p, plan_.tiles != nullptr)),
                  best_simd_level(), workspace_.stop(), plan_.tiles);
        are_added(count);
      }
    }
  }

  void are_added(std::int64_t rows) {
    if (groups_ != nullptr) {
      groups_->added(rows);
    }
  }

  void finish() {
    if constexpr (!kWide) {
      const Stopwatch watch(seconds_);
      if (groups_ != nullptr) {
        groups_->finish();
      }
      if (groups_ != nullptr && groups_->kind() == GramSums::kGrouped) {
        set_diagonal(norms_, groups_->matrix().data(), formed_);
      } else if (needs_products()) {
        set_diagonal(norms_, gram_, formed_);
      }
    }
  }

  std::span<std::byte> pack_into(std::size_t bytes) {
    if (packed_.size() == 0) {
      packed_ =
          WorkArray<std::byte>(workspace_, static_cast<std::int64_t>(bytes), "packed weights");
    }
    return packed_.span();
  }

  const SvdPlan& plan_;
  Real* gram_;
  GroupSums* groups_;
  Workspace& workspace_;
  double& seconds_;
  WorkArray<double> wide_, norms_;
  FormedGram formed_;
  std::vector<double> line_norms_;
  WorkArray<std::byte> packed_;
  std::optional<bool> exact_in_bf16_;  ///< nothing before the first tile
};

}  // namespace

int gram_scale_exponent(double max_abs) {
  if (max_abs == 0.0) {
    return 0;
  }
  int exponent = 0;
  std::frexp(max_abs, &exponent);
  return std::abs(exponent) <= kSafeExponent ? 0 : std::clamp(-exponent, -126, 126);
}

FormedGram form_gram(TileReader& reader, const SvdPlan& plan, TileChange& change,
                     Workspace& workspace, float* gram, double& seconds, GroupSums* groups) {
  const FormedGram formed =
      GramPass<float>(plan, change, gram, groups, workspace, seconds).run(reader, change);
  if (!reader.finite() || change.scale_exponent != 0) {
    return formed;
  }
  // Weights far from 1 are rare, so the first pass does not wait for a pass that finds the largest.
  // The largest weight is known only now.
  change.scale_exponent = gram_scale_exponent(reader.moments().max_abs());
  return change.scale_exponent == 0
             ? formed
             : GramPass<float>(plan, change, gram, groups, workspace, seconds).run(reader, change);
}

void form_gram(TileReader& reader, const SvdPlan& plan, TileChange& change, Workspace& workspace,
               double* gram, double& seconds) {
  GramPass<double>(plan, change, gram, nullptr, workspace, seconds).run(reader, change);
}

}  // namespace vindex::cpu
