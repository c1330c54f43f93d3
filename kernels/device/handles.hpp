// Owns the owners: streams, library handles and device memory, each move-only and released without
// throwing.
#pragma once

#include "check.hpp"

#include "core/integers.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace vindex::kernels {

struct StreamDeleter {
  using pointer = cudaStream_t;
  void operator()(cudaStream_t stream) const noexcept { (void)cudaStreamDestroy(stream); }
};
struct EventDeleter {
  using pointer = cudaEvent_t;
  void operator()(cudaEvent_t event) const noexcept { (void)cudaEventDestroy(event); }
};
struct PinnedDeleter {
  void operator()(void* memory) const noexcept { (void)cudaFreeHost(memory); }
};
struct BlasDeleter {
  using pointer = cublasHandle_t;
  void operator()(cublasHandle_t handle) const noexcept { (void)cublasDestroy(handle); }
};
struct SolverDeleter {
  using pointer = cusolverDnHandle_t;
  void operator()(cusolverDnHandle_t handle) const noexcept { (void)cusolverDnDestroy(handle); }
};
struct SolverParametersDeleter {
  using pointer = cusolverDnParams_t;
  void operator()(cusolverDnParams_t parameters) const noexcept {
    (void)cusolverDnDestroyParams(parameters);
  }
};
using Stream = std::unique_ptr<cudaStream_t, StreamDeleter>;
using Event = std::unique_ptr<cudaEvent_t, EventDeleter>;
using BlasHandle = std::unique_ptr<cublasHandle_t, BlasDeleter>;
using SolverHandle = std::unique_ptr<cusolverDnHandle_t, SolverDeleter>;
using SolverParameters = std::unique_ptr<cusolverDnParams_t, SolverParametersDeleter>;

inline Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

/// For ordering alone, or also for times.
inline Event make_event(bool timed) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming));
  return Event(event);
}

/// Works on `stream`, which must outlive it.
inline BlasHandle make_blas(cudaStream_t stream) {
  cublasHandle_t raw = nullptr;
  check(cublasCreate(&raw));
  BlasHandle handle(raw);
  check(cublasSetStream(raw, stream));
  check(cublasSetMathMode(raw, CUBLAS_DEFAULT_MATH));  // float32 stays float32: no TF32
  return handle;
}

/// While it lives, float32 products of `blas` may run in tf32 (11 significant bits) on tensor
/// cores.
class RoughProducts {
 public:
  explicit RoughProducts(cublasHandle_t blas) : blas_(blas) {
    check(cublasSetMathMode(blas_, CUBLAS_TF32_TENSOR_OP_MATH));
  }
  ~RoughProducts() { (void)cublasSetMathMode(blas_, CUBLAS_DEFAULT_MATH); }
  RoughProducts(const RoughProducts&) = delete;
  RoughProducts& operator=(const RoughProducts&) = delete;

 private:
  cublasHandle_t blas_;
};

inline SolverHandle make_solver(cudaStream_t stream) {
  cusolverDnHandle_t raw = nullptr;
  check(cusolverDnCreate(&raw));
  SolverHandle handle(raw);
  check(cusolverDnSetStream(raw, stream));
  return handle;
}

inline SolverParameters make_solver_parameters() {
  cusolverDnParams_t raw = nullptr;
  check(cusolverDnCreateParams(&raw));
  return SolverParameters(raw);
}

/// Device memory that grows and is kept between calls. `purpose` names it when memory runs out. Not
/// stream-ordered: growing waits for the device, which happens in the first calls only.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::string purpose) : purpose_(std::move(purpose)) {}
  ~DeviceBuffer() { (void)cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  /// At least `bytes`, contents undefined after growth. Errors: OutOfMemory naming the purpose.
  void* reserve(std::size_t bytes) {
    if (bytes > bytes_) {
      (void)cudaFree(data_);
      data_ = nullptr;
      bytes_ = 0;
      const cudaError_t status = cudaMalloc(&data_, bytes);
      if (status == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        data_ = nullptr;
        throw OutOfMemory("device memory: " + purpose_, bytes);
      }
      check(status);
      bytes_ = bytes;
    }
    return data_;
  }
  template <typename T>
  T* reserve_array(std::size_t count) {
    return static_cast<T*>(reserve(count * sizeof(T)));
  }

  /// Gives the memory back; what runs must be waited for first (cudaFree does).
  void release() {
    (void)cudaFree(data_);
    data_ = nullptr;
    bytes_ = 0;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::string purpose_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Pinned host memory that grows and is kept: what a copy from the device lands in.
class PinnedBuffer {
 public:
  void* reserve(std::size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();
      bytes_ = 0;
      void* memory = nullptr;
      const cudaError_t status = cudaHostAlloc(&memory, bytes, cudaHostAllocDefault);
      if (status == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        throw OutOfMemory("pinned memory for results", bytes);
      }
      check(status);
      memory_.reset(memory);
      bytes_ = bytes;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<void, PinnedDeleter> memory_;
  std::size_t bytes_ = 0;
};

/// Cuts one piece of memory into aligned arrays. With a null start it only counts, so that the same
/// code says how much it needs.
class Arena {
 public:
  Arena(void* start, std::size_t bytes)
      : start_(static_cast<unsigned char*>(start)), bytes_(bytes) {}
  /// Errors: expects() where it does not fit (never while counting).
  template <typename T>
  T* take(std::int64_t count) {
    constexpr std::size_t kAlignment = 1024;
    const std::size_t wanted =
        ceil_divide(static_cast<std::size_t>(count) * sizeof(T), kAlignment) * kAlignment;
    unsigned char* const here = start_ == nullptr ? nullptr : start_ + used_;
    used_ += wanted;
    expects(start_ == nullptr || used_ <= bytes_, "an array within the memory planned for it");
    return reinterpret_cast<T*>(here);
  }
  std::size_t used() const { return used_; }

 private:
  unsigned char* start_;
  std::size_t bytes_;
  std::size_t used_ = 0;
};

}  // namespace vindex::kernels
