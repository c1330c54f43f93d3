// Owns the Haar pyramid of a sequence of weights that is read in pieces: the sums over all
// differences of every level, whatever pieces it came in and in whichever order.
//
// How: blocks of 1024 weights are summed as they become whole (statistics/scales/haar_block.hpp). A
// node (level, number) keeps the sum and the difference of its 2^level weights until its neighbour
// is there; then both become a node of the level above. Sums over blocks and nodes are exact
// (statistics/samples/exact_sum.hpp), so that their order does not matter. In order, one node a
// level waits and no weight is kept; slabs of columns leave a few nodes and up to two parts of
// blocks a row.
#pragma once

#include "haar_block.hpp"

#include "statistics/samples/exact_sum.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace vindex::statistics {

/// A level of the pyramid, j from 1: `count` = floor(n / 2^j) differences D of neighbouring sums of
/// 2^(j-1) weights, 2^(j/2) times the coefficients d_j of the orthonormal Haar transform.
struct HaarLevel {
  std::int64_t count = 0;
  double squares = 0.0;     ///< sum of D^2
  double magnitudes = 0.0;  ///< sum of D
  /// Of those that have a parent on the next level, which are all but the last of an odd count.
  double paired_squares = 0.0, paired_magnitudes = 0.0;
  double products = 0.0;  ///< sum over them of D times the parent's
};

class HaarPyramid {
 public:
  /// Of a sequence of `size` weights, 1 or more.
  explicit HaarPyramid(std::int64_t size);

  /// Weights [first, first + weights.size()) of the sequence. Each is given once, in any order.
  void add(std::int64_t first, std::span<const float> weights);
  bool is_complete() const { return seen_ == size_; }
  /// One of the weights was not finite: there are no levels.
  bool is_finite() const { return finite_; }
  /// Of a complete sequence of finite weights: all levels, the finest first.
  std::vector<HaarLevel> levels() const;

  /// Memory beside the object where all is added in order, and where it is added in slabs of the
  /// columns of a matrix: upper bounds.
  static std::uint64_t bytes_in_order(std::int64_t size);
  static std::uint64_t bytes_by_columns(std::int64_t rows, std::int64_t cols);

 private:
  struct Node {
    double sum = 0.0, difference = 0.0;
  };
  struct Place {
    std::int64_t number = -1;  ///< of the node; -1: none
    Node node;
  };
  /// A block of which some weights are missing.
  struct Part {
    std::vector<float> weights;
    std::int64_t seen = 0;
  };
  struct Sums {
    ExactSum squares, magnitudes, products;
  };

  void add_part(std::int64_t block, std::int64_t offset, std::span<const float> weights);
  void add_block(std::int64_t block, const float* weights);
  void add_rest(std::span<const float> weights);
  void add_sums(const HaarBlock& block);
  void add_node(std::size_t level, std::int64_t number, Node node);
  std::optional<Node> take_node(std::size_t level, std::int64_t number);
  double waiting_difference(std::size_t level, std::int64_t number) const;

  std::int64_t size_, seen_ = 0;
  bool finite_ = true;
  std::vector<Sums> sums_;             ///< by level - 1
  std::vector<Place> waiting_;         ///< by level, the node that came last
  std::vector<double> rest_unpaired_;  ///< by level - 1
  std::unordered_map<std::uint64_t, Node> others_;
  std::unordered_map<std::int64_t, Part> parts_;
};

}  // namespace vindex::statistics
