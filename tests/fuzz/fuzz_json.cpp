// Any bytes as JSON: what is accepted here, an independent parser accepts too.
#include "core/json/json.hpp"
#include <vindex/error.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool unsigned_only : {false, true}) {
    vindex::JsonLimits limits;
    limits.unsigned_integers_only = unsigned_only;
    try {
      vindex::parse_json(text, "fuzz", limits);
    } catch (const vindex::Error&) {
      continue;
    }
    if (!nlohmann::json::accept(text)) {
      std::abort();
    }
  }
  return 0;
}
