// Owns taking a sample of a matrix's weights, and what all of them say across scales, from the
// bytes that a back end is given anyway: of a matrix in memory when its bytes are let go, of a
// streamed one from the slabs that pass by.
#pragma once

#include "decoded_scales.hpp"
#include "scale_threads.hpp"

#include "backend/derived_input.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

namespace vindex::commands {

/// Host memory of the sample of a matrix of `weights` weights.
std::uint64_t sample_bytes(std::int64_t weights);
/// Host memory beside it while a matrix of that shape passes by, and where it lies in memory.
std::uint64_t scale_bytes(std::int64_t rows, std::int64_t cols);
std::uint64_t scale_bytes_in_memory(std::int64_t weights);

/// What was taken of a matrix.
struct TakenSample {
  /// The weights in storage order (statistics::sample_stride()); empty where the back end has not
  /// seen all of them.
  std::vector<float> weights;
  statistics::ScaleFigures scales = {};  ///< NaN there
};

class SampledInput final : public ForwardingInput {
 public:
  /// `inner` and `threads` must outlive it. `with_signs`: figures of random signs too. With
  /// `threads` a matrix in memory is looked at by one of them, which then releases `inner`;
  /// release() does not wait for it.
  explicit SampledInput(MatrixInput& inner, bool with_signs = false,
                        ScaleThreads* threads = nullptr);
  ~SampledInput() override;
  SampledInput(const SampledInput&) = delete;
  SampledInput& operator=(const SampledInput&) = delete;

  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override;
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override;
  void release() override;

  /// After release(). Errors: those of looking at the weights.
  TakenSample take_sample();

 private:
  decode::EncodedMatrix seen(decode::EncodedMatrix slab);
  void take_all();
  void wait() const;

  std::int64_t stride_;
  std::vector<float> sample_;
  std::vector<bool> taken_;  ///< of a streamed matrix, whose slabs may come more than once
  std::int64_t missing_;
  std::optional<SlabScales> slabs_;  ///< of a streamed matrix, until all of it was seen
  statistics::ScaleFigures scales_;
  bool was_asked_ = false;
  std::optional<std::uint64_t> sign_key_;
  ScaleThreads* threads_;
  /// What one of the threads says when it has looked at all weights.
  struct Looked {
    std::atomic<bool> done = false;
    std::exception_ptr error;
  };
  std::shared_ptr<Looked> looked_;  ///< where one of them has it
};

}  // namespace vindex::commands
