// Owns finding libcurl. It is loaded when a remote address is first opened, never linked: a program
// that reads local files alone starts where it is not installed.
#pragma once

#include <curl/curl.h>

namespace vindex::input {

/// Calls of libcurl that this project makes, each with its own type.
#define VINDEX_CURL_FUNCTIONS(apply)                                                               \
  apply(curl_global_init) apply(curl_easy_init) apply(curl_easy_cleanup) apply(curl_easy_reset)    \
      apply(curl_easy_setopt) apply(curl_easy_getinfo) apply(curl_easy_strerror)                   \
          apply(curl_slist_append) apply(curl_slist_free_all) apply(curl_multi_init)               \
              apply(curl_multi_cleanup) apply(curl_multi_add_handle)                               \
                  apply(curl_multi_remove_handle) apply(curl_multi_perform) apply(curl_multi_poll) \
                      apply(curl_multi_info_read) apply(curl_multi_strerror)

// curl.h wraps calls of some of them in macros that check types.
#undef curl_easy_setopt
#undef curl_easy_getinfo

struct CurlFunctions {
#define VINDEX_CURL_MEMBER(name) decltype(&::name) name = nullptr;
  VINDEX_CURL_FUNCTIONS(VINDEX_CURL_MEMBER)
#undef VINDEX_CURL_MEMBER
};

/// Loads it at the first call. Thread-safe. Errors: ConfigurationError E-CURL-MISSING (78) saying
/// what to install.
const CurlFunctions& curl_library();

/// True where a package carries one. It looks for certificates where its own distribution has them.
bool is_curl_carried();

}  // namespace vindex::input
