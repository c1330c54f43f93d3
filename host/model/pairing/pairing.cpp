// Owns parsing a map of layers, and pairing by name and by place.
#include "pairing.hpp"

#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace vindex::model {

namespace {

constexpr std::int64_t kNone = -1;
constexpr std::int64_t kIsPart = -2;  ///< of a matrix that the other model stores whole

[[noreturn]] void refuse_map(std::string_view part, const char* why) {
  throw UsageError("E-MAP", fmt::format("--map `{}`: {}; write layers of A, a colon and as many of "
                                        "B, for example 0-10:4-14",
                                        excerpt(std::string(part)), why));
}

/// "7" or "4-14".
std::optional<std::pair<std::int32_t, std::int32_t>> parse_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = whole_number<std::int32_t>(text.substr(0, dash));
  const auto last =
      dash == std::string_view::npos ? first : whole_number<std::int32_t>(text.substr(dash + 1));
  return first && last && 0 <= *first && *first <= *last ? std::optional(std::pair(*first, *last))
                                                         : std::nullopt;
}

/// Layer of A that stands beside layer `layer` of B, or nothing.
std::optional<std::int32_t> layer_in_a(const LayerMap& map, std::int32_t layer) {
  if (map.empty() || layer < 0) {
    return layer;
  }
  for (const LayerRange& range : map) {
    if (layer >= range.first_b && layer - range.first_b <= range.last_a - range.first_a) {
      return range.first_a + (layer - range.first_b);
    }
  }
  return std::nullopt;
}

/// Where a matrix stands, in the layers of A.
using PairPlace = std::tuple<std::int32_t, Block, std::string, std::int32_t, std::int32_t>;
PairPlace place_in_pair(const MatrixRecord& matrix, std::int32_t layer) {
  const bool repeats = matrix.slice >= 0 && matrix.slice == matrix.expert;
  return {layer, matrix.block, matrix.role, matrix.expert, repeats ? -1 : matrix.slice};
}

bool same_shape(const MatrixRecord& a, const MatrixRecord& b) {
  return a.rows == b.rows && a.cols == b.cols;
}

std::string shape_reason(const MatrixRecord& other, const char* side) {
  return fmt::format("it is {} x {} in {}", other.rows, other.cols, side);
}

std::string name_key(const MatrixRecord& matrix) {
  return fmt::format("{}\n{}", matrix.tensor, matrix.slice);
}

/// Matrices of one place that have no partner by name.
struct Candidates {
  std::vector<std::int64_t> a, b;
};

class Pairer {
 public:
  Pairer(const ModelIndex& a, const ModelIndex& b, const LayerMap& map)
      : a_(a),
        b_(b),
        map_(map),
        partner_a_(a.matrices.size(), kNone),
        partner_b_(b.matrices.size(), kNone),
        reason_a_(a.matrices.size()),
        reason_b_(b.matrices.size()) {}

  Pairing run() {
    pair_names();
    pair_places();
    pair_split_attentions();
    Pairing pairing;
    for (std::size_t i = 0; i < a_.matrices.size(); ++i) {
      const auto number = static_cast<std::int64_t>(i);
      if (partner_a_[i] >= 0) {
        MatrixPair pair{.a = number, .b = partner_a_[i]};
        if (const auto parts = parts_a_.find(number); parts != parts_a_.end()) {
          pair.parts_a = parts->second;
        }
        if (const auto parts = parts_b_.find(pair.b); parts != parts_b_.end()) {
          pair.parts_b = parts->second;
        }
        pairing.pairs.push_back(std::move(pair));
      } else if (partner_a_[i] == kNone && is_row(a_.matrices[i])) {
        pairing.a.push_back({number, reason_a_[i]});
      }
    }
    for (std::size_t i = 0; i < b_.matrices.size(); ++i) {
      if (partner_b_[i] == kNone && is_row(b_.matrices[i])) {
        pairing.b.push_back({static_cast<std::int64_t>(i), reason_b_[i]});
      }
    }
    return pairing;
  }

 private:
  static bool is_row(const MatrixRecord& matrix) { return matrix.table == ResultTable::kMatrix; }
  const MatrixRecord& in_a(std::int64_t i) const {
    return a_.matrices[static_cast<std::size_t>(i)];
  }
  const MatrixRecord& in_b(std::int64_t i) const {
    return b_.matrices[static_cast<std::size_t>(i)];
  }
  bool is_free_a(std::size_t i) const {
    return is_row(a_.matrices[i]) && partner_a_[i] == kNone && reason_a_[i].empty();
  }
  bool is_free_b(std::size_t i) const {
    return is_row(b_.matrices[i]) && partner_b_[i] == kNone && reason_b_[i].empty();
  }
  void join(std::int64_t a, std::int64_t b) {
    partner_a_[static_cast<std::size_t>(a)] = b;
    partner_b_[static_cast<std::size_t>(b)] = a;
  }
  void refuse(std::int64_t a, std::int64_t b) {
    reason_a_[static_cast<std::size_t>(a)] = shape_reason(in_b(b), "B");
    reason_b_[static_cast<std::size_t>(b)] = shape_reason(in_a(a), "A");
  }

  void pair_names() {
    std::unordered_map<std::string, std::int64_t> names;
    for (std::size_t i = 0; i < b_.matrices.size(); ++i) {
      if (is_row(b_.matrices[i])) {
        names.emplace(name_key(b_.matrices[i]), static_cast<std::int64_t>(i));
      }
    }
    for (std::size_t i = 0; i < a_.matrices.size(); ++i) {
      const MatrixRecord& matrix = a_.matrices[i];
      const auto found = is_row(matrix) ? names.find(name_key(matrix)) : names.end();
      if (found == names.end() ||
          layer_in_a(map_, in_b(found->second).layer) != std::optional(matrix.layer)) {
        continue;
      }
      const auto number = static_cast<std::int64_t>(i);
      if (same_shape(matrix, in_b(found->second))) {
        join(number, found->second);
      } else {
        refuse(number, found->second);
      }
    }
  }

  void pair_places() {
    std::map<PairPlace, Candidates> places;
    for (std::size_t i = 0; i < a_.matrices.size(); ++i) {
      const MatrixRecord& matrix = a_.matrices[i];
      if (!is_free_a(i)) {
        continue;
      }
      if (mapped_layer(map_, matrix.layer)) {
        places[place_in_pair(matrix, matrix.layer)].a.push_back(static_cast<std::int64_t>(i));
      } else {
        reason_a_[i] = fmt::format("layer {} of A is not in --map", matrix.layer);
      }
    }
    for (std::size_t i = 0; i < b_.matrices.size(); ++i) {
      const MatrixRecord& matrix = b_.matrices[i];
      if (!is_free_b(i)) {
        continue;
      }
      if (const auto layer = layer_in_a(map_, matrix.layer)) {
        places[place_in_pair(matrix, *layer)].b.push_back(static_cast<std::int64_t>(i));
      } else {
        reason_b_[i] = fmt::format("layer {} of B is not in --map", matrix.layer);
      }
    }
    for (const auto& [place, candidates] : places) {
      pair_place(candidates);
    }
  }

  /// Of each shape, the one of A and the one of B.
  void pair_place(const Candidates& candidates) {
    std::map<std::pair<std::int64_t, std::int64_t>, Candidates> shapes;
    for (const std::int64_t i : candidates.a) {
      shapes[{in_a(i).rows, in_a(i).cols}].a.push_back(i);
    }
    for (const std::int64_t i : candidates.b) {
      shapes[{in_b(i).rows, in_b(i).cols}].b.push_back(i);
    }
    for (const auto& [shape, alike] : shapes) {
      if (alike.a.size() == 1 && alike.b.size() == 1) {
        join(alike.a.front(), alike.b.front());
        continue;
      }
      for (const std::int64_t i : alike.a) {
        reason_a_[static_cast<std::size_t>(i)] =
            why_not(in_a(i), candidates.b, b_, alike.b.empty(), "B");
      }
      for (const std::int64_t i : alike.b) {
        reason_b_[static_cast<std::size_t>(i)] =
            why_not(in_b(i), candidates.a, a_, alike.a.empty(), "A");
      }
    }
  }

  /// The kv_b_proj of every layer that one model stores whole and the other in heads. What of it
  /// is unpaired by now has no partner of its name, place and shape.
  void pair_split_attentions() {
    const std::map<std::int32_t, SplitAttention> in_a = split_attentions(a_, partner_a_, true);
    const std::map<std::int32_t, SplitAttention> in_b = split_attentions(b_, partner_b_, false);
    for (const auto& [layer, a] : in_a) {
      const auto found = in_b.find(layer);
      if (found == in_b.end()) {
        continue;
      }
      const SplitAttention& b = found->second;
      if (a.whole.size() == 1 && stack_up(in_a_of(a.whole), b_, b)) {
        take_parts(b, partner_b_, parts_b_);
        join(a.whole.front(), b.keys.front());
      } else if (b.whole.size() == 1 &&
                 stack_up(b_.matrices[static_cast<std::size_t>(b.whole.front())], a_, a)) {
        take_parts(a, partner_a_, parts_a_);
        join(a.keys.front(), b.whole.front());
      }
    }
  }

  /// What of a layer's attention is not paired yet, in the order of the matrices.
  struct SplitAttention {
    std::vector<std::int64_t> whole, keys, values;
  };
  const MatrixRecord& in_a_of(const std::vector<std::int64_t>& one) const {
    return in_a(one.front());
  }

  std::map<std::int32_t, SplitAttention> split_attentions(const ModelIndex& index,
                                                          const std::vector<std::int64_t>& partner,
                                                          bool of_a) const {
    std::map<std::int32_t, SplitAttention> found;
    for (std::size_t i = 0; i < index.matrices.size(); ++i) {
      const MatrixRecord& matrix = index.matrices[i];
      const auto layer = of_a ? std::optional(matrix.layer) : layer_in_a(map_, matrix.layer);
      if (!is_row(matrix) || partner[i] != kNone || matrix.block != Block::kAttention || !layer ||
          (of_a && !mapped_layer(map_, matrix.layer))) {
        continue;
      }
      const auto number = static_cast<std::int64_t>(i);
      if (matrix.role == "kv_b_proj" && matrix.slice < 0) {
        found[*layer].whole.push_back(number);
      } else if (matrix.role == "k_b_proj" && matrix.slice >= 0) {
        found[*layer].keys.push_back(number);
      } else if (matrix.role == "v_b_proj" && matrix.slice >= 0) {
        found[*layer].values.push_back(number);
      }
    }
    return found;
  }

  /// True where the heads of `parts` below each other have the shape of `whole`: keys are latent x
  /// height, values height x latent.
  static bool stack_up(const MatrixRecord& whole, const ModelIndex& index,
                       const SplitAttention& parts) {
    if (parts.keys.empty() || parts.keys.size() != parts.values.size()) {
      return false;
    }
    std::int64_t rows = 0;
    for (std::size_t head = 0; head < parts.keys.size(); ++head) {
      const MatrixRecord& key = index.matrices[static_cast<std::size_t>(parts.keys[head])];
      const MatrixRecord& value = index.matrices[static_cast<std::size_t>(parts.values[head])];
      if (key.slice != static_cast<std::int32_t>(head) || value.slice != key.slice ||
          key.rows != whole.cols || value.cols != whole.cols) {
        return false;
      }
      rows += key.cols + value.rows;
    }
    return rows == whole.rows;
  }

  static void take_parts(const SplitAttention& parts, std::vector<std::int64_t>& partner,
                         std::map<std::int64_t, std::vector<std::int64_t>>& taken) {
    std::vector<std::int64_t>& all = taken[parts.keys.front()];
    for (std::size_t head = 0; head < parts.keys.size(); ++head) {
      for (const std::int64_t part : {parts.keys[head], parts.values[head]}) {
        all.push_back(part);
        partner[static_cast<std::size_t>(part)] = kIsPart;
      }
    }
  }

  static std::string why_not(const MatrixRecord& matrix, const std::vector<std::int64_t>& others,
                             const ModelIndex& index, bool none_alike, const char* side) {
    if (others.empty()) {
      return fmt::format("{} has no {} {} there", side, block_name(matrix.block),
                         printable(matrix.role));
    }
    if (none_alike) {
      return shape_reason(index.matrices[static_cast<std::size_t>(others.front())], side);
    }
    return fmt::format(
        "ambiguous: several matrices share its layer, block, role and shape, by other names in {}",
        side);
  }

  const ModelIndex& a_;
  const ModelIndex& b_;
  const LayerMap& map_;
  std::vector<std::int64_t> partner_a_, partner_b_;
  std::vector<std::string> reason_a_, reason_b_;
  std::map<std::int64_t, std::vector<std::int64_t>> parts_a_, parts_b_;  ///< by the first of them
};

}  // namespace

LayerMap parse_layer_map(const std::string& text) {
  LayerMap map;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const std::size_t colon = part.find(':');
    if (colon == std::string_view::npos) {
      refuse_map(part, "no colon");
    }
    const auto a = parse_range(part.substr(0, colon));
    const auto b = parse_range(part.substr(colon + 1));
    if (!a || !b) {
      refuse_map(part, "no two ranges of layers");
    }
    if (a->second - a->first != b->second - b->first) {
      refuse_map(part, "the two ranges differ in length");
    }
    const LayerRange range{a->first, a->second, b->first};
    for (const LayerRange& other : map) {
      const auto overlap = [&](std::int32_t first, std::int32_t second) {
        return first <= second + (other.last_a - other.first_a) &&
               second <= first + (range.last_a - range.first_a);
      };
      if (overlap(range.first_a, other.first_a) || overlap(range.first_b, other.first_b)) {
        refuse_map(part, "a layer is named twice");
      }
    }
    map.push_back(range);
  }
  return map;
}

std::optional<std::int32_t> mapped_layer(const LayerMap& map, std::int32_t layer) {
  if (map.empty() || layer < 0) {
    return layer;
  }
  for (const LayerRange& range : map) {
    if (layer >= range.first_a && layer <= range.last_a) {
      return range.first_b + (layer - range.first_a);
    }
  }
  return std::nullopt;
}

Pairing pair_matrices(const ModelIndex& a, const ModelIndex& b, const LayerMap& map) {
  return Pairer(a, b, map).run();
}

}  // namespace vindex::model
