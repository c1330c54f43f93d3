// Owns building importance matrices in memory for tests: both of llama.cpp's formats
// (model/importance/importance_matrix.hpp has their layout).
#pragma once

#include "gguf_builder.hpp"

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace vindex::testing {

inline std::string float_bytes(const std::vector<float>& values, bool big_endian = false) {
  std::string out;
  for (const float value : values) {
    out += in_order(little_endian(std::bit_cast<std::uint32_t>(value)), big_endian);
  }
  return out;
}

struct DatEntry {
  std::string name;
  std::int32_t calls = 1;
  std::vector<float> values;
};

inline std::string dat_entry(const DatEntry& entry) {
  return little_endian(static_cast<std::uint32_t>(entry.name.size())) + entry.name +
         little_endian(static_cast<std::uint32_t>(entry.calls)) +
         little_endian(static_cast<std::uint32_t>(entry.values.size())) + float_bytes(entry.values);
}

inline std::string importance_dat(const std::vector<DatEntry>& entries) {
  std::string out = little_endian(static_cast<std::uint32_t>(entries.size()));
  for (const DatEntry& entry : entries) {
    out += dat_entry(entry);
  }
  return out + little_endian(std::uint32_t{12}) + little_endian(std::uint32_t{7}) + "cal.txt";
}

struct SumsEntry {
  std::string name;
  std::vector<float> sums;
  std::vector<float> counts;  ///< one per slice
};

inline std::string importance_gguf(const std::vector<SumsEntry>& entries,
                                   const char* type = "imatrix", bool big_endian = false) {
  GgufBuilder builder(3, big_endian);
  builder.key_string("general.type", type);
  for (const SumsEntry& entry : entries) {
    const std::uint64_t slices = entry.counts.size();
    const auto add = [&](const std::string& name, std::uint64_t width,
                         const std::vector<float>& values) {
      builder.tensor(name, {width, slices}, 0, builder.data.size());
      builder.data += float_bytes(values, big_endian);
      builder.data.resize((builder.data.size() + 31) / 32 * 32, '\0');
    };
    add(entry.name + ".in_sum2", entry.sums.size() / slices, entry.sums);
    add(entry.name + ".counts", 1, entry.counts);
  }
  return builder.bytes();
}

}  // namespace vindex::testing
