// Owns the texts of errors of CUDA, cuBLAS and cuSOLVER: the call that failed, the kernel with its
// grid, and the reason that a trapped kernel has written to host memory.
#include "check.hpp"
#include "trap_report.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>

namespace vindex::kernels {

namespace {

std::mutex report_mutex;
TrapReport* report_of_process = nullptr;

std::string size_text(const dim3& size) {
  return std::to_string(size.x) + " x " + std::to_string(size.y) + " x " + std::to_string(size.z);
}

std::string launch_text(const void* kernel, const cudaLaunchConfig_t& config) {
  return function_name(kernel) + ", grid " + size_text(config.gridDim) + ", block " +
         size_text(config.blockDim) + ", " + std::to_string(config.dynamicSmemBytes) +
         " bytes of shared memory";
}

std::string_view site_text(TrapSite site) {
  switch (site) {
    case TrapSite::kNone:
      break;
    case TrapSite::kFullStage:
      return "operands did not come";
    case TrapSite::kEmptyStage:
      return "operands were not given back";
    case TrapSite::kNorms:
      return "shares of a norm did not come";
    case TrapSite::kAlignment:
      return "operands are not aligned for their swizzle";
    case TrapSite::kChaseFlag:
      return "a flag of the chase did not come";
  }
  return "an unknown reason";
}

}  // namespace

std::string function_name(const void* kernel) {
  const char* mangled = nullptr;
  if (cudaFuncGetName(&mangled, kernel) != cudaSuccess || mangled == nullptr) {
    (void)cudaGetLastError();
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "the kernel at %p", kernel);
    return text.data();
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  const std::string whole = status == 0 ? text.get() : mangled;
  const std::size_t name = whole.find("_kernel");
  if (name == std::string::npos) {
    return whole;
  }
  // Without what stands before the name and, behind its template arguments, the parameters.
  const std::size_t before = whole.find_last_of(": ", name);
  std::size_t end = name + std::string_view("_kernel").size();
  int depth = 0;
  while (end < whole.size() && (depth > 0 || whole[end] == '<')) {
    depth += whole[end] == '<' ? 1 : whole[end] == '>' ? -1 : 0;
    ++end;
  }
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return whole.substr(begin, end - begin);
}

void throw_cuda_error(cudaError_t status, const std::source_location& where) {
  (void)cudaGetLastError();  // the runtime keeps the last error; the next call must not report
                             // this one again
  throw DeviceError("E-CUDA", std::string("CUDA: ") + cudaGetErrorString(status) + " at " +
                                  site(where) + trap_text());
}

void throw_launch_error(cudaError_t status, const void* kernel, const cudaLaunchConfig_t& config,
                        bool awaited) {
  (void)cudaGetLastError();
  const std::string launched = launch_text(kernel, config);
  if (status == cudaErrorMemoryAllocation) {
    throw OutOfMemory("device memory to launch " + launched, 0);
  }
  std::string whose;
  if (awaited) {
    whose = " in ";
  } else if (cudaDeviceSynchronize() == cudaSuccess) {
    whose = " at the launch of ";
  } else {
    (void)cudaGetLastError();
    whose = " in a kernel before, or at the launch of ";
  }
  throw DeviceError("E-CUDA", std::string("CUDA: ") + cudaGetErrorString(status) + whose +
                                  launched + trap_text());
}

TrapReport* trap_report() {
  const std::lock_guard lock(report_mutex);
  if (report_of_process == nullptr) {
    void* memory = nullptr;
    if (cudaHostAlloc(&memory, sizeof(TrapReport), cudaHostAllocPortable | cudaHostAllocMapped) ==
        cudaSuccess) {
      report_of_process = new (memory) TrapReport();
    } else {
      (void)cudaGetLastError();
    }
  }
  return report_of_process;
}

void clear_trap_report() {
  if (TrapReport* const report = trap_report()) {
    *report = {};
  }
}

std::string trap_text() {
  const TrapReport* report = nullptr;
  {
    const std::lock_guard lock(report_mutex);
    report = report_of_process;  // none is made for a context that may be broken
  }
  if (report == nullptr) {
    return "";
  }
  // A device writes it, which the compiler does not know.
  const auto word = [](const std::uint32_t& from) {
    return *static_cast<const volatile std::uint32_t*>(&from);
  };
  const std::uint32_t code = word(report->code);
  const auto site = static_cast<TrapSite>(code & 0xFFU);
  if (site == TrapSite::kNone) {
    return "";
  }
  std::string text = "; a kernel ended itself: " + std::string(site_text(site));
  if (site == TrapSite::kChaseFlag) {
    return text + " (part " + std::to_string(code >> 8U & 0xFFU) + "), block " +
           std::to_string(word(report->block_x)) + ", thread " +
           std::to_string(word(report->thread));
  }
  if (site != TrapSite::kAlignment) {
    text += " (stage " + std::to_string(code >> 8U & 0xFFU) + ", parity " +
            std::to_string(code >> 16U) + ")";
  }
  return text + ", block " + std::to_string(word(report->block_x)) + " of matrix " +
         std::to_string(word(report->block_z)) + ", thread " + std::to_string(word(report->thread));
}

}  // namespace vindex::kernels
