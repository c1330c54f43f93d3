// Owns scanning the header's dict, and reading arrays of numbers.
#include "npy.hpp"

#include "core/digest.hpp"
#include "core/files/byte_source.hpp"
#include "core/integers.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encoding_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace vindex::input {

namespace {

using decode::ElementType;
using std::string_view_literals::operator""sv;

constexpr std::string_view kMagic = "\x93NUMPY";
/// numpy itself refuses to evaluate headers of more than 10,000 bytes; nothing that we read has
/// 1,000.
constexpr std::uint64_t kLongestHeader = 65'536;
constexpr std::size_t kMaxNpyRank = 64;  // numpy 2
constexpr std::uint64_t kVersionBytes = 8;

struct TypeName {
  std::string_view descr;
  ElementType type;
};

constexpr std::array kTypes = std::to_array<TypeName>({{"<f2", ElementType::kF16},
                                                       {"<f4", ElementType::kF32},
                                                       {"<f8", ElementType::kF64},
                                                       {"|i1", ElementType::kI8},
                                                       {"<i2", ElementType::kI16},
                                                       {"<i4", ElementType::kI32},
                                                       {"<i8", ElementType::kI64},
                                                       {"|u1", ElementType::kU8},
                                                       {"<u2", ElementType::kU16},
                                                       {"<u4", ElementType::kU32},
                                                       {"<u8", ElementType::kU64},
                                                       {"|b1", ElementType::kBool}});

/// The dict of a header, left to right, once.
class HeaderScanner {
 public:
  HeaderScanner(std::string_view text, const std::string& file, std::uint64_t first_byte)
      : text_(text), file_(file), first_byte_(first_byte) {}

  void read(NpyHeader& header) {
    expect('{');
    bool has_type = false;
    bool has_order = false;
    bool has_shape = false;
    while (!take('}')) {
      const std::size_t at = position_;
      const std::string_view key = string();
      expect(':');
      const auto once = [&](bool& seen) {
        if (std::exchange(seen, true)) {
          fail(at, "E-NPY-HEADER", fmt::format("'{}' appears twice", key));
        }
      };
      if (key == "descr") {
        once(has_type);
        header.type = type();
      } else if (key == "fortran_order") {
        once(has_order);
        order();
      } else if (key == "shape") {
        once(has_shape);
        header.shape = shape();
      } else {
        fail(at, "E-NPY-HEADER",
             fmt::format("unknown key '{}'", printable(std::string(key.substr(0, 80)))));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (position_ != text_.size()) {
      fail(position_, "E-NPY-HEADER", "text after the dict");
    }
    if (!has_type || !has_order || !has_shape) {
      fail(0, "E-NPY-HEADER", "needs all of 'descr', 'fortran_order' and 'shape'");
    }
  }

  [[noreturn]] void fail(std::size_t position, const char* id, const std::string& message) const {
    throw FormatError(id, fmt::format("{} at byte {}", file_, first_byte_ + position), message);
  }

 private:
  void skip_spaces() {
    position_ = std::min(text_.find_first_not_of(" \t\n\r", position_), text_.size());
  }

  bool take(char wanted) {
    skip_spaces();
    if (position_ < text_.size() && text_[position_] == wanted) {
      ++position_;
      skip_spaces();
      return true;
    }
    return false;
  }

  void expect(char wanted) {
    if (!take(wanted)) {
      fail(position_, "E-NPY-HEADER", fmt::format("'{}' is missing", wanted));
    }
  }

  /// In single or double quotes; an escape is no text that numpy writes.
  std::string_view string() {
    const char quote = position_ < text_.size() ? text_[position_] : '\0';
    if (quote != '\'' && quote != '"') {
      fail(position_, "E-NPY-HEADER", "a string is missing");
    }
    const std::size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) {
      fail(position_, "E-NPY-HEADER", "a string without an end");
    }
    const std::string_view found = text_.substr(position_ + 1, end - position_ - 1);
    if (found.find('\\') != std::string_view::npos) {
      fail(position_, "E-NPY-HEADER", "a string with an escape");
    }
    position_ = end + 1;
    skip_spaces();
    return found;
  }

  ElementType type() {
    const std::size_t at = position_;
    const char first = at < text_.size() ? text_[at] : '\0';
    if (first == '[' || first == '(') {
      fail(at, "E-NPY-DTYPE", "an array of structures: save each field as an array of its own");
    }
    const std::string_view descr = string();
    for (const TypeName& row : kTypes) {
      // A byte has no order: numpy writes '|' and reads any.
      const bool same =
          row.descr == descr ||
          (row.descr[0] == '|' && descr.size() == 3 && descr.substr(1) == row.descr.substr(1) &&
           (descr[0] == '<' || descr[0] == '>' || descr[0] == '='));
      if (same) {
        return row.type;
      }
    }
    const std::string shown = printable(std::string(descr.substr(0, 80)));
    if (descr.starts_with('>')) {
      fail(at, "E-NPY-DTYPE",
           fmt::format("'{}' is big-endian: save array.astype(array.dtype.newbyteorder('<'))",
                       shown));
    }
    if (descr.starts_with("|O"sv)) {
      fail(at, "E-NPY-DTYPE",
           "an array of Python objects, which is a pickle (it can run code and is never read): "
           "save an array of numbers");
    }
    if (descr == "<V2" || descr == "|V2") {
      fail(at, "E-NPY-DTYPE",
           fmt::format("'{}' is what numpy writes of bfloat16: save array.astype('float32'), or "
                       "BF16 in a .safetensors file",
                       shown));
    }
    fail(at, "E-NPY-DTYPE",
         fmt::format("elements of type '{}': save float16, float32 or float64, or integers of at "
                     "most 64 bits",
                     shown));
  }

  void order() {
    const std::size_t at = position_;
    const bool fortran = text_.substr(at).starts_with("True"sv);
    if (!fortran && !text_.substr(at).starts_with("False"sv)) {
      fail(at, "E-NPY-HEADER", "'fortran_order' is neither True nor False");
    }
    if (fortran) {
      fail(at, "E-NPY-ORDER",
           "the array is stored column by column (Fortran order): save "
           "numpy.ascontiguousarray(array)");
    }
    position_ += 5;
    skip_spaces();
  }

  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> sides;
    expect('(');
    while (!take(')')) {
      if (sides.size() == kMaxNpyRank) {
        fail(position_, "E-NPY-SHAPE", fmt::format("more than {} dimensions", kMaxNpyRank));
      }
      sides.push_back(side());
      if (!take(',')) {
        if (sides.size() == 1) {
          fail(position_, "E-NPY-HEADER", "a number in brackets is not a tuple");
        }
        expect(')');
        break;
      }
    }
    return sides;
  }

  std::int64_t side() {
    const std::size_t at = position_;
    std::uint64_t value = 0;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
      const auto shifted = checked_multiply(value, 10);
      const auto next =
          shifted ? checked_add(*shifted, static_cast<std::uint64_t>(text_[position_] - '0'))
                  : std::nullopt;
      if (!next || !checked_count(*next)) {
        fail(at, "E-NPY-SHAPE", "a side exceeds 2^63-1");
      }
      value = *next;
      ++position_;
    }
    if (position_ == at || (text_[at] == '0' && position_ - at > 1)) {
      fail(at, "E-NPY-HEADER", "a side of the shape is not a plain number");
    }
    skip_spaces();
    return static_cast<std::int64_t>(value);
  }

  std::string_view text_;
  const std::string& file_;
  std::uint64_t first_byte_;
  std::size_t position_ = 0;
};

/// Bytes before the dict, and its length. Errors: E-NPY-VERSION, E-NPY-LENGTH.
std::pair<std::uint64_t, std::uint64_t> read_npy_header_length(ByteSource& source) {
  std::array<unsigned char, kVersionBytes + 4> start{};
  const std::uint64_t at_hand = std::min<std::uint64_t>(start.size(), source.size());
  source.read(0, std::as_writable_bytes(std::span(start)).first(at_hand));
  const auto fail = [&](std::uint64_t offset, const char* id, const std::string& message) {
    throw FormatError(id, fmt::format("{} at byte {}", source.name(), offset), message);
  };
  const bool known = at_hand >= kVersionBytes && start[7] == 0 && start[6] >= 1 && start[6] <= 3;
  if (at_hand >= kVersionBytes && !known) {
    fail(6, "E-NPY-VERSION",
         fmt::format("version {}.{}: 1.0, 2.0 and 3.0 are read", start[6], start[7]));
  }
  const std::uint64_t before = kVersionBytes + (start[6] == 1 ? 2U : 4U);
  if (at_hand < before) {
    fail(0, "E-NPY-LENGTH", fmt::format("{} bytes are too few for a .npy file", source.size()));
  }
  std::uint64_t length = 0;
  for (std::uint64_t i = before; i-- > kVersionBytes;) {
    length = length << 8U | start[i];
  }
  if (length > kLongestHeader) {
    fail(kVersionBytes, "E-NPY-LENGTH",
         fmt::format("a header of {} bytes, more than {}", length, kLongestHeader));
  }
  if (length > source.size() - before) {
    fail(kVersionBytes, "E-NPY-LENGTH",
         fmt::format("a header of {} bytes does not fit a file of {}: cut short?", length,
                     source.size()));
  }
  return {before, length};
}

/// Bytes of an array; nothing on overflow.
std::optional<std::uint64_t> array_bytes(const NpyHeader& header) {
  std::vector<std::uint64_t> sides(header.shape.begin(), header.shape.end());
  const auto count = checked_product(sides);
  return count ? decode::stored_bytes(header.type, *count) : std::nullopt;
}

}  // namespace

bool is_npy(ByteSource& source) { return beginning_of(source, kMagic.size()) == kMagic; }

NpyHeader read_npy_header(ByteSource& source) {
  if (!is_npy(source)) {
    throw FormatError("E-NPY-MAGIC", fmt::format("{} at byte 0", source.name()),
                      "is not a .npy file, as its name says");
  }
  const auto [before, length] = read_npy_header_length(source);
  const std::string head = text_at(source, 0, before + length);
  NpyHeader header;
  HeaderScanner scanner(std::string_view(head).substr(before), source.name(), before);
  scanner.read(header);
  header.offset = head.size();
  const auto bytes = array_bytes(header);
  if (!bytes || !checked_count(*bytes)) {
    scanner.fail(0, "E-NPY-SHAPE", "the product of the sides exceeds 2^63-1 bytes");
  }
  const std::uint64_t stored = source.size() - header.offset;
  if (*bytes != stored) {
    throw FormatError(
        "E-NPY-SIZE", fmt::format("{} at byte {}", source.name(), header.offset),
        fmt::format("shape and type make {} bytes, {} follow the header: {}", *bytes, stored,
                    stored < *bytes ? "the file is cut short" : "something follows the array"));
  }
  header.bytes = *bytes;
  header.header_sha256 = hex(sha256(head));
  return header;
}

void require_npy_numbers(const ByteSource& source, const NpyHeader& header) {
  const decode::Encoding encoding = decode::plain_encoding(header.type);
  if (!decode::is_decodable(encoding)) {
    throw FormatError("E-NPY-DTYPE", source.name(),
                      fmt::format("holds {}; save it as float32", encoding.label));
  }
}

std::vector<float> read_npy_floats(ByteSource& source, const NpyHeader& header) {
  require_npy_numbers(source, header);
  const decode::Encoding encoding = decode::plain_encoding(header.type);
  std::vector<std::byte> bytes(static_cast<std::size_t>(header.bytes));
  source.read(header.offset, bytes);
  const auto width = static_cast<std::size_t>(decode::element_type_row(header.type).block_bytes);
  std::vector<float> values(bytes.size() / width);
  decode::decode_row(encoding, bytes, values);
  return values;
}

}  // namespace vindex::input
