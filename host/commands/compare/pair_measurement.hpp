// Owns what a row of /pair/ is made of: both sides' inputs in one arrangement, what they have in
// common, the spectrum of their difference, and how near the strongest directions of both are.
#pragma once

#include "backend/backend.hpp"
#include "backend/derived_input.hpp"
#include "results/rows/result_row.hpp"
#include "statistics/comparison/pair_comparison.hpp"
#include "statistics/null/nulls.hpp"

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vindex::commands {

/// What is asked of every pair beside the comparison itself.
struct PairRequest {
  bool delta = false;         ///< the spectrum of B - A
  std::int64_t subspace = 0;  ///< the overlap of so many directions; 0: none
  MeasureOptions options = {};
  bool needs_back_end() const { return delta || subspace > 0; }
};

/// How the rows of B may lie otherwise than those of A.
struct HeadOrder {
  std::int64_t height = 0;  ///< rows of a head; 0: they cannot
  RotaryRows of_a = RotaryRows::kHalves;
};

/// True where B's rows are in the other order: put into A's they are nearer to it by far more than
/// chance makes them. `deviation`: of the cosine of noise of that shape.
bool is_other_order(const statistics::PairReport& as_stored,
                    const statistics::PairReport& reordered, double deviation);

/// The inputs of one model: a matrix, or the parts of one. They are never released by the one that
/// reads them, since they are read more than once.
class PairSide {
 public:
  /// `inputs` outlive it; several are keys and values of every head in turn, keys turned.
  explicit PairSide(std::span<MatrixInput* const> inputs);
  ~PairSide();
  PairSide(PairSide&&) noexcept;
  PairSide& operator=(PairSide&&) = delete;
  MatrixInput& input() { return *input_; }
  /// Presents its rows in the order `to` from here on.
  void reorder(std::int64_t height, RotaryRows to);
  /// True where a slab could not be read.
  bool has_failed() const;

 private:
  class WatchedInput;
  std::vector<std::unique_ptr<WatchedInput>> watched_;
  std::unique_ptr<MatrixInput> stacked_, reordered_;
  MatrixInput* input_ = nullptr;
};

/// One pair on its way to its row. rows x cols: its logical shape.
struct PairInWork {
  PairSide a, b;
  HeadOrder order;
  std::int64_t rows = 0, cols = 0;
  std::exception_ptr error = nullptr;  ///< what keeps the row from being made
  results::ResultRow row = {};
  bool is_open() const { return error == nullptr && row.status == MatrixStatus::kMeasured; }
};

/// Cosine, errors, norms. Pure but for reading. Trouble is the pair's.
void compare_pair(PairInWork& pair, std::int64_t subspace);

/// Adds the spectra of the differences of `pairs`, which are of one kind. `workspace_limit` as
/// Backend::measure(). Errors: DeviceError; others are the pairs'.
void add_deltas(std::span<PairInWork> pairs, Backend& backend, const PairRequest& request,
                std::uint64_t workspace_limit, statistics::NullCache& nulls);

/// Adds overlap and angles of the strongest directions of both sides, in the same way.
void add_subspaces(std::span<PairInWork> pairs, Backend& backend, const PairRequest& request,
                   std::uint64_t workspace_limit);

}  // namespace vindex::commands
