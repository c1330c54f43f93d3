// Any bytes as a page of ListObjectsV2: refused by its one error, or a page whose parts all came
// out of them.
#include "input/s3/s3_listing.hpp"
#include <vindex/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const vindex::input::S3Listing page = vindex::input::read_s3_listing(text, "fuzz");
    std::size_t bytes = page.next.size();
    for (const auto* const list : {&page.keys, &page.prefixes}) {
      for (const std::string& key : *list) {
        bytes += key.size();
      }
    }
    if (bytes > size) {
      std::abort();
    }
  } catch (const vindex::RemoteError& error) {
    if (error.id() != "E-REMOTE-ANSWER" || error.retryable()) {
      std::abort();
    }
  }
  return 0;
}
