// Owns those names and what is said of each.
#include "refused_types.hpp"

#include "decode/encoding/element_type.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace vindex::gguf {

namespace {
struct RefusedType {
  std::uint32_t id;
  std::string_view what;
  bool removed = false;  ///< from ggml
};

// The forks took ids of their own: ik_llama.cpp from 133 on, bitnet.cpp those that ggml had freed
// (and 39 before ggml gave it to MXFP4).
constexpr RefusedType kRefused[] = {
    {4, "Q4_2, removed from ggml in 2023", true},
    {5, "Q4_3, removed from ggml in 2023", true},
    {9, "Q8_1, used while computing and never stored"},
    {15, "Q8_K, used while computing and never stored"},
    {31, "Q4_0_4_4, removed from ggml; quantise again as Q4_0", true},
    {32, "Q4_0_4_8, removed from ggml; quantise again as Q4_0", true},
    {33, "Q4_0_8_8, removed from ggml; quantise again as Q4_0", true},
    {36, "I2_S of the forks bitnet.cpp and ik_llama.cpp, or IQ4_NL_4_4, removed from ggml", true},
    {37, "I8_S of the fork bitnet.cpp, or IQ4_NL_4_8, removed from ggml", true},
    {38, "TL1 of the fork bitnet.cpp, or IQ4_NL_8_8, removed from ggml", true},
};

constexpr RefusedType kBitnetTypes[] = {{36, "I2_S"}, {37, "I8_S"}, {38, "TL1"}, {39, "TL2"}};

constexpr RefusedType kIkTypes[] = {
    {97, "Q8_0_X4"}, {98, "Q8_1_X4"}, {99, "Q8_2_X4"}, {133, "Q6_0"},    {134, "IQ1_BN"},
    {135, "IQ2_BN"}, {136, "Q8_K64"}, {137, "IQ2_K"},  {138, "IQ3_K"},   {139, "IQ4_K"},
    {140, "IQ5_K"},  {141, "IQ6_K"},  {144, "IQ4_KS"}, {145, "IQ2_KS"},  {146, "IQ4_KSS"},
    {147, "Q8_K16"}, {148, "Q8_K32"}, {149, "Q8_KR8"}, {150, "Q8_K128"}, {151, "Q8_KV"},
    {152, "IQ5_KS"}, {153, "IQ2_KT"}, {154, "IQ3_KT"}, {155, "IQ4_KT"},  {156, "IQ3_KS"},
    {157, "IQ2_KL"}, {158, "IQ1_KT"},
};
/// A type with its rows interleaved (_R4, _R8, _R16) has the plain type's id and this.
constexpr std::uint32_t kInterleaved = 200;
constexpr std::uint32_t kFirstIkId = 97;
constexpr std::uint32_t kPastIkIds = 400;

template <std::size_t N>
std::string_view name_in(const RefusedType (&rows)[N], std::uint32_t id) {
  const auto* row = std::find_if(std::begin(rows), std::end(rows),
                                 [id](const auto& other) { return other.id == id; });
  return row == std::end(rows) ? std::string_view() : row->what;
}

/// Name of the plain type `id` of ik_llama.cpp, which has ggml's too; empty for none.
std::string_view ik_name(std::uint32_t id) {
  if (const auto type = decode::element_type_of_ggml(id)) {
    return decode::element_type_row(*type).name;
  }
  return name_in(kIkTypes, id);
}

std::string describe_ik_type(std::uint32_t id) {
  constexpr std::string_view kAdvice = "of the fork ik_llama.cpp; convert with mainline llama.cpp";
  if (const std::string_view name = name_in(kIkTypes, id); !name.empty()) {
    return fmt::format("{}, a type {}", name, kAdvice);
  }
  const std::string_view plain =
      id < kInterleaved ? std::string_view() : ik_name(id - kInterleaved);
  if (!plain.empty()) {
    return fmt::format("{0}_R4 or {0}_R8 (rows of {0} interleaved), a type {1}", plain, kAdvice);
  }
  return fmt::format("unknown, and in the range {}", kAdvice);
}
}  // namespace

std::string describe_refused_type(std::uint32_t id, bool bitnet) {
  if (const std::string_view name = name_in(kBitnetTypes, id); bitnet && !name.empty()) {
    return fmt::format("{} of the fork bitnet.cpp, as the file's architecture says{}", name,
                       id == 39 ? ", not MXFP4" : "");
  }
  if (const std::string_view what = name_in(kRefused, id); !what.empty()) {
    return std::string(what);
  }
  if (id >= kFirstIkId && id < kPastIkIds) {
    return describe_ik_type(id);
  }
  return "unknown: a newer format, a fork, or a damaged file";
}

bool was_removed(std::uint32_t id) {
  return std::any_of(std::begin(kRefused), std::end(kRefused),
                     [id](const RefusedType& row) { return row.id == id && row.removed; });
}

}  // namespace vindex::gguf
