// Owns the signatures of each kind, and what is said of it.
#include "file_kind.hpp"

#include "core/files/byte_source.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>

namespace vindex::input {

namespace {
using namespace std::string_view_literals;

constexpr std::size_t kSniffedBytes = 512;
constexpr std::size_t kTarMagicPosition = 257;

struct Signature {
  std::string_view bytes;
  std::string_view id;
  std::string_view what;
};

constexpr std::string_view kPointer =
    "the data was never fetched: run `git lfs pull`, or download the file itself";
constexpr std::string_view kUnpack = "unpack it first";

constexpr Signature kBinary[] = {
    {"PK\x03\x04"sv, "E-FILE-PICKLE",
     "a zip archive, as PyTorch checkpoints are: convert it to "
     "safetensors (pickles can run code and are never read)"},
    {"PK\x05\x06"sv, "E-FILE-ARCHIVE", "an empty zip archive"},
    {"\x1f\x8b"sv, "E-FILE-ARCHIVE", "a gzip archive"},
    {"\x28\xb5\x2f\xfd"sv, "E-FILE-ARCHIVE", "a zstd archive"},
    {"\xfd"
     "7zXZ\x00"sv,
     "E-FILE-ARCHIVE", "an xz archive"},
    {"BZh"sv, "E-FILE-ARCHIVE", "a bzip2 archive"},
    {"7z\xbc\xaf\x27\x1c"sv, "E-FILE-ARCHIVE", "a 7z archive"},
    {"\x04\x22\x4d\x18"sv, "E-FILE-ARCHIVE", "an lz4 archive"},
    {"Rar!\x1a\x07"sv, "E-FILE-ARCHIVE", "a RAR archive"},
    {"\x89HDF\r\n\x1a\n"sv, "E-FILE-OTHER", "an HDF5 file"},
    {"\x93NUMPY"sv, "E-FILE-OTHER", "a NumPy array"},
    {"lmgg"sv, "E-FILE-OTHER", "a GGML file of 2023, before GGUF: convert the model again"},
    {"fmgg"sv, "E-FILE-OTHER", "a GGMF file of 2023, before GGUF: convert the model again"},
    {"tjgg"sv, "E-FILE-OTHER", "a GGJT file of 2023, before GGUF: convert the model again"},
};

/// Beginnings of text files, lower case, after white space and a byte-order mark.
constexpr Signature kText[] = {
    {"version https://git-lfs.github.com/spec/"sv, "E-FILE-LFS-POINTER", "a Git LFS pointer"},
    {"# xet version"sv, "E-FILE-XET-POINTER", "a Xet pointer"},
    {"<!doctype html"sv, "E-FILE-HTML", "an HTML page"},
    {"<html"sv, "E-FILE-HTML", "an HTML page"},
    {"<?xml"sv, "E-FILE-HTML", "an XML document, as storage services send for errors"},
};

[[noreturn]] void refuse(const ByteSource& source, std::string_view id, std::string_view what) {
  std::string message = fmt::format("this is {}", what);
  if (id == "E-FILE-LFS-POINTER" || id == "E-FILE-XET-POINTER") {
    message += fmt::format("; {}", kPointer);
  } else if (id == "E-FILE-ARCHIVE") {
    message += fmt::format("; {}", kUnpack);
  } else if (id == "E-FILE-HTML" || id == "E-FILE-JSON" || id == "E-FILE-TEXT") {
    message += "; the download failed or needs a login, fetch the file again";
  }
  throw FormatError(std::string(id), fmt::format("{} at byte 0", source.name()), message);
}

/// Lower case, without leading white space and byte-order mark.
std::string as_text(std::string_view beginning) {
  if (beginning.starts_with("\xEF\xBB\xBF")) {
    beginning.remove_prefix(3);
  }
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  std::string text(first == std::string_view::npos ? ""sv : beginning.substr(first));
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  });
  return text;
}

bool is_plain_text(std::string_view beginning) {
  return std::all_of(beginning.begin(), beginning.end(), [](unsigned char c) {
    return (c >= 0x20 && c < 0x7F) || c == '\n' || c == '\r' || c == '\t';
  });
}

void refuse_known_kinds(const ByteSource& source, std::string_view beginning) {
  if (beginning.empty()) {
    refuse(source, "E-FILE-EMPTY", "an empty file");
  }
  for (const Signature& signature : kBinary) {
    if (beginning.starts_with(signature.bytes)) {
      refuse(source, signature.id, signature.what);
    }
  }
  if (beginning.size() > kTarMagicPosition &&
      beginning.substr(kTarMagicPosition).starts_with("ustar")) {
    refuse(source, "E-FILE-ARCHIVE", "a tar archive");
  }
  const bool pickle =
      beginning.size() >= 2 && beginning[0] == '\x80' && beginning[1] >= 2 && beginning[1] <= 5;
  // A safetensors header of 640, 896... bytes begins with the same two; its third byte to its
  // eighth are zero.
  if (pickle && !(beginning.size() > 8 && beginning[8] == '{')) {
    refuse(
        source, "E-FILE-PICKLE",
        "a Python pickle, as PyTorch checkpoints are: convert it to safetensors (pickles can run "
        "code and are never read)");
  }
  const std::string text = as_text(beginning);
  for (const Signature& signature : kText) {
    if (text.starts_with(signature.bytes)) {
      refuse(source, signature.id, signature.what);
    }
  }
}

/// A safetensors file: a length below 2^32, so four zero bytes, then '{'.
bool looks_like_safetensors(std::string_view beginning) {
  return beginning.size() > 8 && beginning.substr(4, 4) == "\0\0\0\0"sv && beginning[8] == '{';
}
}  // namespace

FileKind detect_container(ByteSource& source) {
  const std::string beginning = beginning_of(source, kSniffedBytes);
  if (beginning.starts_with("GGUF")) {
    return FileKind::kGguf;
  }
  if (looks_like_safetensors(beginning)) {
    return FileKind::kSafetensors;
  }
  refuse_known_kinds(source, beginning);
  const std::string text = as_text(beginning);
  if (text.starts_with('{') || text.starts_with('[')) {
    refuse(source, "E-FILE-JSON", "a JSON document, not a container of tensors");
  }
  if (is_plain_text(beginning) && beginning.size() > 8) {
    // Not what it says: a link may lead to a file that is nobody's business.
    refuse(source, "E-FILE-TEXT", "a text file");
  }
  const std::string& name = source.name();
  if (name.ends_with(".gguf")) {
    return FileKind::kGguf;
  }
  if (name.ends_with(".safetensors")) {
    return FileKind::kSafetensors;
  }
  refuse(source, "E-FILE-OTHER", "neither a GGUF nor a safetensors file");
}

void refuse_other_than_json(ByteSource& source) {
  refuse_known_kinds(source, beginning_of(source, kSniffedBytes));
}

}  // namespace vindex::input
