// Machines without libcurl: this program's dlopen() finds none. Local files are read all the same.
#include "input/http/curl_library.hpp"
#include "input/stores/open_store.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace {
std::string missing;  ///< the library that was asked for last
}

// In place of the system's: nothing else of this program loads a library.
extern "C" void* dlopen(const char* name, int /*flags*/) noexcept {
  missing = name;
  return nullptr;
}
extern "C" char* dlerror() noexcept { return const_cast<char*>("no such library"); }

namespace vindex::input::without_curl_test {
namespace {

TEST(WithoutCurlTest, ARemoteAddressSaysWhatToInstall) {
  for (const char* address : {"https://host/model.gguf", "hf://org/repo", "s3://bucket/key"}) {
    try {
      const auto store = open_store(address);
      (void)store->state("config.json");
      FAIL() << address;
    } catch (const ConfigurationError& error) {
      EXPECT_EQ(error.id(), "E-CURL-MISSING");
      EXPECT_EQ(error.exit_code(), ExitCode::kBadConfiguration);
      EXPECT_NE(std::string_view(error.what()).find("libcurl4"), std::string_view::npos);
    }
    EXPECT_TRUE(missing.starts_with("libcurl"));
  }
}

TEST(WithoutCurlTest, LocalFilesAreReadAllTheSame) {
  EXPECT_FALSE(open_store(VINDEX_SOURCE_DIR)->list().empty());
}

}  // namespace
}  // namespace vindex::input::without_curl_test
