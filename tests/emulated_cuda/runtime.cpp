// The emulated runtime: memory with owners and poison, streams as queues. Stricter than a device: a
// copy checks that each side lies where its kind says, cudaFree refuses foreign pointers, and
// writes beyond an allocation are found when it is freed.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <emulated/device.hpp>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace vindex::emulated {

using Clock = std::chrono::steady_clock;

struct Event {
  Stream* stream = nullptr;    ///< where last recorded; null: never
  std::uint64_t position = 0;  ///< of the record in that stream's history
  Clock::time_point time;
  bool timed = true;
};

/// Work waits in `queue`; positions count everything ever submitted.
struct Stream {
  std::deque<std::function<void()>> queue;
  std::uint64_t submitted = 0;
  std::uint64_t done = 0;
};

namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kGuardBytes = 256;
constexpr unsigned char kGuard = 0x5A;
constexpr std::size_t kMaxSharedBytes = 227U << 10U;  ///< a block's share on compute capability 9.0

struct Device {
  std::recursive_mutex mutex;
  Ordering ordering = Ordering::kAtOnce;
  std::size_t memory_bytes = 8ULL << 30U;
  std::size_t in_use = 0, peak = 0;
  std::map<const unsigned char*, std::size_t> allocations;
  std::set<const void*> host_allocations;
  std::set<Stream*> streams;
  std::map<const void*, int> shared_limits;
};

Device& device() {
  static Device the_device;
  return the_device;
}

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t failed(cudaError_t error) {
  last_error = error;
  return error;
}

/// Runs `stream` up to and including position `until`.
void drain(Stream& stream, std::uint64_t until) {
  while (stream.done < until && !stream.queue.empty()) {
    const std::function<void()> work = std::move(stream.queue.front());
    stream.queue.pop_front();
    work();
    ++stream.done;
  }
}

void drain_all() {
  for (Stream* stream : device().streams) {
    drain(*stream, stream->submitted);
  }
}

bool is_sane_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) {
    return true;
  }
  const bool to_device = is_device_memory(to, bytes);
  const bool from_device = is_device_memory(from, bytes);
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

}  // namespace

void set_ordering(Ordering ordering) {
  const std::lock_guard lock(device().mutex);
  drain_all();
  device().ordering = ordering;
}

void set_device_memory(std::size_t bytes) {
  const std::lock_guard lock(device().mutex);
  device().memory_bytes = bytes;
}

std::size_t device_bytes_in_use() {
  const std::lock_guard lock(device().mutex);
  return device().in_use;
}

std::size_t take_peak_device_bytes() {
  const std::lock_guard lock(device().mutex);
  return std::exchange(device().peak, device().in_use);
}

void submit(cudaStream_t stream, std::function<void()> work) {
  std::unique_lock lock(device().mutex);
  if (stream == nullptr) {
    drain_all();
    lock.unlock();
    work();
    return;
  }
  ++stream->submitted;
  if (device().ordering == Ordering::kLate) {
    stream->queue.push_back(std::move(work));
    return;
  }
  ++stream->done;
  lock.unlock();  // several OS threads compute at a time
  work();
}

bool is_device_memory(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(device().mutex);
  const auto* first = static_cast<const unsigned char*>(memory);
  auto after = device().allocations.upper_bound(first);
  if (after == device().allocations.begin()) {
    return false;
  }
  --after;
  return first + bytes <= after->first + after->second;
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* function,
                   std::function<void()> body) {
  const dim3 grid = config.gridDim;
  const dim3 block = config.blockDim;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      grid.x > 0x7FFFFFFFU || grid.y > 65535 || grid.z > 65535) {
    return failed(cudaErrorInvalidConfiguration);
  }
  {
    const std::lock_guard lock(device().mutex);
    constexpr std::size_t kWithoutAsking = 48U << 10U;
    const auto found = device().shared_limits.find(function);
    const std::size_t allowed =
        found == device().shared_limits.end()
            ? kWithoutAsking
            : std::max(kWithoutAsking, static_cast<std::size_t>(found->second));
    if (config.dynamicSmemBytes > allowed) {
      return failed(cudaErrorInvalidValue);
    }
  }
  submit(config.stream, [grid, block, shared = config.dynamicSmemBytes, body = std::move(body)] {
    run_grid(grid, block, shared, body);
  });
  return cudaSuccess;
}

}  // namespace vindex::emulated

using vindex::emulated::device;
using vindex::emulated::failed;
using vindex::emulated::is_sane_copy;
using vindex::emulated::submit;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
  }
  return "unknown error";
}
const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }
cudaError_t cudaGetLastError() { return std::exchange(vindex::emulated::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return vindex::emulated::last_error; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* number) {
  *number = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int number) {
  return number == 0 ? cudaSuccess : failed(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  if (number != 0) {
    return failed(cudaErrorInvalidDevice);
  }
  *properties = {};
  std::strncpy(properties->name, "emulated on the CPU", sizeof properties->name - 1);
  properties->totalGlobalMem = device().memory_bytes;
  properties->sharedMemPerBlock = 48U << 10U;
  properties->sharedMemPerBlockOptin = vindex::emulated::kMaxSharedBytes;
  properties->sharedMemPerMultiprocessor = 228U << 10U;
  properties->major = 9;
  properties->multiProcessorCount = 4;
  properties->warpSize = 32;
  properties->regsPerBlock = 65536;
  properties->regsPerMultiprocessor = 65536;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->l2CacheSize = 50 << 20;
  properties->asyncEngineCount = 3;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int number) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, number)) {
    return error;
  }
  switch (attribute) {
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
  }
  return failed(cudaErrorInvalidValue);
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int number) {
  constexpr const char* kId = "0000:00:00.0";
  if (number != 0 || length < 13) {
    return failed(cudaErrorInvalidValue);
  }
  std::strcpy(text, kId);
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(device().mutex);
  vindex::emulated::drain_all();
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(device().mutex);
  *total = device().memory_bytes;
  *free = device().memory_bytes - std::min(device().memory_bytes, device().in_use);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  using namespace vindex::emulated;
  const std::lock_guard lock(device().mutex);
  *memory = nullptr;
  if (bytes == 0) {
    return cudaSuccess;
  }
  if (bytes > device().memory_bytes - std::min(device().memory_bytes, device().in_use)) {
    return failed(cudaErrorMemoryAllocation);
  }
  const std::size_t whole = (bytes + kGuardBytes + kAlignment - 1) / kAlignment * kAlignment;
  auto* block = static_cast<unsigned char*>(std::aligned_alloc(kAlignment, whole));
  if (block == nullptr) {
    return failed(cudaErrorMemoryAllocation);
  }
  poison(block, bytes);
  std::memset(block + bytes, kGuard, whole - bytes);
  device().allocations[block] = bytes;
  device().in_use += bytes;
  device().peak = std::max(device().peak, device().in_use);
  *memory = block;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  using namespace vindex::emulated;
  const std::lock_guard lock(device().mutex);
  if (memory == nullptr) {
    return cudaSuccess;
  }
  drain_all();
  auto* block = static_cast<unsigned char*>(memory);
  const auto found = device().allocations.find(block);
  if (found == device().allocations.end()) {
    return failed(cudaErrorInvalidValue);
  }
  const std::size_t bytes = found->second;
  device().allocations.erase(found);
  device().in_use -= bytes;
  bool whole = true;
  for (std::size_t i = 0; i < kGuardBytes / 2; ++i) {
    whole = whole && block[bytes + i] == kGuard;
  }
  std::free(block);
  if (!whole) {  // a destructor calls this: it may not throw, and the damage is done
    std::fprintf(stderr, "emulated CUDA: writes beyond %zu bytes of device memory\n", bytes);
    std::abort();
  }
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t /*stream*/) {
  return cudaMalloc(memory, bytes);
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t /*stream*/) { return cudaFree(memory); }

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned int /*flags*/) {
  const std::lock_guard lock(device().mutex);
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*memory == nullptr && bytes > 0) {
    return failed(cudaErrorMemoryAllocation);
  }
  device().host_allocations.insert(*memory);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void* memory) {
  const std::lock_guard lock(device().mutex);
  if (memory == nullptr) {
    return cudaSuccess;
  }
  vindex::emulated::drain_all();
  if (device().host_allocations.erase(memory) == 0) {
    return failed(cudaErrorInvalidValue);
  }
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned int /*flags*/) {
  return memory == nullptr || bytes == 0 ? failed(cudaErrorInvalidValue) : cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  return memory == nullptr ? failed(cudaErrorInvalidValue) : cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (!is_sane_copy(to, from, bytes, kind)) {
    return failed(cudaErrorInvalidValue);
  }
  submit(stream, [=] {
    if (bytes > 0) {
      std::memcpy(to, from, bytes);
    }
  });
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) {
    return failed(cudaErrorInvalidValue);
  }
  if (width == 0 || height == 0) {
    return cudaSuccess;
  }
  const std::size_t last = height - 1;
  if (!is_sane_copy(to, from, width, kind) ||
      !is_sane_copy(static_cast<char*>(to) + last * to_pitch,
                    static_cast<const char*>(from) + last * from_pitch, width, kind)) {
    return failed(cudaErrorInvalidValue);
  }
  submit(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::memcpy(static_cast<char*>(to) + row * to_pitch,
                  static_cast<const char*>(from) + row * from_pitch, width);
    }
  });
  return cudaSuccess;
}
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, nullptr);
}
cudaError_t cudaMemset2DAsync(void* memory, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, cudaStream_t stream) {
  if (width > pitch ||
      (height > 0 && !vindex::emulated::is_device_memory(memory, (height - 1) * pitch + width))) {
    return failed(cudaErrorInvalidValue);
  }
  submit(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::memset(static_cast<char*>(memory) + row * pitch, value, width);
    }
  });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return bytes == 0 ? cudaSuccess : cudaMemset2DAsync(memory, bytes, value, bytes, 1, stream);
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int /*flags*/) {
  const std::lock_guard lock(device().mutex);
  *stream = new vindex::emulated::Stream;
  device().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags,
                                         int /*priority*/) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(device().mutex);
  if (device().streams.count(stream) == 0) {
    return failed(cudaErrorInvalidResourceHandle);
  }
  vindex::emulated::drain(*stream, stream->submitted);
  device().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) {
    return cudaDeviceSynchronize();
  }
  const std::lock_guard lock(device().mutex);
  vindex::emulated::drain(*stream, stream->submitted);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* argument) {
  submit(stream, [=] { function(argument); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  *event = new vindex::emulated::Event;
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event != nullptr) {
    (void)cudaEventSynchronize(event);  // its record may still be queued
  }
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(device().mutex);
  submit(stream, [event] { event->time = vindex::emulated::Clock::now(); });
  event->stream = stream;
  event->position = stream == nullptr ? 0 : stream->submitted;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(device().mutex);
  if (event->stream != nullptr && device().streams.count(event->stream) != 0) {
    vindex::emulated::drain(*event->stream, event->position);
  }
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int /*flags*/) {
  const std::lock_guard lock(device().mutex);
  vindex::emulated::Stream* const recorded = event->stream;
  const std::uint64_t position = event->position;  // as of now: a later record does not count
  submit(stream, [recorded, position] {
    if (recorded != nullptr && device().streams.count(recorded) != 0) {
      vindex::emulated::drain(*recorded, position);
    }
  });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (!start->timed || !end->timed) {
    return failed(cudaErrorInvalidResourceHandle);
  }
  (void)cudaEventSynchronize(start);
  (void)cudaEventSynchronize(end);
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) {
    return cudaSuccess;
  }
  if (value < 0 || static_cast<std::size_t>(value) > vindex::emulated::kMaxSharedBytes) {
    return failed(cudaErrorInvalidValue);
  }
  const std::lock_guard lock(device().mutex);
  device().shared_limits[function] = value;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* /*function*/,
                                                          int block_threads,
                                                          std::size_t shared_bytes) {
  if (block_threads <= 0 || block_threads > 1024) {
    return failed(cudaErrorInvalidValue);
  }
  constexpr std::size_t kPerMultiprocessor = 228U << 10U;
  constexpr std::size_t kReserved = 1024;  // what the system takes of each block's share
  *blocks = std::min(2048 / block_threads,
                     static_cast<int>(kPerMultiprocessor / (shared_bytes + kReserved)));
  return cudaSuccess;
}
