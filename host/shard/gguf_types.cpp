#include "gguf_types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace vindex::shard {

namespace {
struct RefusedType {
  std::uint32_t id;
  std::string_view what;
};

constexpr std::string_view kIk = "of ik_llama.cpp; convert with mainline llama.cpp";

constexpr RefusedType kRefused[] = {
    {4, "Q4_2, removed from ggml in 2023"},
    {5, "Q4_3, removed from ggml in 2023"},
    {9, "Q8_1, used while computing and never stored"},
    {15, "Q8_K, used while computing and never stored"},
    {31, "Q4_0_4_4, removed from ggml; quantise again as Q4_0"},
    {32, "Q4_0_4_8, removed from ggml; quantise again as Q4_0"},
    {33, "Q4_0_8_8, removed from ggml; quantise again as Q4_0"},
    {36, "IQ4_NL_4_4, removed from ggml, or I2_S of the forks bitnet.cpp and ik_llama.cpp"},
    {37, "IQ4_NL_4_8, removed from ggml, or I8_S of the fork bitnet.cpp"},
    {38, "IQ4_NL_8_8, removed from ggml, or TL1 of the fork bitnet.cpp"},
};

struct ForkType {
  std::uint32_t id;
  std::string_view name;
};

constexpr ForkType kIkTypes[] = {
    {133, "Q6_0"},    {134, "IQ1_BN"}, {135, "IQ2_BN"}, {137, "IQ2_K"},  {138, "IQ3_K"},
    {139, "IQ4_K"},   {140, "IQ5_K"},  {141, "IQ6_K"},  {144, "IQ4_KS"}, {145, "IQ2_KS"},
    {146, "IQ4_KSS"}, {152, "IQ5_KS"}, {153, "IQ2_KT"}, {154, "IQ3_KT"}, {155, "IQ4_KT"},
    {156, "IQ3_KS"},  {157, "IQ2_KL"}, {158, "IQ1_KT"},
};
constexpr std::uint32_t kFirstInterleaved = 202;
constexpr std::uint32_t kPastInterleaved = 1000;
}  // namespace

std::string describe_refused_type(std::uint32_t id) {
  const auto* known = std::find_if(std::begin(kRefused), std::end(kRefused),
                                   [id](const RefusedType& row) { return row.id == id; });
  if (known != std::end(kRefused)) {
    return std::string(known->what);
  }
  const auto* fork = std::find_if(std::begin(kIkTypes), std::end(kIkTypes),
                                  [id](const ForkType& row) { return row.id == id; });
  if (fork != std::end(kIkTypes)) {
    return fmt::format("{}, a type {}", fork->name, kIk);
  }
  if (id >= kFirstInterleaved && id < kPastInterleaved) {
    return fmt::format("presumably a row-interleaved type (_R4, _R8) {}", kIk);
  }
  return "unknown: a newer format, a fork, or a damaged file";
}

}  // namespace vindex::shard
