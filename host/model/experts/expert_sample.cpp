// Owns the draw and the texts of it.
#include "expert_sample.hpp"

#include "core/digest.hpp"
#include "core/philox.hpp"
#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace vindex::model {

namespace {

/// Uniform numbers of one group.
class GroupDraws {
 public:
  GroupDraws(std::uint64_t seed, std::int32_t layer, Block block, std::string_view role)
      : key_(seed) {
    const Sha256Digest digest = sha256(fmt::format("{} {} {}", layer, block_name(block), role));
    for (std::size_t i = 0; i < sizeof stream_; ++i) {
      stream_ |= std::uint64_t{digest[i]} << (8U * i);
    }
  }

  /// Below `bound` >= 1, without bias.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t refused = (0U - bound) % bound;
    while (true) {
      const PhiloxBlock block = philox_block(key_, next_++, stream_);
      const std::uint64_t word = block.word[0] | std::uint64_t{block.word[1]} << 32U;
      const auto product = static_cast<Wide>(word) * bound;
      if (static_cast<std::uint64_t>(product) >= refused) {
        return static_cast<std::uint64_t>(product >> 64U);
      }
    }
  }

 private:
  __extension__ using Wide = unsigned __int128;
  std::uint64_t key_;
  std::uint64_t stream_ = 0;
  std::uint64_t next_ = 0;
};

}  // namespace

SampleChoice parse_sample(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string_view whole = text;
  const auto experts = whole_number<std::int32_t>(whole.substr(0, colon));
  const auto seed = colon == std::string::npos
                        ? std::optional<std::uint64_t>(0)
                        : whole_number<std::uint64_t>(whole.substr(colon + 1));
  if (!experts || *experts < 1 || !seed) {
    throw UsageError("E-SAMPLE",
                     fmt::format("--sample '{}': write N or N:SEED, N experts of each layer and "
                                 "role, 1 or more, and a whole number as seed",
                                 printable(text)));
  }
  return {.experts = *experts, .seed = *seed};
}

std::vector<std::int32_t> drawn_order(std::uint64_t seed, std::int32_t layer, Block block,
                                      std::string_view role, std::int32_t count) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  GroupDraws draws(seed, layer, block, role);
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    std::swap(order[i], order[i + draws.below(order.size() - i)]);
  }
  return order;
}

void draw_groups(ModelIndex& index, std::uint64_t seed) {
  std::map<std::tuple<std::int32_t, Block, std::string_view>, std::vector<MatrixRecord*>> groups;
  for (MatrixRecord& matrix : index.matrices) {
    if (matrix.table == ResultTable::kMatrix) {
      groups[{matrix.layer, matrix.block, matrix.role}].push_back(&matrix);
    }
  }
  for (const auto& [key, members] : groups) {
    const auto& [layer, block, role] = key;
    expects(members.size() <= std::numeric_limits<std::int32_t>::max(),
            "matrices of one layer and role that an int32 counts");
    const auto count = static_cast<std::int32_t>(members.size());
    const std::vector<std::int32_t> order = drawn_order(seed, layer, block, role, count);
    for (std::int32_t turn = 0; turn < count; ++turn) {
      MatrixRecord& matrix =
          *members[static_cast<std::size_t>(order[static_cast<std::size_t>(turn)])];
      matrix.draw = turn;
      matrix.draw_of = count;
    }
  }
}

SampledSelection keep_sample(const ModelIndex& index, std::vector<std::int64_t> selected,
                             const SampleChoice& sample) {
  SampledSelection kept;
  kept.before = static_cast<std::int64_t>(selected.size());
  for (const std::int64_t i : selected) {
    const MatrixRecord& matrix = index.matrices[static_cast<std::size_t>(i)];
    if (matrix.table != ResultTable::kMatrix || matrix.block != Block::kRoutedExpert) {
      kept.selected.push_back(i);
      continue;
    }
    kept.least = kept.most == 0 ? matrix.draw_of : std::min(kept.least, matrix.draw_of);
    kept.most = std::max(kept.most, matrix.draw_of);
    if (sample.experts == 0 || matrix.draw < sample.experts) {
      kept.selected.push_back(i);
    }
  }
  return kept;
}

std::string sample_text(const SampledSelection& kept, const SampleChoice& sample) {
  if (kept.most == 0) {
    return fmt::format(
        "note: --sample and --order leave everything as it is: no routed expert is "
        "selected");
  }
  const std::string all = kept.least == kept.most ? std::to_string(kept.most)
                                                  : fmt::format("{} to {}", kept.least, kept.most);
  if (sample.experts == 0 || sample.experts >= kept.most) {
    return fmt::format("sample: all of {} experts of each layer and role, drawn by seed {}", all,
                       sample.seed);
  }
  return fmt::format("sample: {} of {} experts of each layer and role (seed {}), {} of {} matrices",
                     sample.experts, all, sample.seed, kept.selected.size(), kept.before);
}

}  // namespace vindex::model
