// Owns loading libcurl by its names, and the table of the functions that are used.
#include "curl_library.hpp"

#include "core/files/companions.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <array>
#include <dlfcn.h>
#include <string>
#include <vector>

namespace vindex::input {

namespace {

/// Needs the libcurl that a package carries, and has nothing else: its functions are found through
/// it (python/CMakeLists.txt).
constexpr const char* kCarried = "libvindex_carried_curl.so";

/// The names of Debian's three flavours and of other distributions, wherever the loader looks.
constexpr std::array<const char*, 2> kCurlNames = {"libcurl.so.4", "libcurl-gnutls.so.4"};

constexpr const char* kInstallCurl =
    "remote addresses need it: install it (Debian: libcurl4), or name its folder in "
    "LD_LIBRARY_PATH";

CurlFunctions load_curl() {
  std::vector<std::string> candidates(kCurlNames.begin(), kCurlNames.end());
  if (is_curl_carried()) {
    candidates.insert(candidates.begin(), find_companion(kCarried));
  }
  void* library = nullptr;
  std::string why;
  for (const std::string& name : candidates) {
    // Never closed: functions point into it for the life of the process.
    library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      break;
    }
    why += (why.empty() ? "" : "; ") + std::string(::dlerror());
  }
  if (library == nullptr) {
    throw ConfigurationError("E-CURL-MISSING",
                             fmt::format("libcurl cannot be loaded ({}); {}", why, kInstallCurl));
  }
  CurlFunctions functions;
  std::string lacking;
#define VINDEX_CURL_LOOKUP(name)                                                        \
  functions.name = reinterpret_cast<decltype(functions.name)>(::dlsym(library, #name)); \
  if (functions.name == nullptr) {                                                      \
    lacking += std::string(" ") + #name;                                                \
  }
  VINDEX_CURL_FUNCTIONS(VINDEX_CURL_LOOKUP)
#undef VINDEX_CURL_LOOKUP
  if (!lacking.empty()) {
    throw ConfigurationError(
        "E-CURL-MISSING", fmt::format("the libcurl found here lacks{}; {}", lacking, kInstallCurl));
  }
  if (functions.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    throw ConfigurationError("E-CURL-MISSING", "libcurl cannot be initialised");
  }
  return functions;
}

}  // namespace

bool is_curl_carried() {
  static const bool is_carried = !find_companion(kCarried).empty();
  return is_carried;
}

const CurlFunctions& curl_library() {
  static const CurlFunctions functions = load_curl();
  return functions;
}

}  // namespace vindex::input
