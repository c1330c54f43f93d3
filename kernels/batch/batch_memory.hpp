// Owns how the device memory of a batch is laid out and how many matrices fit. Phases of a batch
// follow each other on one stream and share one piece of memory (the arena); encoded weights and
// results last to the end. Pure: with a Arena that only counts, the layouts say how much they
// need.
#pragma once

#include "kernels/decode/decode_matrix.hpp"
#include "kernels/decode/encoded_upload.hpp"
#include "kernels/gram/gram_plan.hpp"
#include "kernels/gram/symmetric.hpp"
#include "kernels/library/library_solver.hpp"
#include "kernels/two_stage/two_stage.hpp"

#include <cstdint>
#include <vector>

namespace vindex::kernels {

/// Matrices of one encoding and shape, and how they are to be measured.
struct BatchTask {
  std::int64_t rows = 0, cols = 0;  ///< as stored
  RoutePlan routes;
  OperandPlan operands;
  SlotLayout slot;
  DeviceTraits device;
  bool is_fast = false;             ///< the top values alone
  std::int64_t vector_columns = 0;  ///< singular vectors looked for; 0: none

  bool row_chunks() const { return rows >= cols; }  ///< the long side is the rows
  std::int64_t p() const { return rows < cols ? rows : cols; }
  std::int64_t n() const { return rows < cols ? cols : rows; }
  GramShape gram_shape() const { return {.rows = rows, .cols = cols}; }
  /// Rows decoded at a time in float64; depends on the shape alone, since sums run in this order.
  std::int64_t chunk_rows() const;
  std::int64_t chunk_count() const;  ///< of a matrix
  std::int64_t slab_length() const;  ///< along the long side, of a pass over the weights
  /// That float64 Gram matrices of `count` work in by int8 products; 0 where there are none.
  std::int64_t slice_bytes(std::int64_t count) const;
  /// Of `count` float64 Gram matrices, how many are formed from codes at once; 0: none.
  std::int64_t codes_at_once(std::int64_t count) const;
  bool iterates() const;   ///< `fast` by an iteration and a proof of its bounds
  bool wants_top() const;  ///< an iteration, for that or for vectors
  /// The most of the smallest values that are looked for again; 0: kTail is not to be had.
  std::int64_t max_tail_values() const;
  /// How the stages behind float32 bands compute.
  StagePrecision stages() const;
  /// Sweeps of a group of the chase of float32 bands in float64, by whichever kernel, for which
  /// every element of the band rounds once.
  int stored_chase_sweeps() const;
  /// Of `count` float32 matrices, how many are solved at a time: one for each multiprocessor, so
  /// that these are busy and the next ones are read and uploaded meanwhile.
  std::int64_t eigen_piece(std::int64_t count) const;
  /// Matrices whose float64 Grams are formed by one product; depends on the shape alone, as bits
  /// may depend on it. 1: each by its own, in chunks.
  std::int64_t grams_together() const;
  /// Of `count` matrices, how many a projection of `fast` takes at once in float64.
  std::int64_t projected_at_once(std::int64_t count) const;
};

/// Numbers of matrices held at a time.
struct BatchSizes {
  std::int64_t batch = 1;  ///< encoded, and in float32
  std::int64_t wide = 1;   ///< as float64 Gram matrices
};

/// What comes back to the host, in one copy. Arrays [batch] unless said otherwise.
struct BatchResults {
  BatchResults(const BatchTask& task, std::int64_t batch, Arena& memory);
  double* values;  ///< [batch][p], eigenvalues
  int* failed;
  std::int32_t* exponents;
  GramFacts* gram_facts;            ///< of the float32 Gram
  DiagonalFacts* diagonal_facts;    ///< of the float32 Gram, in its units
  double* additive;                 ///< of the float32 Gram, kAdditiveParts each, in its units
  SymmetricFacts* symmetric_facts;  ///< of the float64 Gram
  RawMoments* moments;              ///< [batch][chunk_count]
  double* passes;                   ///< of the two-stage routes: sum_passes() of each band
};

/// Weights of one matrix decoded, as Float64Phase has them.
struct Float64Phase;
struct WeightPhase {
  WeightPhase(const BatchTask& task, Arena& memory);
  explicit WeightPhase(const Float64Phase& phase);  ///< the same arrays
  float* decoded;
  double* wide;
};

/// float32 Gram matrices and their solver; behind them, where tails are wanted, a WeightPhase.
struct Float32Phase {
  Float32Phase(const BatchTask& task, std::int64_t batch, Arena& memory);
  float* grams;
  void* gram_workspace;
  std::size_t gram_workspace_bytes;
  TwoStagePlan plan;
  TwoStageArrays solver;
};

/// Weights of one matrix decoded, float64 Gram matrices of `count` and their solver.
struct Float64Phase {
  Float64Phase(const BatchTask& task, const SpectrumRoute& route, std::int64_t count,
               Arena& memory);
  std::int64_t together;  ///< BatchTask::grams_together()
  float* decoded;         ///< [chunk_rows][cols]
  double* wide;  ///< the same, or the whole matrix where the long side is the columns; `together`
  RawMoments* sum_parts;  ///< of as many
  void* scratch;          ///< of the moments
  std::size_t scratch_bytes;
  void* slices;          ///< of weights, where their Gram is formed by int8 products
  std::int64_t leading;  ///< of a Gram matrix: p, or padded for the band reduction
  double* grams;         ///< with room for a multiple of `together`
  void* symmetric_workspace;
  TwoStagePlan plan;  ///< of the two-stage route alone
  TwoStageArrays solver;
};

/// float32 Gram matrices of `count` for an iteration, and weights decoded: of one matrix, and in
/// `fast` of several whole ones.
struct TopPhase {
  TopPhase(const BatchTask& task, std::int64_t count, Arena& memory);
  Float64Phase wide;     ///< with float64 Gram matrices where those are narrowed
  std::int64_t leading;  ///< of a float32 Gram matrix
  float* grams;
  double* scales;  ///< [count], by which float64 ones are narrowed
  void* gram_workspace;
  std::size_t gram_workspace_bytes;
  std::int64_t at_once;  ///< matrices in `weights`; 1: that is wide.wide
  double* weights;
};

/// QR of one matrix.
struct QrPhase {
  QrPhase(const BatchTask& task, Arena& memory);
  float* decoded;
  double* wide;
  TriangularFactor factor;
  double* values;
};

/// Device bytes of a batch, by who keeps them between batches.
struct DeviceDemand {
  std::uint64_t encoded = 0, results = 0, arena = 0;  ///< an array each, which grows
  std::uint64_t library = 0;                          ///< an allowance for cuSOLVER's workspace
  std::uint64_t ends = 0;  ///< many arrays of the solvers for the ends of a spectrum
  std::uint64_t total() const { return encoded + results + arena + library + ends; }
};
DeviceDemand device_demand(const BatchTask& task, const BatchSizes& sizes);
/// Its total.
std::uint64_t device_bytes(const BatchTask& task, const BatchSizes& sizes);

/// What a lane has grown to over tasks of several shapes: each array to the largest that was asked
/// for, so that together they may hold more than any task, and more than the lane's share.
class LaneAccount {
 public:
  /// Whether a batch fits into `budget` beside what is kept. Where it does not, everything is to be
  /// given back: the account is then empty, and the next call admits anything.
  bool admit(const DeviceDemand& demand, std::uint64_t budget);

 private:
  std::vector<DeviceDemand> seen_;
  DeviceDemand kept_;  ///< `ends` a sum: arrays of one shape may not serve another
};

std::uint64_t arena_bytes(const BatchTask& task, const BatchSizes& sizes);
std::uint64_t result_bytes(const BatchTask& task, std::int64_t batch);
/// Of these, for the factorisations that prove bounds of `fast`.
std::uint64_t proof_bytes(const BatchTask& task, std::int64_t wide);

/// The largest sizes for up to `wanted` matrices within `budget` bytes.
/// Errors: OutOfMemory where not even one matrix fits.
BatchSizes plan_batch(const BatchTask& task, std::int64_t wanted, std::uint64_t budget);

}  // namespace vindex::kernels
