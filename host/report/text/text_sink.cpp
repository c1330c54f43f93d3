// Owns writing and finishing an export, and how cells of CSV and JSON are written.
#include "text_sink.hpp"

#include "core/json/json_document.hpp"
#include "results/parts/output_path.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <sys/stat.h>

namespace vindex::report {

namespace {
constexpr std::size_t kBufferBytes = 1U << 20U;
}

TextSink::TextSink(const std::string& target)
    : out_(target == "-" ? target : results::resolve_output(target)) {}

void TextSink::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBufferBytes) {
    flush();
  }
}

void TextSink::flush() {
  out_.write(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

void TextSink::finish() {
  flush();
  out_.commit();
}

void make_output_folder(const std::string& folder) {
  struct stat status = {};
  if (stat(folder.c_str(), &status) == 0) {
    if (!S_ISDIR(status.st_mode)) {
      throw OutputError("E-OUT-PATH",
                        printable(folder) + " is not a folder; this format writes one");
    }
    return;
  }
  if (::mkdir(folder.c_str(), 0777) != 0) {
    throw_output_error("E-OUT-CREATE", errno, "cannot create folder " + printable(folder));
  }
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    return text;
  }
  std::string out = "\"";
  for (const char c : text) {
    out += c == '"' ? "\"\"" : std::string(1, c);
  }
  return out + "\"";
}

std::string csv_number(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string json_string(const std::string& text) {
  // What is no UTF-8 was escaped before it was stored; a foreign file may still hold any bytes.
  return Json(text).dump();
}

}  // namespace vindex::report
