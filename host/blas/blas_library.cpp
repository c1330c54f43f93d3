// Owns the loading of OpenBLAS: where it is looked for, in which namespace of the loader, with
// which variables, and what is read from it once it is there.
#include "blas_library.hpp"

#include "blas.hpp"
#include "blas_core.hpp"
#include "buffers.hpp"

#include "core/files/companions.hpp"
#include "core/process/parallel.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace vindex::blas {
namespace {

/// Needs the OpenBLAS that a package carries, and has nothing else: its functions are found through
/// it (python/CMakeLists.txt).
constexpr const char* kCarried = "libvindex_carried_openblas.so";

/// What a package carries; else by its name, wherever the loader looks (LD_LIBRARY_PATH, the
/// distribution's folders); else the file that the build found.
const std::vector<std::string>& candidates() {
  static const std::vector<std::string> found = [] {
    std::vector<std::string> names = {"libopenblas.so.0", VINDEX_OPENBLAS_FILE};
    if (const std::string carried = find_companion(kCarried); !carried.empty()) {
      names.insert(names.begin(), carried);
    }
    return names;
  }();
  return found;
}

constexpr const char* kWhatToInstall =
    "install OpenBLAS (Debian: libopenblas0-pthread), or name its folder in LD_LIBRARY_PATH";

constexpr int kLoaderFlags = RTLD_NOW | RTLD_LOCAL;

/// Handle of the library in a namespace of the loader. Never closed: functions point into it for
/// the life of the process.
void* open_library(Lmid_t in, std::string& why) {
  why.clear();
  for (const std::string& candidate : candidates()) {
    void* const library = ::dlmopen(in, candidate.c_str(), kLoaderFlags);
    if (library != nullptr) {
      return library;
    }
    // dlerror() names the file and what is wrong with it.
    why += (why.empty() ? "" : "; ") + std::string(::dlerror());
  }
  return nullptr;
}

/// Whether another part of the process has loaded one of them.
bool is_in_use() {
  return std::any_of(candidates().begin(), candidates().end(), [](const std::string& candidate) {
    void* const library = ::dlopen(candidate.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    return library != nullptr && ::dlclose(library) == 0;
  });
}

BlasFunctions functions_of(void* library) {
  BlasFunctions functions;
  std::string lacking;
#define VINDEX_BLAS_LOOKUP(name)                                                        \
  functions.name = reinterpret_cast<decltype(functions.name)>(::dlsym(library, #name)); \
  if (functions.name == nullptr) {                                                      \
    lacking += std::string(" ") + #name;                                                \
  }
  VINDEX_BLAS_FUNCTIONS(VINDEX_BLAS_LOOKUP)
#undef VINDEX_BLAS_LOOKUP
  if (!lacking.empty()) {
    throw ConfigurationError("E-BLAS-MISSING", fmt::format("the OpenBLAS found here lacks{}; {}",
                                                           lacking, kWhatToInstall));
  }
  // The ordinary names with integers of 64 bits (a build with INTERFACE64): every call of LAPACK
  // would read beyond the integers that it is given.
  if (std::strstr(functions.openblas_get_config(), "USE64BITINT") != nullptr) {
    throw ConfigurationError("E-BLAS-MISSING",
                             fmt::format("the OpenBLAS found here takes integers of 64 bits, this "
                                         "program those of 32; {}",
                                         kWhatToInstall));
  }
  return functions;
}

/// A C library of its own, in a namespace of its own; nullptr where there is none to be had. The
/// loader has sixteen, and none is given back.
void* new_c_library() { return ::dlmopen(LM_ID_NEWLM, "libc.so.6", kLoaderFlags); }

/// The namespace of `c_library`, in whose environment OpenBLAS finds one thread and `core`. The
/// process's environment is left as it is. LM_ID_BASE where there is none to be had.
Lmid_t namespace_for(void* c_library, const std::string& core) {
  Lmid_t made = LM_ID_BASE;
  if (c_library == nullptr || ::dlinfo(c_library, RTLD_DI_LMID, &made) != 0) {
    return LM_ID_BASE;
  }
  const auto clear = reinterpret_cast<decltype(&::clearenv)>(::dlsym(c_library, "clearenv"));
  const auto set = reinterpret_cast<decltype(&::setenv)>(::dlsym(c_library, "setenv"));
  if (clear == nullptr || set == nullptr) {
    return LM_ID_BASE;
  }
  clear();  // its strings are the process's until here
  set("OPENBLAS_NUM_THREADS", "1", 1);
  set("OMP_NUM_THREADS", "1", 1);
  if (!core.empty()) {
    set("OPENBLAS_CORETYPE", core.c_str(), 1);
  }
  return made;
}

/// "OpenBLAS 0.3.21" of "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...".
std::string version_of(const std::string& config) {
  return config.substr(0, config.find(' ', config.find(' ') + 1));
}

struct LoadedBlas {
  BlasFunctions functions;
  BlasInfo info;
  std::unique_ptr<Buffers> buffers;
};

/// Addresses that the library itself takes, about. The loader does not say what it lacked.
constexpr std::size_t kLibraryBytes = std::size_t{64} << 20U;

[[noreturn]] void refuse_missing(const std::string& why) {
  if (!has_room(kLibraryBytes)) {
    throw OutOfMemory("OpenBLAS itself", kLibraryBytes);
  }
  throw ConfigurationError("E-BLAS-MISSING",
                           fmt::format("OpenBLAS cannot be loaded ({}); {}", why, kWhatToInstall));
}

LoadedBlas load(std::string_view wish, Lmid_t in) {
  const Processor processor = this_processor();
  const std::vector<std::string_view> fitting = fitting_blas_cores(processor);
  if (const std::string_view lacking = lacking_for_blas_core(wish, processor); !lacking.empty()) {
    throw ConfigurationError(
        "E-BLAS-CORETYPE",
        fmt::format("OPENBLAS_CORETYPE={} asks for kernels with {}, which this processor does not "
                    "have or its hypervisor hides; unset it and fitting ones are chosen",
                    printable(std::string(wish)), lacking));
  }
  const bool was_in_use = is_in_use();
  std::string why;
  void* const library = open_library(in, why);
  if (library == nullptr) {
    refuse_missing(why);
  }
  LoadedBlas loaded{.functions = functions_of(library),
                    .info = {},
                    .buffers = std::make_unique<Buffers>(library)};
  loaded.functions.openblas_set_num_threads(1);
  // It has started a thread for every core where the environment does not say otherwise. They end
  // here, unless they are another part's of the process.
  const auto end_threads = reinterpret_cast<int (*)()>(::dlsym(library, "blas_thread_shutdown_"));
  if (end_threads != nullptr && !was_in_use) {
    end_threads();
  }
  loaded.info.version = version_of(loaded.functions.openblas_get_config());
  loaded.info.kernels = loaded.functions.openblas_get_corename();
  loaded.info.warning = blas_core_warning(loaded.info.version, loaded.info.kernels,
                                          printable(std::string(wish)), fitting);
  // One that is not there is no news; one that is there and cannot be used is.
  if (loaded.info.warning.empty() && !why.empty() &&
      why.find("No such file") == std::string::npos) {
    loaded.info.warning =
        fmt::format("W-BLAS-LIBRARY: {}; {} is used in its place", why, VINDEX_OPENBLAS_FILE);
  }
  return loaded;
}

/// What keep_blas_apart() asked for.
struct Apart {
  std::mutex mutex;
  bool is_asked = false;
  std::string core_wish;
};

Apart& apart() {
  static Apart asked;
  return asked;
}

LoadedBlas load_first(std::string_view wish) {
  const std::lock_guard lock(apart().mutex);
  if (!apart().is_asked) {
    return load(wish, LM_ID_BASE);
  }
  const std::string wished = wish.empty() ? apart().core_wish : std::string(wish);
  static void* const c_library = new_c_library();  // loading may fail and be tried again
  return load(wished, namespace_for(c_library, wished.empty() ? preferred_blas_core() : wished));
}

/// Never destroyed: threads leave it when they end, whenever that is.
const LoadedBlas& process_blas(std::string_view wish) {
  static const LoadedBlas& loaded = *new LoadedBlas(load_first(wish));
  return loaded;
}

const LoadedBlas& other_blas() {
  static void* const c_library = new_c_library();
  static const LoadedBlas& loaded =
      *new LoadedBlas(load({}, namespace_for(c_library, preferred_blas_core())));
  return loaded;
}

bool has_fitting_kernels(const BlasInfo& info) {
  return blas_core_warning(info.version, info.kernels, {}, fitting_blas_cores(this_processor()))
      .empty();
}

ReferenceBlas find_reference() {
  const LoadedBlas& used = process_blas({});
  if (has_fitting_kernels(used.info)) {
    return {.info = used.info, .why_none = {}, .functions = &used.functions};
  }
  try {
    const LoadedBlas& other = other_blas();
    if (has_fitting_kernels(other.info)) {
      return {.info = other.info, .why_none = {}, .functions = &other.functions};
    }
    return {.info = {}, .why_none = other.info.warning};
  } catch (const ConfigurationError& error) {
    return {.info = {}, .why_none = error.what()};
  }
}

}  // namespace

const BlasFunctions& blas() {
  const LoadedBlas& loaded = process_blas({});
  static thread_local const Caller caller(*loaded.buffers);
  return loaded.functions;
}

void reserve_buffers(std::int32_t callers) { process_blas({}).buffers->reserve(callers); }

std::int32_t set_library_threads(std::int32_t wanted) {
  const LoadedBlas& loaded = process_blas({});
  std::int32_t threads = std::max(wanted, 1);
  // It raises SIGINT where it gets no thread, so they are started here first and wait for the last.
  if (threads > 1) {
    std::vector<std::jthread> tried;
    std::latch all_started(1);
    while (static_cast<std::int32_t>(tried.size()) < threads - 1 &&
           start_thread(tried, [&] { all_started.wait(); })) {
    }
    threads = static_cast<std::int32_t>(tried.size()) + 1;
    all_started.count_down();
    tried.clear();
  }
  for (; threads > 1; threads /= 2) {
    try {
      loaded.buffers->serve(threads - 1);
      break;
    } catch (const OutOfMemory&) {  // fewer of them may do
    }
  }
  loaded.functions.openblas_set_num_threads(threads);
  return threads;
}

std::string preferred_blas_core() {
  const std::vector<std::string_view> fitting = fitting_blas_cores(this_processor());
  return fitting.empty() ? std::string() : std::string(fitting.front());
}

const BlasInfo& load_blas(std::string_view core_wish) { return process_blas(core_wish).info; }

void keep_blas_apart(std::string core_wish) {
  const std::lock_guard lock(apart().mutex);
  apart().is_asked = true;
  apart().core_wish = std::move(core_wish);
}

const ReferenceBlas& reference_blas() {
  static const ReferenceBlas reference = find_reference();
  return reference;
}

const BlasFunctions& ReferenceBlas::entered() const {
  if (functions == &process_blas({}).functions) {
    return blas();
  }
  static thread_local const Caller caller(*other_blas().buffers);
  return *functions;
}

void ReferenceBlas::rank_update(std::int64_t p, const float* a, float* c) const {
  const auto order = static_cast<int>(p);
  entered().cblas_ssyrk(CblasColMajor, CblasUpper, CblasNoTrans, order, order, 1.0F, a, order, 0.0F,
                        c, order);
}

void ReferenceBlas::rank_update(std::int64_t p, const double* a, double* c) const {
  const auto order = static_cast<int>(p);
  entered().cblas_dsyrk(CblasColMajor, CblasUpper, CblasNoTrans, order, order, 1.0, a, order, 0.0,
                        c, order);
}

}  // namespace vindex::blas
