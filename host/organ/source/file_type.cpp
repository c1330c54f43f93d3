// Owns the table of file types, and the count of bytes by type.
#include "file_type.hpp"

#include <algorithm>
#include <iterator>

namespace vindex::organ {
namespace {

/// Of several mixes of one type the first is the usual one.
struct FileType {
  std::uint32_t number;
  std::string_view name;
  decode::ElementType type;  ///< that most of its weights have
};

namespace table {
using enum decode::ElementType;
constexpr FileType kFileTypes[] = {
    {0, "F32", kF32},       {1, "F16", kF16},          {2, "Q4_0", kQ4_0},
    {3, "Q4_1", kQ4_1},     {7, "Q8_0", kQ8_0},        {8, "Q5_0", kQ5_0},
    {9, "Q5_1", kQ5_1},     {10, "Q2_K", kQ2_K},       {12, "Q3_K_M", kQ3_K},
    {11, "Q3_K_S", kQ3_K},  {13, "Q3_K_L", kQ3_K},     {15, "Q4_K_M", kQ4_K},
    {14, "Q4_K_S", kQ4_K},  {17, "Q5_K_M", kQ5_K},     {16, "Q5_K_S", kQ5_K},
    {18, "Q6_K", kQ6_K},    {19, "IQ2_XXS", kIQ2_XXS}, {20, "IQ2_XS", kIQ2_XS},
    {21, "Q2_K_S", kQ2_K},  {23, "IQ3_XXS", kIQ3_XXS}, {22, "IQ3_XS", kIQ3_XXS},
    {24, "IQ1_S", kIQ1_S},  {25, "IQ4_NL", kIQ4_NL},   {26, "IQ3_S", kIQ3_S},
    {27, "IQ3_M", kIQ3_S},  {22, "IQ3_XS", kIQ3_S},    {28, "IQ2_S", kIQ2_S},
    {28, "IQ2_S", kIQ2_XS}, {29, "IQ2_M", kIQ2_S},     {30, "IQ4_XS", kIQ4_XS},
    {31, "IQ1_M", kIQ1_M},  {32, "BF16", kBF16},       {36, "TQ1_0", kTQ1_0},
    {37, "TQ2_0", kTQ2_0},  {38, "MXFP4_MOE", kMXFP4}, {39, "NVFP4", kNVFP4},
    {40, "Q1_0", kQ1_0},
};
}  // namespace table
using table::kFileTypes;

}  // namespace

void TypeShares::add(decode::ElementType type, std::span<const std::uint64_t> dimensions) {
  double weights = 1.0;
  std::size_t sides = 0;
  for (const std::uint64_t dimension : dimensions) {
    weights *= static_cast<double>(dimension);
    sides += dimension > 1 ? 1 : 0;
  }
  (sides >= 2 ? matrices_ : vectors_).at(static_cast<std::size_t>(type)) += weights;
}

std::optional<decode::ElementType> TypeShares::majority() const {
  for (const auto& shares : {matrices_, vectors_}) {
    const auto most = std::max_element(shares.begin(), shares.end());
    if (*most > 0.0) {
      return static_cast<decode::ElementType>(most - shares.begin());
    }
  }
  return std::nullopt;
}

std::optional<std::uint32_t> TypeShares::file_type() const {
  const auto type = majority();
  const auto* row = std::find_if(std::begin(kFileTypes), std::end(kFileTypes),
                                 [&](const FileType& each) { return type && each.type == *type; });
  return row == std::end(kFileTypes) ? std::nullopt : std::optional(row->number);
}

bool TypeShares::agrees(std::uint64_t file_type) const {
  const auto type = majority();
  return type &&
         std::any_of(std::begin(kFileTypes), std::end(kFileTypes), [&](const FileType& each) {
           return each.number == file_type && each.type == *type;
         });
}

std::string_view file_type_name(std::uint64_t file_type) {
  const auto* row = std::find_if(std::begin(kFileTypes), std::end(kFileTypes),
                                 [&](const FileType& each) { return each.number == file_type; });
  return row == std::end(kFileTypes) ? std::string_view() : row->name;
}

}  // namespace vindex::organ
