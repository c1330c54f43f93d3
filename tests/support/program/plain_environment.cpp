// Part of every test program: variables of a shell that change what programs print or whom they ask
// are none of a test's. Each test sets those that it is about.
#include <cstdlib>
#include <initializer_list>

namespace vindex::testing::plain_environment {
namespace {

[[maybe_unused]] const bool kIsPlain = [] {
  for (const char* const name :
       {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "LANGUAGE", "LC_ALL", "LANG", "TZ",
        "OMP_NUM_THREADS", "http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY",
        "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}) {
    ::unsetenv(name);
  }
  return true;
}();

}  // namespace
}  // namespace vindex::testing::plain_environment
