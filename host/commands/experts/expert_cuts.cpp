// Owns the arithmetic of cutting a group of experts by rows, and the bytes that a cut reads.
#include "expert_cuts.hpp"

#include "backend/inner_products.hpp"
#include "decode/encoding/code_layout.hpp"
#include "engine/units/matrix_loader.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

namespace vindex::commands {

namespace {

/// Columns of codes that lie transposed are cut at multiples of this and of what their groups need.
constexpr std::int64_t kColumnStep = 128;

const model::MatrixRecord& record_of_member(const model::ModelIndex& index,
                                            const model::GroupMember& member) {
  return index.matrices[static_cast<std::size_t>(member.matrix)];
}

}  // namespace

decode::EncodedMatrix shape_view(const model::MatrixRecord& matrix) {
  const std::vector<std::span<const std::byte>> none(matrix.companions.size());
  return engine::encoded_view(matrix, nullptr, none);
}

CutBytes cut_of(const decode::EncodedMatrix& whole, const ExpertCut& cut) {
  const decode::Cut part = cut.columns ? decode::cut_columns(whole, cut.first, cut.count)
                                       : decode::cut_rows(whole, cut.first, cut.count);
  const decode::CodeWindow window = decode::code_window(part.view);
  CutBytes out;
  out.view = part.view;
  out.lead = window.offset;
  out.offset = static_cast<std::uint64_t>(part.offset + window.offset);
  out.bytes = window.height == 0
                  ? 0
                  : static_cast<std::uint64_t>((window.height - 1) * window.stride + window.width);
  return out;
}

std::vector<ExpertCut> cuts_of(const model::ModelIndex& index, const model::ExpertGroup& group,
                               std::uint64_t bytes) {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t step = 1;
  std::uint64_t total = 0;
  bool columns = false;
  for (const model::GroupMember& member : group.members) {
    if (!member.error.empty()) {
      continue;
    }
    const model::MatrixRecord& matrix = record_of_member(index, member);
    rows = matrix.stored_rows();
    cols = matrix.stored_cols();
    total += matrix.codes.bytes;
    columns =
        columns || decode::code_layout(matrix.encoding.scheme) == decode::CodeLayout::kColumns;
    step = std::lcm(step, inner_product_rows(matrix.encoding, cols, false));
  }
  const std::int64_t length = columns ? cols : rows;
  step = std::min(columns ? kColumnStep : step, std::max<std::int64_t>(length, 1));
  // Bytes are spread evenly: a share of the length takes that share of them.
  const double wanted = static_cast<double>(bytes) /
                        static_cast<double>(std::max<std::uint64_t>(total, 1)) *
                        static_cast<double>(length);
  const std::int64_t count = std::clamp(
      static_cast<std::int64_t>(std::min(wanted, static_cast<double>(length))) / step * step, step,
      std::max(step, length));
  std::vector<ExpertCut> cuts;
  for (std::int64_t first = 0; first < length; first += count) {
    cuts.push_back({columns, first, std::min(count, length - first)});
  }
  return cuts;
}

std::vector<std::uint64_t> bytes_of_cuts(const model::ModelIndex& index,
                                         const model::ExpertGroup& group,
                                         const std::vector<ExpertCut>& cuts) {
  std::map<std::string, std::uint64_t> most;  // by encoding
  std::vector<std::uint64_t> sizes;
  for (const model::GroupMember& member : group.members) {
    if (!member.error.empty()) {
      continue;
    }
    const model::MatrixRecord& matrix = record_of_member(index, member);
    const auto [found, is_new] = most.try_emplace(matrix.encoding.label, 0);
    if (is_new) {
      const decode::EncodedMatrix view = shape_view(matrix);
      for (const ExpertCut& cut : cuts) {
        found->second = std::max(found->second, cut_of(view, cut).bytes);
      }
    }
    sizes.push_back(found->second);
  }
  return sizes;
}

}  // namespace vindex::commands
