// Owns the reading of both formats; importance_match.cpp says whom the entries belong to.
#include "importance_matrix.hpp"

#include "core/digest.hpp"
#include "core/files/byte_source.hpp"
#include "core/integers.hpp"
#include "gguf/header.hpp"
#include "gguf/read_header.hpp"
#include "input/stores/open_store.hpp"
#include "model/schemes/weight.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <unordered_map>
#include <utility>

namespace vindex::model {

namespace {

constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";
constexpr std::uint64_t kPieceBytes = 1U << 20U;
// As for a model's own names and tensors (input policy).
constexpr std::uint64_t kMaxImportanceEntries = 1'000'000;
constexpr std::uint64_t kMaxNameBytes = 64U << 10U;

[[noreturn]] void malformed(const ByteSource& source, std::uint64_t offset,
                            const std::string& what) {
  throw FormatError("E-IMATRIX", fmt::format("{} at byte {}", source.name(), offset), what);
}

/// Reads a .dat file from front to back; nothing is believed that its size does not allow.
class DatReader {
 public:
  explicit DatReader(ByteSource& source) : source_(source) {}
  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return source_.size() - at_; }

  /// A count that is not negative.
  std::uint64_t count(const char* what) {
    if (left() < sizeof(std::int32_t)) {
      malformed(source_, at_, fmt::format("the file ends before {}", what));
    }
    std::int32_t value = 0;
    source_.read(at_, std::as_writable_bytes(std::span(&value, 1)));
    if (value < 0) {
      malformed(source_, at_, fmt::format("{} is {}", what, value));
    }
    at_ += sizeof value;
    return static_cast<std::uint64_t>(value);
  }
  std::string text(std::uint64_t bytes) {
    return text_at(source_, std::exchange(at_, at_ + bytes), bytes);
  }
  void skip(std::uint64_t bytes) { at_ += bytes; }

 private:
  ByteSource& source_;
  std::uint64_t at_ = 0;
};

}  // namespace

ImportanceMatrix::ImportanceMatrix(std::unique_ptr<ByteSource> source)
    : source_(std::move(source)), identity_(source_->identity_at_opening()) {
  if (beginning_of(*source_, 4) == "GGUF") {
    read_gguf();
  } else {
    read_dat();
  }
  source_->header_is_read();
  if (entries_.empty()) {
    throw FormatError("E-IMATRIX", source_->name(), "an importance matrix without entries");
  }
  check_entries();
  sha256_ = digest_at(*source_, 0, source_->size());
  require_unchanged();
}

void ImportanceMatrix::read_gguf() {
  const gguf::Header header = gguf::read_header(*source_);
  warnings_ = header.warnings;
  big_endian_ = header.big_endian;
  const std::string* type = gguf::find_text(header.keys, "general.type");
  const std::string* architecture = gguf::find_text(header.keys, "general.architecture");
  const bool named = (type != nullptr && *type == "imatrix") ||
                     (architecture != nullptr && *architecture == "imatrix");
  if (!named) {
    throw FormatError("E-IMATRIX-KIND", source_->name(),
                      fmt::format("a GGUF file of type {}, no importance matrix",
                                  type == nullptr ? "model" : printable(*type)));
  }
  std::unordered_map<std::string_view, const gguf::Tensor*> counts;
  for (const gguf::Tensor& tensor : header.tensors) {
    const std::string_view name = tensor.name;
    const bool sums = name.ends_with(kSums);
    if (!sums && !name.ends_with(kCounts)) {
      continue;
    }
    const auto end = checked_add(tensor.offset, tensor.bytes);
    if (tensor.type != decode::ElementType::kF32 || !end || *end > source_->size()) {
      malformed(*source_, tensor.offset,
                printable(tensor.name) + " is not float32 or ends beyond the file");
    }
    if (!sums) {
      counts.emplace(name.substr(0, name.size() - kCounts.size()), &tensor);
    }
  }
  for (const gguf::Tensor& tensor : header.tensors) {
    if (!tensor.name.ends_with(kSums)) {
      continue;
    }
    ImportanceEntry entry;
    entry.name = tensor.name.substr(0, tensor.name.size() - kSums.size());
    entry.offset = tensor.offset;
    entry.value_count = tensor.bytes / sizeof(float);
    const auto found = counts.find(entry.name);
    if (found == counts.end()) {
      malformed(*source_, tensor.offset,
                printable(tensor.name) + " has no tensor of counts beside it");
    }
    const gguf::Tensor& own = *found->second;
    const std::uint64_t slices = own.bytes / sizeof(float);
    if (slices == 0 || slices > static_cast<std::uint64_t>(kMaxSlices) || entry.value_count == 0 ||
        entry.value_count % slices != 0) {
      malformed(*source_, own.offset,
                fmt::format("{} has {} counts for {} sums", printable(entry.name), slices,
                            entry.value_count));
    }
    for (const float count : floats_at(own.offset, slices)) {
      if (!(count >= 0.0F) || !std::isfinite(count)) {
        require_unchanged();
        malformed(*source_, own.offset + entry.divisors.size() * sizeof(float),
                  fmt::format("a count of {} in {}", count, printable(own.name)));
      }
      entry.divisors.push_back(static_cast<double>(count));
    }
    entries_.push_back(std::move(entry));
  }
}

void ImportanceMatrix::read_dat() {
  DatReader reader(*source_);
  constexpr std::uint64_t kMinEntry = 3 * sizeof(std::int32_t);
  const std::uint64_t count = reader.count("the number of entries");
  if (count > kMaxImportanceEntries || count * kMinEntry > reader.left()) {
    malformed(*source_, 0,
              fmt::format("{} entries do not fit a file of {} bytes", count, source_->size()));
  }
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t start = reader.at();
    const std::uint64_t length = reader.count("the length of a name");
    if (length == 0 || length > kMaxNameBytes || length > reader.left()) {
      malformed(*source_, start, fmt::format("a name of {} bytes", length));
    }
    ImportanceEntry entry;
    entry.name = reader.text(length);
    entry.divisors = {static_cast<double>(reader.count("the number of calls"))};
    const std::uint64_t counted = reader.at();
    entry.value_count = reader.count("the number of values");
    entry.offset = reader.at();
    if (entry.value_count == 0 || entry.value_count * sizeof(float) > reader.left()) {
      malformed(*source_, counted,
                fmt::format("{} has {} values, {} bytes are left", printable(entry.name),
                            entry.value_count, reader.left()));
    }
    if (!names.insert(entry.name).second) {
      malformed(*source_, start, printable(entry.name) + " appears twice");
    }
    reader.skip(entry.value_count * sizeof(float));
    entries_.push_back(std::move(entry));
  }
  if (reader.left() >= 2 * sizeof(std::int32_t)) {
    reader.count("the number of calls of the run");
    const std::uint64_t length = reader.count("the length of the data set's name");
    reader.skip(std::min(length, reader.left()));
  } else if (reader.left() >= sizeof(std::int32_t)) {
    reader.count("the number of calls of the run");
  }
  if (reader.left() > 0) {
    warnings_.push_back(
        {"W-IMATRIX-TAIL", fmt::format("{}: {} bytes after the last entry at byte {}",
                                       source_->name(), reader.left(), reader.at())});
  }
}

void ImportanceMatrix::check_entries() const {
  constexpr std::uint64_t kStep = kPieceBytes / sizeof(float);
  for (const ImportanceEntry& entry : entries_) {
    for (std::uint64_t first = 0; first < entry.value_count; first += kStep) {
      const std::uint64_t offset = entry.offset + first * sizeof(float);
      const std::vector<float> values =
          floats_at(offset, std::min(kStep, entry.value_count - first));
      const auto bad = std::find_if(values.begin(), values.end(), [](float value) {
        return !(value >= 0.0F) || !std::isfinite(value);
      });
      if (bad != values.end()) {
        require_unchanged();
        malformed(*source_,
                  offset + static_cast<std::uint64_t>(bad - values.begin()) * sizeof(float),
                  fmt::format("a sum of squares of {} in {}", *bad, printable(entry.name)));
      }
    }
  }
}

void ImportanceMatrix::require_unchanged() const {
  if (source_->identity() != identity_) {
    throw SystemError("E-INPUT-CHANGED", 0,
                      source_->name() +
                          ": the file was changed, replaced or removed while it was "
                          "read; measure again when nothing writes to it");
  }
}

std::vector<float> ImportanceMatrix::read_values(std::uint64_t offset, std::uint64_t count) const {
  std::vector<float> values = floats_at(offset, count);
  require_unchanged();
  return values;
}

std::vector<float> ImportanceMatrix::floats_at(std::uint64_t offset, std::uint64_t count) const {
  std::vector<float> values(static_cast<std::size_t>(count));
  source_->read(offset, std::as_writable_bytes(std::span(values)));
  if (big_endian_) {
    for (float& value : values) {
      value = std::bit_cast<float>(__builtin_bswap32(std::bit_cast<std::uint32_t>(value)));
    }
  }
  return values;
}

std::shared_ptr<const ImportanceMatrix> open_importance_matrix(const std::string& address,
                                                               const std::stop_token& stop) {
  return std::make_shared<const ImportanceMatrix>(input::open_input(address, stop));
}

std::vector<double> activation_scale(const MatrixRecord& matrix) {
  const ActivationPart& part = matrix.activations;
  expects(part.file != nullptr && part.divisor > 0.0, "a row of /imatrix/ with its activations");
  const std::vector<float> sums =
      part.file->read_values(part.offset, static_cast<std::uint64_t>(matrix.cols));
  std::vector<double> scale;
  scale.reserve(sums.size());
  for (const float sum : sums) {
    scale.push_back(std::sqrt(static_cast<double>(sum) / part.divisor));
  }
  return scale;
}

}  // namespace vindex::model
