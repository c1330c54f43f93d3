// Owns encoding rows and the order of blocks.
#include "vector_writer.hpp"

#include "gate_vector_layout.hpp"

#include "core/integers.hpp"
#include "core/process/parallel.hpp"
#include "decode/encode/encode.hpp"
#include "decode/formats/float_formats.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

namespace vindex::commands {

using decode::ElementType;

results::h5::Type stored_type(ElementType type) {
  return type == ElementType::kF16    ? results::h5::Type::kFloat16
         : type == ElementType::kBF16 ? results::h5::Type::kBFloat16
                                      : results::h5::Type::kFloat32;
}

EncodedRow encode_row(std::span<const float> row, ElementType type, std::span<std::byte> out,
                      const std::string& where) {
  EncodedRow encoded;
  for (const float value : row) {
    encoded.squares += static_cast<double>(value) * static_cast<double>(value);
  }
  if (type == ElementType::kF32) {
    std::memcpy(out.data(), row.data(), out.size());
    return encoded;
  }
  const bool is_half = type == ElementType::kF16;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::uint16_t bits = is_half ? decode::encode_f16(row[i]) : decode::encode_bf16(row[i]);
    const float stored = is_half ? decode::half_to_float(bits) : decode::bfloat16_to_float(bits);
    std::memcpy(out.data() + i * sizeof bits, &bits, sizeof bits);
    const double error = static_cast<double>(stored) - static_cast<double>(row[i]);
    if (std::isfinite(row[i]) && !std::isfinite(stored)) {
      throw ConfigurationError(
          "E-DTYPE",
          fmt::format("{}: a weight of {:.4g} is beyond {}; --dtype {} holds it", where, row[i],
                      is_half ? "float16" : "bfloat16", is_half ? "bf16 or f32" : "f32"));
    }
    encoded.errors += error * error;
  }
  return encoded;
}

namespace {

/// A scale of `count` numbers from 0 on.
void make_scale(results::h5::File& file, const std::string& group, const std::string& name,
                std::int64_t count, const std::string& long_name) {
  constexpr std::int64_t kAtOnce = 1 << 16;
  results::h5::Layout layout;
  layout.chunk = {static_cast<std::uint64_t>(std::min(count, kAtOnce))};
  layout.deflate = 1;
  results::h5::Dataset scale = file.make_dataset(group + "/" + name, results::h5::Type::kInt64,
                                                 {static_cast<std::uint64_t>(count)}, layout);
  std::vector<std::int64_t> numbers;
  for (std::int64_t first = 0; first < count; first += kAtOnce) {
    numbers.resize(static_cast<std::size_t>(std::min(kAtOnce, count - first)));
    std::iota(numbers.begin(), numbers.end(), first);
    scale.write<std::int64_t>(static_cast<std::uint64_t>(first), numbers.size(), numbers);
  }
  scale.set_attribute("long_name", long_name);
  scale.make_scale(name);
}

}  // namespace

VectorWriter::VectorWriter(results::h5::File& file, std::string group, const std::string& scale,
                           ElementType type, std::int64_t rows, std::int64_t cols)
    : file_(file),
      group_(std::move(group)),
      row_bytes_(static_cast<std::uint64_t>(cols) * results::h5::type_bytes(stored_type(type))),
      rows_(rows) {
  make_scale(file, group_, scale, rows, "row number");
  make_scale(file, group_, "input", cols, "number of the input");
  dataset_ = file.make_dataset(group_ + "/vectors", stored_type(type),
                               {static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols)},
                               {.digest = false});
  dataset_.set_attribute("long_name", "rows of decoded weights, rounded to this type");
  dataset_.set_attribute("units", "1");
  const std::vector<std::string> scales = {group_ + "/" + scale, group_ + "/input"};
  file.attach_scales(dataset_, scales);
}

void VectorWriter::write(std::span<const std::byte> rows, std::size_t threads) {
  const auto count = static_cast<std::int64_t>(rows.size() / row_bytes_);
  expects(next_ % kGateChunkRows == 0 && count <= rows_ - next_, "rows in their order");
  dataset_.write_bytes(static_cast<std::uint64_t>(next_), static_cast<std::uint64_t>(count), rows);
  file_.check_storage();
  const std::uint64_t block = static_cast<std::uint64_t>(block_rows(row_bytes_)) * row_bytes_;
  const std::size_t before = digests_.size();
  digests_.resize(before + ceil_divide(rows.size(), block));
  for_each_index(digests_.size() - before, threads, [&](std::size_t /*worker*/, std::size_t i) {
    const std::size_t first = i * block;
    digests_[before + i] =
        block_digest(rows.subspan(first, std::min<std::size_t>(block, rows.size() - first)));
  });
  next_ += count;
}

void VectorWriter::finish() {
  expects(next_ == rows_, "every row");
  results::h5::Layout layout;
  layout.chunk = {std::min<std::uint64_t>(digests_.size(), 1U << 16U)};
  layout.deflate = 1;
  results::h5::Dataset digests = file_.make_dataset(
      group_ + "/block_sha256", results::h5::Type::kInt64, {digests_.size()}, layout);
  digests.write<std::int64_t>(0, digests_.size(), digests_);
}

}  // namespace vindex::commands
