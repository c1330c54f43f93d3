// Owns the decoding of the elements that a vector names.
#include "stored_vector.hpp"

#include "weight.hpp"

#include "core/integers.hpp"
#include "decode/decode_matrix.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string_view>

namespace vindex::model {

std::vector<float> read_vector(const input::ModelFiles& files, const VectorRef& ref) {
  expects(ref && ref.first >= 0 && ref.step >= 1 && ref.count >= 0, "read_vector: a vector");
  const input::StoredTensor& stored = files.tensors[static_cast<std::size_t>(ref.tensor)];
  const input::Shard& shard = files.shards[static_cast<std::size_t>(stored.shard)];
  const auto refuse = [&](std::string_view why) {
    throw FormatError("E-TRACE-TENSOR", shard.path,
                      fmt::format("{} {}", printable(stored.name), why));
  };
  const decode::Encoding encoding = decode::plain_encoding(stored.type);
  const std::int64_t elements = element_count(stored);
  if (!is_full_float(stored.type)) {
    refuse(fmt::format("holds {}, which is no list of floats", type_name(stored.type)));
  }
  const auto needed = ref.count == 0 ? std::optional<std::uint64_t>(0)
                                     : checked_multiply(static_cast<std::uint64_t>(ref.count - 1),
                                                        static_cast<std::uint64_t>(ref.step));
  if (!needed || ref.first > elements ||
      (ref.count > 0 && *needed >= static_cast<std::uint64_t>(elements - ref.first))) {
    refuse("ends before what is needed of it");
  }
  const auto span = ref.count == 0 ? 0 : *needed + 1;
  const auto size = decode::stored_bytes(stored.type, 1).value();
  std::vector<std::byte> bytes(static_cast<std::size_t>(span * size));
  shard.source->read(stored.offset + static_cast<std::uint64_t>(ref.first) * size, bytes);
  std::vector<float> all(static_cast<std::size_t>(span));
  decode::decode_row(encoding, bytes, all);
  std::vector<float> out;
  out.reserve(as_size(ref.count));
  for (std::int64_t i = 0; i < ref.count; ++i) {
    out.push_back(all[as_size(i * ref.step)]);
  }
  return out;
}

}  // namespace vindex::model
