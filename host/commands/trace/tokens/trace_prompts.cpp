// Owns reading lines of ids, arrays of ids, and their digest.
#include "trace_prompts.hpp"

#include "core/digest.hpp"
#include "core/files/byte_source.hpp"
#include "core/integers.hpp"
#include "core/json/json_scanner.hpp"
#include "core/process/stop.hpp"
#include "input/npy/npy.hpp"
#include "input/stores/open_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace vindex::commands {

namespace {

using decode::ElementType;

/// Of a line: some ten million ids.
constexpr std::size_t kMaxLineBytes = 128U << 20U;
constexpr std::uint64_t kChunkBytes = 1U << 20U;

/// Takes ids one by one and refuses what is none.
class IdSink {
 public:
  IdSink(TracePrompts& prompts, std::int64_t vocabulary, std::int64_t most)
      : prompts_(prompts),
        most_(most),
        end_(vocabulary > 0 ? static_cast<std::uint64_t>(vocabulary)
                            : std::uint64_t{std::numeric_limits<std::int32_t>::max()} + 1) {}

  /// `where()` is the text of its place.
  template <typename Where>
  void add(std::uint64_t id, const Where& where) {
    if (id >= end_) {
      throw FormatError("E-IDS", where(),
                        fmt::format("id {} is outside the vocabulary (0 to {})", id, end_ - 1));
    }
    if (prompts_.tokens() >= most_) {
      throw ConfigurationError(
          "E-BUDGET", fmt::format("{}: more than {} tokens, which is what --ram-budget has room "
                                  "for: a larger one, or fewer prompts at a time",
                                  where(), most_));
    }
    prompts_.ids.push_back(static_cast<std::int32_t>(id));
  }
  void end_prompt(const std::string& where) {
    const std::int64_t length = prompts_.tokens() - ended_;
    if (length == 0) {
      throw FormatError("E-IDS", where, "a prompt without tokens");
    }
    prompts_.lengths.push_back(length);
    ended_ = prompts_.tokens();
  }

 private:
  TracePrompts& prompts_;
  std::int64_t most_;
  std::uint64_t end_;
  std::int64_t ended_ = 0;
};

void read_list(JsonScanner& scanner, IdSink& sink, const std::string& where) {
  if (scanner.peek() != JsonKind::kArray) {
    throw FormatError("E-IDS", where, "a list of token numbers is needed");
  }
  scanner.enter_array();
  while (scanner.next_element()) {
    if (scanner.peek() != JsonKind::kNumber) {
      throw FormatError("E-IDS", where, "a list of token numbers holds something else");
    }
    const JsonScanner::Number number = scanner.number();
    const auto* id = std::get_if<std::uint64_t>(&number);
    if (id == nullptr) {
      throw FormatError("E-IDS", where, "token numbers are integers from 0 on");
    }
    sink.add(*id, [&] { return where; });
  }
}

void read_line(std::string& line, IdSink& sink, const std::string& where) {
  JsonScanner scanner(line, where, {.bytes = kMaxLineBytes});
  if (scanner.peek() == JsonKind::kObject) {
    bool found = false;
    scanner.enter_object();
    while (const auto key = scanner.next_key()) {
      if (*key == "ids") {
        found = true;
        read_list(scanner, sink, where);
      } else {
        scanner.skip_value();
      }
    }
    if (!found) {
      throw FormatError("E-IDS", where, R"(no "ids" in it; a line is {"ids": [1, 5, 9]})");
    }
  } else {
    read_list(scanner, sink, where);
  }
  scanner.finish();
  sink.end_prompt(where);
}

/// Calls take(line, number) for every line that is not empty, in bounded memory.
template <typename Take>
void for_each_line(ByteSource& source, Take take) {
  std::string line;
  std::string chunk;
  std::int64_t number = 1;
  const auto end_line = [&] {
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    if (line.find_first_not_of(" \t") != std::string::npos) {
      take(line, number);
    }
    line.clear();
    ++number;
  };
  for (std::uint64_t at = 0; at < source.size(); at += chunk.size()) {
    chunk = text_at(source, at, std::min(kChunkBytes, source.size() - at));
    std::string_view left = chunk;
    for (std::size_t end = left.find('\n'); end != std::string_view::npos; end = left.find('\n')) {
      line.append(left.substr(0, end));
      end_line();
      left.remove_prefix(end + 1);
    }
    line.append(left);
    if (line.size() > kMaxLineBytes) {
      throw FormatError("E-IDS", fmt::format("{}, line {}", source.name(), number),
                        fmt::format("a line of more than {} bytes", kMaxLineBytes));
    }
  }
  end_line();
}

template <typename Stored>
void add_stored(const std::string& bytes, IdSink& sink, std::uint64_t first,
                const std::string& where) {
  for (std::size_t at = 0; at + sizeof(Stored) <= bytes.size(); at += sizeof(Stored)) {
    Stored value{};
    std::memcpy(&value, bytes.data() + at, sizeof(Stored));
    const auto place = [&] {
      return fmt::format("{}, token {}", where, first + at / sizeof(Stored));
    };
    if (value < Stored{0}) {
      throw FormatError("E-IDS", place(), fmt::format("id {} is negative", value));
    }
    sink.add(static_cast<std::uint64_t>(value), place);
  }
}

using AddStored = void (*)(const std::string&, IdSink&, std::uint64_t, const std::string&);

AddStored reader_of(ElementType type, const std::string& where) {
  switch (type) {
    case ElementType::kI8:
      return add_stored<std::int8_t>;
    case ElementType::kI16:
      return add_stored<std::int16_t>;
    case ElementType::kI32:
      return add_stored<std::int32_t>;
    case ElementType::kI64:
      return add_stored<std::int64_t>;
    case ElementType::kU8:
      return add_stored<std::uint8_t>;
    case ElementType::kU16:
      return add_stored<std::uint16_t>;
    case ElementType::kU32:
      return add_stored<std::uint32_t>;
    case ElementType::kU64:
      return add_stored<std::uint64_t>;
    default:
      throw FormatError("E-IDS", where,
                        fmt::format("elements of type {}: integers are needed",
                                    decode::element_type_row(type).name));
  }
}

void read_array(ByteSource& source, IdSink& sink, const std::stop_token& stop) {
  const input::NpyHeader header = input::read_npy_header(source);
  source.header_is_read();
  if (header.shape.size() != 1) {
    throw FormatError("E-IDS", source.name(),
                      fmt::format("shape [{}]: one prompt as integers [tokens] is needed",
                                  fmt::join(header.shape, ", ")));
  }
  const AddStored add = reader_of(header.type, source.name());
  const auto width = static_cast<std::uint64_t>(decode::element_type_row(header.type).block_bytes);
  for (std::uint64_t at = 0; at < header.bytes; at += kChunkBytes) {
    throw_if_stopped(stop);
    add(text_at(source, header.offset + at, std::min(kChunkBytes, header.bytes - at)), sink,
        at / width, source.name());
  }
  sink.end_prompt(source.name());
}

}  // namespace

std::int64_t TracePrompts::longest() const {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

std::string TracePrompts::digest() const {
  Sha256 digest;
  const auto count = static_cast<std::uint64_t>(lengths.size());
  digest.update(std::as_bytes(std::span(&count, 1)));
  digest.update(std::as_bytes(std::span(lengths)));
  digest.update(std::as_bytes(std::span(ids)));
  return hex(digest.finish());
}

TracePrompts read_prompts(const std::string& path, std::int64_t vocabulary,
                          const std::stop_token& stop, std::int64_t most) {
  TracePrompts prompts;
  IdSink sink(prompts, vocabulary, most);
  const auto source = input::open_input(path, stop);
  if (path.ends_with(".npy") || input::is_npy(*source)) {
    read_array(*source, sink, stop);
    return prompts;
  }
  for_each_line(*source, [&](std::string& line, std::int64_t number) {
    throw_if_stopped(stop);
    read_line(line, sink, fmt::format("{}, line {}", source->name(), number));
  });
  if (prompts.lengths.empty()) {
    throw FormatError("E-IDS", source->name(), "no prompt in it");
  }
  return prompts;
}

std::vector<PromptBlock> prompt_blocks(std::span<const std::int64_t> lengths, std::int64_t tokens) {
  std::vector<PromptBlock> blocks;
  std::int64_t first = 0;
  for (std::size_t prompt = 0; prompt < lengths.size(); ++prompt) {
    if (blocks.empty() || blocks.back().tokens + lengths[prompt] > tokens) {
      blocks.push_back({.first_prompt = prompt, .first = first});
    }
    ++blocks.back().prompts;
    blocks.back().tokens += lengths[prompt];
    first += lengths[prompt];
  }
  return blocks;
}

}  // namespace vindex::commands
