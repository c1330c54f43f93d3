// The emulated runtime: the device, launches, and streams as queues.
#include "device_state.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace vindex::emulated {

namespace {

constexpr std::size_t kMaxSharedBytes = 227U << 10U;  ///< a block's share on compute capability 9.0
constexpr int kMultiprocessors = 4;

/// Whether the launch says that its blocks are all under way at a time.
bool is_cooperative(const cudaLaunchConfig_t& config) {
  const std::span<const cudaLaunchAttribute> attributes(config.attrs, config.numAttrs);
  return std::any_of(attributes.begin(), attributes.end(), [](const cudaLaunchAttribute& one) {
    return one.id == cudaLaunchAttributeCooperative && one.val.cooperative != 0;
  });
}

/// Blocks of a cluster, which lie side by side in x.
unsigned int cluster_of(const cudaLaunchConfig_t& config) {
  unsigned int size = 1;
  for (const cudaLaunchAttribute& one : std::span(config.attrs, config.numAttrs)) {
    size = one.id == cudaLaunchAttributeClusterDimension ? one.val.clusterDim.x : size;
  }
  return size;
}

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

Device& device() {
  static Device the_device;
  return the_device;
}

cudaError_t failed(cudaError_t error) {
  last_error = error;
  return error;
}

void drain(Stream& stream, std::uint64_t until) {
  while (stream.done < until && !stream.queue.empty()) {
    const std::function<void()> work = std::move(stream.queue.front());
    stream.queue.pop_front();
    if (!device().broken) {
      work();
    }
    ++stream.done;
  }
}

void drain_all() {
  for (Stream* stream : device().streams) {
    drain(*stream, stream->submitted);
  }
}

void set_ordering(Ordering ordering) {
  const std::lock_guard lock(device().mutex);
  drain_all();
  device().ordering = ordering;
}

void set_compute_capability(int major, int minor) {
  device().major = major;
  device().minor = minor;
}
void reset_device() { device().broken = false; }

void set_sticky_errors(bool sticky) {
  device().sticky_errors = sticky;
  reset_device();
}

bool is_device_broken() { return device().broken; }

void set_function_name(const void* function, const char* mangled) {
  const std::lock_guard lock(device().mutex);
  device().function_names[function] = mangled;
}

void submit(cudaStream_t stream, std::function<void()> work) {
  std::unique_lock lock(device().mutex);
  if (device().broken) {
    return;
  }
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

cudaError_t launch(const cudaLaunchConfig_t& config, const void* function,
                   std::function<void()> body) {
  if (state_of_device() != cudaSuccess) {
    return failed(state_of_device());
  }
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
  const unsigned int cluster = cluster_of(config);
  if (cluster == 0 || cluster > 8 || grid.x % cluster != 0) {
    return failed(cudaErrorInvalidConfiguration);
  }
  const bool together = is_cooperative(config);
  int fitting = 0;
  if (together) {
    (void)cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &fitting, function, static_cast<int>(threads), config.dynamicSmemBytes);
    if (std::uint64_t{grid.x} * grid.y * grid.z >
        static_cast<std::uint64_t>(fitting) * kMultiprocessors) {
      return failed(cudaErrorCooperativeLaunchTooLarge);
    }
  }
  submit(config.stream, [grid, block, shared = config.dynamicSmemBytes, body = std::move(body),
                         together, cluster] {
    try {
      run_grid(grid, block, shared, body, together, cluster);
    } catch (const KernelFault&) {
      if (!device().sticky_errors) {
        throw;
      }
      device().broken = true;
    }
  });
  return cudaSuccess;
}

}  // namespace vindex::emulated

using vindex::emulated::device;
using vindex::emulated::failed;
using vindex::emulated::state_of_device;
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
    case cudaErrorCooperativeLaunchTooLarge:
      return "too many blocks in cooperative launch";
  }
  return "unknown error";
}
const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }
cudaError_t cudaGetLastError() {
  const cudaError_t last = std::exchange(vindex::emulated::last_error, cudaSuccess);
  return device().broken ? state_of_device() : last;
}
cudaError_t cudaPeekAtLastError() {
  return device().broken ? state_of_device() : vindex::emulated::last_error;
}

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
  properties->major = device().major;
  properties->minor = device().minor;
  properties->multiProcessorCount = vindex::emulated::kMultiprocessors;
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
  return state_of_device();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int /*flags*/) {
  if (device().broken) {
    return failed(state_of_device());
  }
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
  return state_of_device();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) {
    return cudaDeviceSynchronize();
  }
  const std::lock_guard lock(device().mutex);
  vindex::emulated::drain(*stream, stream->submitted);
  return state_of_device();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* argument) {
  submit(stream, [=] { function(argument); });
  return state_of_device();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  if (device().broken) {
    return failed(state_of_device());
  }
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
  return state_of_device();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(device().mutex);
  if (event->stream != nullptr && device().streams.count(event->stream) != 0) {
    vindex::emulated::drain(*event->stream, event->position);
  }
  return state_of_device();
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
  return state_of_device();
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (!start->timed || !end->timed) {
    return failed(cudaErrorInvalidResourceHandle);
  }
  (void)cudaEventSynchronize(start);
  if (const cudaError_t error = cudaEventSynchronize(end)) {
    return error;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return cudaSuccess;
}

cudaError_t cudaFuncGetName(const char** name, const void* function) {
  const std::lock_guard lock(device().mutex);
  const auto found = device().function_names.find(function);
  if (found == device().function_names.end()) {
    return failed(cudaErrorInvalidValue);
  }
  *name = found->second;
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
  return state_of_device();
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
