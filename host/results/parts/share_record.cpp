// Owns writing and parsing a record line by line.
#include "share_record.hpp"

#include "output_path.hpp"

#include "core/digest.hpp"
#include "core/files/atomic_file.hpp"
#include "core/files/process_name.hpp"
#include "core/files/small_file.hpp"
#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace vindex::results {

namespace {

constexpr std::string_view kRecordSuffix = ".done";
constexpr std::size_t kMaxRecordBytes = 16U << 20U;
constexpr std::size_t kDivisionDigits = 16;

std::string record_path(const std::string& folder, const std::string& tag) {
  return fmt::format("{}/{}{}", folder, tag, kRecordSuffix);
}

bool is_part_name(std::string_view name) {
  return name.starts_with("part-") && name.find('/') == std::string_view::npos &&
         name == escaped(std::string(name));
}

}  // namespace

std::string division_digest(const std::vector<std::string>& keys,
                            const std::vector<std::int32_t>& owners) {
  expects(keys.size() == owners.size(), "an owner for every row");
  Sha256 sha;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string line = fmt::format("{} {}\n", owners[i], keys[i]);
    sha.update(std::as_bytes(std::span(line)));
  }
  return hex(sha.finish()).substr(0, kDivisionDigits);
}

std::string record_text(const ShareRecord& record) {
  std::string text =
      fmt::format("division {}\nowner {}\nrows {}\n", record.division, record.owner, record.rows);
  for (const std::string& part : record.parts) {
    text += fmt::format("part {}\n", part);
  }
  return text + "end\n";
}

std::optional<ShareRecord> parse_record(std::string_view text) {
  ShareRecord record;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line == "end") {
      return record.division.empty() ? std::nullopt : std::optional(record);
    }
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string_view name = line.substr(0, space);
    const std::string value(line.substr(std::min(space + 1, line.size())));
    if (name == "division") {
      record.division = value;
    } else if (name == "owner") {
      record.owner = value;
    } else if (name == "rows") {
      record.rows = std::max<std::int64_t>(whole_number<std::int64_t>(value).value_or(0), 0);
    } else if (name == "part") {
      if (!is_part_name(value)) {
        return std::nullopt;
      }
      record.parts.push_back(value);
    }  // a later version may say more
  }
  return std::nullopt;
}

void write_record(const std::string& folder, const std::string& tag, const ShareRecord& record) {
  const std::string text = record_text(record);
  AtomicFile file(record_path(folder, tag));
  file.write(0, std::as_bytes(std::span(text)));
  file.publish();
}

std::optional<ShareRecord> read_record(const std::string& folder, const std::string& tag) {
  return parse_record(read_small_file(record_path(folder, tag), kMaxRecordBytes));
}

std::vector<std::string> record_tags(const std::string& folder) {
  std::vector<std::string> tags =
      names_in(folder, [](const std::string& name) { return name.ends_with(kRecordSuffix); });
  for (std::string& tag : tags) {
    tag.resize(tag.size() - kRecordSuffix.size());
  }
  return tags;
}

void remove_records(const std::string& folder) {
  for (const std::string& tag : record_tags(folder)) {
    remove_file(record_path(folder, tag));
  }
}

}  // namespace vindex::results
