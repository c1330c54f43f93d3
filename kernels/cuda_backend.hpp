// Owns the CUDA back end: one device, its lanes, its trust in the kernels. The factory that a
// program uses is in cuda_factory.cpp.
#pragma once

#include "backend/backend.hpp"
#include "decode/formats/decode_view.hpp"
#include "kernels/batch/batch_solver.hpp"
#include "kernels/device/pinned_pool.hpp"
#include "kernels/route/self_test.hpp"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace vindex::kernels {

/// Encoded bytes go to the device, are decoded there and contracted to a Gram matrix whose
/// eigenvalues are found, by routes that cuda_route.hpp chooses; doubtful matrices are measured
/// again in float64, and by QR where a Gram cannot hold them. Nothing is trusted that did not pass
/// its self-test on this device.
class CudaBackend final : public Backend {
 public:
  /// `kernels` must outlive the object. Errors: DeviceError.
  CudaBackend(std::int32_t device, const KernelTable& kernels, const TrialPlan& trials = {});
  /// Handles and memory are given back on their own device, whatever the thread used before.
  ~CudaBackend() override { (void)cudaSetDevice(device_); }

  BackendInfo info() const override;
  BackendLimits limits() const override;
  void prepare(const MeasureOptions& options) override;
  std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) override;
  std::uint64_t workspace_bytes(const decode::Encoding& encoding, std::int64_t rows,
                                std::int64_t cols, const MeasureOptions& options,
                                InputBytes input) const override;
  std::uint64_t device_workspace_bytes(const decode::Encoding& encoding, std::int64_t rows,
                                       std::int64_t cols, const MeasureOptions& options,
                                       std::int64_t batch) const override;
  /// Lanes that have handles and memory.
  std::int32_t made_lanes() const;
  void measure(std::span<MatrixInput* const> batch, const MeasureOptions& options,
               std::uint64_t workspace_limit, std::span<MatrixReport> out) override;
  std::unique_ptr<InnerProducts> inner_products(const InnerProductShape& shape) override;
  InnerProductMemory inner_product_memory(const InnerProductShape& shape) const override;
  void decode(const decode::EncodedMatrix& matrix, std::span<float> out) override;

 private:
  /// A lane for the length of one call; waits while all are taken. Lanes are made when they are
  /// first wanted, by who wants them: the first call need not wait for the handles of the others.
  class LaneLease {
   public:
    explicit LaneLease(CudaBackend& backend);
    ~LaneLease();
    LaneLease(const LaneLease&) = delete;
    LaneLease& operator=(const LaneLease&) = delete;
    Lane& lane() { return *backend_.lanes_[number_]; }

   private:
    bool take();
    void give_back();
    CudaBackend& backend_;
    std::size_t number_ = 0;
  };

  TestVerdicts verdicts() const;
  void try_kernels(const RoutePreference& wish, SpectrumMode mode);
  std::string broken_text(const RoutePreference& wish) const;
  void measure_group(Lane& lane, std::span<MatrixInput* const> batch, const MeasureOptions& options,
                     std::uint64_t slab_bytes, std::span<MatrixReport> out);
  std::uint64_t slab_bytes_within(std::uint64_t workspace_limit, const MatrixInput& input) const;
  BatchTask task_of(const decode::Encoding& encoding, std::int64_t rows, std::int64_t cols,
                    const MeasureOptions& options, const decode::DecodeView& view,
                    const SlotLayout& slot) const;

  std::int32_t device_;
  const KernelTable& kernels_;
  std::int64_t trial_order_;
  cudaDeviceProp properties_{};
  DeviceTraits traits_;
  std::uint64_t lane_budget_ = 0;
  PinnedPool pinned_;
  UploadTurns turns_;
  std::vector<std::unique_ptr<Lane>> lanes_;  ///< null until it is first wanted
  std::vector<std::size_t> free_lanes_;       ///< the last one is taken first
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  std::mutex test_mutex_;  ///< held while kernels are tried
  std::vector<SelfTest> tests_;
  std::optional<SelfTest> broken_by_;  ///< nothing runs on the device any more
};

}  // namespace vindex::kernels
