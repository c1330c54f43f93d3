// Owns what to say of a read.
#include "read_statistics.hpp"

#include "core/text/size_text.hpp"

#include <fmt/format.h>

namespace vindex::input {

std::string reading_text(const ReadStatistics& s, const std::string& engine) {
  std::string out = "read " + data_text(s.bytes());
  if (s.busy_seconds > 0.0) {
    out += fmt::format(" at {}/s", data_text(static_cast<double>(s.bytes()) / s.busy_seconds));
  }
  const auto part = [&](std::uint64_t bytes, const std::string& way) {
    if (bytes > 0) {
      out += fmt::format(", {} {}", data_text(bytes), way);
    }
  };
  part(s.direct_bytes, fmt::format("straight from the storage ({})", engine));
  part(s.cached_bytes, "from the system's file cache");
  part(s.buffered_bytes, "from the storage through the file cache");
  part(s.other_bytes, "from other sources");
  if (s.prefers_buffered) {
    out +=
        fmt::format("; through the file cache by choice: a request came at {}/s, directly at {}/s",
                    data_text(s.buffered_rate), data_text(s.direct_rate));
  }
  if (!s.refused.empty()) {
    out += fmt::format("; direct reads refused for {} file{}, first {}", s.refused.size(),
                       s.refused.size() == 1 ? "" : "s", s.refused.front());
  }
  return out;
}

}  // namespace vindex::input
