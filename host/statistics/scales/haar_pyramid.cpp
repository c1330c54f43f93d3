// Owns the nodes of a Haar pyramid and the parts of blocks that wait for their other half.
#include "haar_pyramid.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace vindex::statistics {

namespace {

/// Levels that a sequence of that length has: the last one has a single difference.
std::size_t level_count(std::int64_t size) {
  return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(size))) - 1;
}

std::uint64_t key_of(std::size_t level, std::int64_t number) {
  return static_cast<std::uint64_t>(level) << 56U | static_cast<std::uint64_t>(number);
}

/// What a map takes for an entry beside its value.
constexpr std::uint64_t kEntryBytes = 64;

}  // namespace

HaarPyramid::HaarPyramid(std::int64_t size) : size_(size) {
  expects(size > 0 && size < std::int64_t{1} << 40U, "a sequence of 1 to 2^40 weights");
  const std::size_t levels = level_count(size);
  sums_.resize(levels);
  waiting_.resize(levels + 1);
  rest_unpaired_.resize(levels);
}

std::uint64_t HaarPyramid::bytes_in_order(std::int64_t size) {
  return (sizeof(Sums) + sizeof(Place) + sizeof(double)) * (level_count(size) + 1) +
         sizeof(float) * kHaarBlock + 2 * kEntryBytes;
}

std::uint64_t HaarPyramid::bytes_by_columns(std::int64_t rows, std::int64_t cols) {
  // A row that is read up to some column has weights from its beginning to the first whole block
  // and from its last one on, and between them at most two nodes a level.
  const std::uint64_t parts = 2 * (sizeof(float) * kHaarBlock + sizeof(Part) + kEntryBytes);
  const std::uint64_t nodes = 2 * level_count(cols) * (sizeof(Node) + kEntryBytes);
  return bytes_in_order(rows * cols) + static_cast<std::uint64_t>(rows) * (parts + nodes);
}

void HaarPyramid::add(std::int64_t first, std::span<const float> weights) {
  const auto count = static_cast<std::int64_t>(weights.size());
  expects(first >= 0 && count <= size_ - first && count <= size_ - seen_,
          "HaarPyramid: weights within the sequence, each once");
  seen_ += count;
  while (!weights.empty()) {
    const std::int64_t block = first / kHaarBlock;
    const std::int64_t offset = first % kHaarBlock;
    const auto step =
        std::min<std::size_t>(weights.size(), static_cast<std::size_t>(kHaarBlock - offset));
    if (step == static_cast<std::size_t>(kHaarBlock)) {
      add_block(block, weights.data());
    } else {
      add_part(block, offset, weights.first(step));
    }
    first += static_cast<std::int64_t>(step);
    weights = weights.subspan(step);
  }
}

void HaarPyramid::add_part(std::int64_t block, std::int64_t offset,
                           std::span<const float> weights) {
  const std::int64_t wanted = std::min(kHaarBlock, size_ - block * kHaarBlock);
  Part& part = parts_[block];
  part.weights.resize(static_cast<std::size_t>(wanted));
  std::copy(weights.begin(), weights.end(), part.weights.begin() + offset);
  part.seen += static_cast<std::int64_t>(weights.size());
  if (part.seen < wanted) {
    return;
  }
  const std::vector<float> whole = std::move(part.weights);
  parts_.erase(block);
  if (wanted == kHaarBlock) {
    add_block(block, whole.data());
  } else {
    add_rest(whole);
  }
}

void HaarPyramid::add_sums(const HaarBlock& block) {
  double all = 0.0;  // finite only if every sum is
  for (std::size_t i = 0; i < kHaarBlockLevels; ++i) {
    all += block.squares[i] + block.magnitudes[i] + block.products[i];
  }
  finite_ = finite_ && std::isfinite(all + block.sum);
  for (std::size_t i = 0; finite_ && i < std::min(kHaarBlockLevels, sums_.size()); ++i) {
    sums_[i].squares.add(block.squares[i]);
    sums_[i].magnitudes.add(block.magnitudes[i]);
    sums_[i].products.add(block.products[i]);
  }
}

void HaarPyramid::add_block(std::int64_t block, const float* weights) {
  const HaarBlock sums = haar_block(weights);
  add_sums(sums);
  if (finite_) {
    add_node(kHaarBlockLevels, block, {sums.sum, sums.difference});
  }
}

void HaarPyramid::add_rest(std::span<const float> weights) {
  const HaarRest rest = haar_rest(weights);
  add_sums(rest);
  // A single weight has no difference and would not be seen.
  finite_ = finite_ && std::all_of(weights.begin(), weights.end(),
                                   [](float weight) { return std::isfinite(weight); });
  std::copy_n(rest.unpaired.begin(), std::min(kHaarBlockLevels, rest_unpaired_.size()),
              rest_unpaired_.begin());
}

void HaarPyramid::add_node(std::size_t level, std::int64_t number, Node node) {
  while (const std::optional<Node> other = take_node(level, number ^ 1)) {
    const Node& left = number % 2 == 0 ? node : *other;
    const Node& right = number % 2 == 0 ? *other : node;
    const double difference = std::abs(left.sum - right.sum);
    sums_[level].squares.add(difference * difference);
    sums_[level].magnitudes.add(difference);
    sums_[level - 1].products.add(difference * (left.difference + right.difference));
    node = {left.sum + right.sum, difference};
    ++level;
    number /= 2;
  }
  Place& place = waiting_[level];
  if (place.number >= 0) {
    others_.emplace(key_of(level, place.number), place.node);
  }
  place = {number, node};
}

std::optional<HaarPyramid::Node> HaarPyramid::take_node(std::size_t level, std::int64_t number) {
  Place& place = waiting_[level];
  if (place.number == number) {
    place.number = -1;
    return place.node;
  }
  if (others_.empty()) {
    return std::nullopt;
  }
  const auto found = others_.find(key_of(level, number));
  if (found == others_.end()) {
    return std::nullopt;
  }
  const Node node = found->second;
  others_.erase(found);
  return node;
}

double HaarPyramid::waiting_difference(std::size_t level, std::int64_t number) const {
  if (waiting_[level].number == number) {
    return waiting_[level].node.difference;
  }
  const auto found = others_.find(key_of(level, number));
  expects(found != others_.end(), "the last of an odd number of nodes waits");
  return found->second.difference;
}

std::vector<HaarLevel> HaarPyramid::levels() const {
  expects(is_complete() && is_finite(), "levels of a complete sequence of finite weights");
  std::vector<HaarLevel> out;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    HaarLevel& level = out.emplace_back();
    level.count = size_ >> (i + 1);
    level.squares = sums_[i].squares.value();
    level.magnitudes = sums_[i].magnitudes.value();
    level.products = sums_[i].products.value();
    level.paired_squares = level.squares;
    level.paired_magnitudes = level.magnitudes;
    if (level.count % 2 == 1) {
      const double alone = i + 1 < kHaarBlockLevels || size_ < kHaarBlock
                               ? rest_unpaired_[i]
                               : waiting_difference(i + 1, level.count - 1);
      level.paired_squares -= alone * alone;
      level.paired_magnitudes -= alone;
    }
  }
  return out;
}

}  // namespace vindex::statistics
