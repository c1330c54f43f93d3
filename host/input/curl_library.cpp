#include "curl_library.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <array>
#include <dlfcn.h>
#include <string>

namespace vindex::input {

namespace {

/// The names of Debian's three flavours and of other distributions, wherever the loader looks.
constexpr std::array<const char*, 2> kCurlNames = {"libcurl.so.4", "libcurl-gnutls.so.4"};

constexpr const char* kInstallCurl =
    "remote addresses need it: install it (Debian: libcurl4), or name its folder in "
    "LD_LIBRARY_PATH";

CurlFunctions load_curl() {
  void* library = nullptr;
  std::string why;
  for (const char* const name : kCurlNames) {
    // Never closed: functions point into it for the life of the process.
    library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
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

const CurlFunctions& curl_library() {
  static const CurlFunctions functions = load_curl();
  return functions;
}

}  // namespace vindex::input
