// Owns the rule of blocks, and reading what a file of gate vectors claims of its vectors and its
// vocabulary.
#include "gate_vector_layout.hpp"

#include "core/digest.hpp"
#include "core/integers.hpp"
#include "results/reading/table_rows.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace vindex::commands {

using results::h5::Shape;
using results::h5::Type;

namespace {

constexpr std::uint64_t kBlockBytes = 256U << 10U;
constexpr std::uint64_t kMostVocabularyBytes = 256U << 20U;
constexpr const char* kVocabulary = "/vocabulary";

constexpr std::array<std::string_view, 4> kSpellings = {"plain", "space-mark", "byte-level",
                                                        "continuation"};

[[noreturn]] void refuse(const results::h5::File& file, const std::string& path,
                         const std::string& why) {
  throw FormatError("E-RESULTS-SCHEMA", printable(file.label() + " " + path), why);
}

results::h5::Layout chunked(std::uint64_t rows) {
  constexpr std::uint64_t kRows = 1U << 18U;
  results::h5::Layout layout;
  if (rows > 0) {
    layout.chunk = {std::min(rows, kRows)};
    layout.deflate = 1;
  }
  return layout;
}

template <typename T>
void write_list(results::h5::File& file, const std::string& path, const std::vector<T>& values) {
  results::h5::Dataset dataset =
      file.make_dataset(path, results::h5::type_of<T>(), {values.size()}, chunked(values.size()));
  dataset.write<T>(0, values.size(), values);
}

template <typename T>
std::vector<T> read_list(const results::h5::File& file, const std::string& path,
                         std::uint64_t most) {
  const results::h5::Dataset dataset = file.open_dataset(path);
  if (dataset.shape().size() != 1 || dataset.side(0) > most) {
    refuse(file, path, "another shape than belongs here");
  }
  std::vector<T> values(dataset.side(0));
  dataset.read<T>(0, values.size(), values);
  return values;
}

}  // namespace

std::int64_t block_rows(std::uint64_t row_bytes) {
  std::int64_t rows = kGateChunkRows;
  while (rows > 1 && static_cast<std::uint64_t>(rows) * row_bytes > kBlockBytes) {
    rows /= 2;
  }
  return rows;
}

std::int64_t block_digest(std::span<const std::byte> rows) {
  Sha256 sha;
  sha.update(rows);
  const Sha256Digest digest = sha.finish();
  std::int64_t first = 0;
  std::memcpy(&first, digest.data(), sizeof first);
  return first;
}

StoredVectors stored_vectors(const results::h5::File& file, const std::string& group,
                             std::uint64_t file_bytes) {
  const std::string path = group + "/vectors";
  const results::h5::Dataset dataset = file.open_dataset(path);
  StoredVectors vectors;
  vectors.type = dataset.type();
  if (vectors.type != Type::kFloat16 && vectors.type != Type::kBFloat16 &&
      vectors.type != Type::kFloat32) {
    refuse(file, path, "no vectors of float16, bfloat16 or float32");
  }
  if (dataset.shape().size() != 2 || dataset.side(0) == 0 || dataset.side(1) == 0) {
    refuse(file, path, "another shape than belongs here");
  }
  vectors.rows = dataset.side(0);
  vectors.cols = dataset.side(1);
  const auto place = dataset.place();
  const auto row = checked_multiply(vectors.cols, results::h5::type_bytes(vectors.type));
  const auto bytes = row ? checked_multiply(vectors.rows, *row) : std::nullopt;
  const auto end = place && bytes ? checked_add(*place, *bytes) : std::nullopt;
  if (!end || *end > file_bytes || !checked_count(vectors.rows) || !checked_count(vectors.cols)) {
    refuse(file, path, "not all of it lies in the file, in one piece and unfiltered");
  }
  vectors.place = *place;
  vectors.digests = results::read_numbers<std::int64_t>(
      file, group + "/block_sha256",
      {ceil_divide(vectors.rows, static_cast<std::uint64_t>(block_rows(*row)))});
  return vectors;
}

void write_vocabulary(results::h5::File& file, const model::Vocabulary& vocabulary) {
  std::vector<std::int8_t> bytes, present;
  std::vector<std::int64_t> ends;
  for (std::int64_t i = 0; i < vocabulary.size(); ++i) {
    const std::string_view entry = vocabulary.entry(i).value_or("");
    const auto* const first = reinterpret_cast<const std::int8_t*>(entry.data());
    bytes.insert(bytes.end(), first, first + entry.size());
    ends.push_back(static_cast<std::int64_t>(bytes.size()));
    present.push_back(vocabulary.entry(i) ? 1 : 0);
  }
  file.make_group(kVocabulary);
  write_list(file, std::string(kVocabulary) + "/bytes", bytes);
  write_list(file, std::string(kVocabulary) + "/end", ends);
  write_list(file, std::string(kVocabulary) + "/present", present);
  const std::vector<std::string> facts = {
      vocabulary.source(),
      std::string(kSpellings.at(static_cast<std::size_t>(vocabulary.spelling())))};
  file.write_strings(std::string(kVocabulary) + "/source_and_spelling", facts);
}

std::optional<model::Vocabulary> stored_vocabulary(const results::h5::File& file) {
  if (!file.exists(kVocabulary)) {
    return std::nullopt;
  }
  const std::string at = kVocabulary;
  const auto bytes = read_list<std::int8_t>(file, at + "/bytes", kMostVocabularyBytes);
  const auto ends = read_list<std::int64_t>(file, at + "/end", kMostVocabularyBytes);
  const auto present = read_list<std::int8_t>(file, at + "/present", kMostVocabularyBytes);
  const std::vector<std::string> facts = file.read_strings(at + "/source_and_spelling");
  const auto spelling = facts.size() == 2
                            ? std::find(kSpellings.begin(), kSpellings.end(), facts.back())
                            : kSpellings.end();
  if (ends.size() != present.size() || spelling == kSpellings.end()) {
    refuse(file, at, "no vocabulary as this program writes it");
  }
  std::vector<std::optional<std::string>> entries;
  std::int64_t from = 0;
  const auto* const text = reinterpret_cast<const char*>(bytes.data());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] < from || ends[i] > std::ssize(bytes)) {
      refuse(file, at + "/end", fmt::format("entry {} ends where it cannot", i));
    }
    entries.push_back(present[i] == 0 ? std::nullopt
                                      : std::optional(std::string(text + from, text + ends[i])));
    from = ends[i];
  }
  return model::Vocabulary(facts.front(),
                           static_cast<model::Spelling>(spelling - kSpellings.begin()),
                           std::move(entries));
}

}  // namespace vindex::commands
