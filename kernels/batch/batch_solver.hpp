// Owns the measurement of one batch of matrices of one encoding and shape on one stream: upload,
// first route for all, stricter ones for the doubtful, reports. Encoded weights stay on the device
// until every matrix is done, so that host memory is given back after the upload.
#pragma once

#include "batch/batch_memory.hpp"
#include "batch/judge.hpp"
#include "device/stage_clock.hpp"
#include "top/top_solvers.hpp"

#include <vindex/measure/backend.hpp>

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace vindex::kernels {

/// One concurrent call's streams, handles and memory. Kept between calls.
struct Lane {
  SolverLane solver;
  Stream copies = make_stream();
  DeviceBuffer encoded{"encoded weights"};
  DeviceBuffer arena{"Gram matrices and their reductions"};
  DeviceBuffer results{"results"};
  PinnedBuffer host_results;
  FastSolver fast;
  VectorSolver vectors;
};

class BatchSolver {
 public:
  /// Everything referred to must outlive the solver. Takes the lane's memory for `sizes`.
  /// Errors: OutOfMemory, before any input was touched.
  BatchSolver(Lane& lane, const KernelTable& kernels, const BatchTask& task,
              const BatchSizes& sizes, const measure::MeasureOptions& options);

  /// At most sizes.batch matrices; `slab_bytes` as Uploader has it. Fills `out`; every input is
  /// released. Errors: DeviceError; read errors of the inputs.
  void measure(std::span<measure::MatrixInput* const> inputs, std::uint64_t slab_bytes,
               std::span<measure::MatrixReport> out);

 private:
  /// Which matrices of the batch, and what was found for each of them.
  using Indices = std::vector<std::size_t>;
  /// A draw of the sign-flip null; without one the weights are taken as they are. A type of its
  /// own, so that no number and no bool becomes a draw by itself.
  struct DrawNumber {
    std::uint64_t value;
  };
  using SignDraw = std::optional<DrawNumber>;
  struct Found {
    JudgedSpectrum spectrum;
    decode::Moments moments;
    double gram_norm_squared = 0.0;
    std::int64_t zero_rows = 0;
  };

  /// The same of the top of a spectrum.
  struct TopFound {
    Found facts;  ///< without a spectrum
    FastValues values;
  };

  void measure_whole(const Indices& which);
  void upload(std::size_t count);
  std::vector<Found> run_route(const SpectrumRoute& route, const Indices& which, SignDraw flip);
  std::vector<Found> run_float32(const Indices& which, SignDraw flip);
  std::vector<Found> run_float64(const SpectrumRoute& route, const Indices& which, SignDraw flip);
  void form_grams32(const Indices& which, SignDraw flip, ProductKernel product, float* grams,
                    void* workspace, std::size_t workspace_bytes, GramFacts* facts);
  void form_gram64(const DeviceMatrix& matrix, SignDraw flip, const Float64Phase& phase,
                   double* gram, RawMoments* moments);
  void decode_chunk(const DeviceMatrix& matrix, SignDraw flip, std::int64_t first,
                    std::int64_t count, float* decoded, double* wide);
  std::vector<double> run_qr(const DeviceMatrix& matrix, SignDraw flip);
  std::vector<Found> run_qr(const Indices& which, SignDraw flip);
  BatchResults download(std::int64_t batch);
  std::vector<Found> found_in(const BatchResults& results, const SpectrumRoute& route,
                              std::size_t count) const;
  void judge_first(const std::vector<Found>& found, const Indices& which, Indices& doubtful);
  void run_strict(const Indices& doubtful);
  void run_sign_flips(const Indices& which);
  std::vector<std::vector<double>> sign_flipped_values(const Indices& which, DrawNumber draw);
  // In batch_top.cpp.
  bool is_fast_by_iteration() const { return task_.is_fast && task_.routes.has_top; }
  void measure_fast(const Indices& which);
  std::vector<std::vector<double>> sign_flipped_top(const Indices& which, DrawNumber draw);
  void run_vectors();
  void vectors_of(const Indices& which);
  std::vector<TopFound> run_top(const Indices& which, SignDraw flip);
  std::vector<FastMatrix> form_top_grams(const TopPhase& phase, const Indices& which, SignDraw flip,
                                         std::vector<Found>& found);
  template <typename Solver>
  void add_weights(Solver& solver, std::int64_t position, const DeviceMatrix& matrix, SignDraw flip,
                   const Float64Phase& phase);
  LibraryHandles handles() const;
  void keep(const Found& found, const SpectrumRoute& route, std::size_t index);
  cudaStream_t stream() const { return lane_.solver.stream.get(); }

  Lane& lane_;
  const KernelTable& kernels_;
  const BatchTask& task_;
  const BatchSizes sizes_;
  const measure::MeasureOptions& options_;
  std::uint8_t* encoded_;
  void* arena_;
  std::size_t arena_bytes_;
  void* device_results_;
  void* host_results_;
  std::size_t result_bytes_;

  std::span<measure::MatrixInput* const> inputs_;
  std::span<measure::MatrixReport> out_;
  std::vector<DeviceMatrix> matrices_;  ///< those uploaded
  Uploader* uploader_ = nullptr;
  StageClock gram_clock_, eigen_clock_;
};

}  // namespace vindex::kernels
