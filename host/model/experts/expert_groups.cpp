// Owns grouping records by layer and role, and what is wrong with a group.
#include "expert_groups.hpp"

#include "model/selection/selection.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace vindex::model {

namespace {

/// Layer, rank of the role, role, number among matrices of the same expert.
using ExpertGroupKey = std::tuple<std::int32_t, std::int32_t, std::string, std::size_t>;
using Numbered = std::map<std::int32_t, std::int64_t>;  // matrix by expert
/// Logical rows and columns, and whether they are stored the other way round.
using Shape = std::tuple<std::int64_t, std::int64_t, bool>;

Shape shape_of(const MatrixRecord& matrix) { return {matrix.rows, matrix.cols, matrix.transposed}; }

/// "2816x1408", "2816x1408 stored as 1408x2816".
std::string shape_text(const Shape& shape) {
  const auto [rows, cols, transposed] = shape;
  return fmt::format("{}x{}{}", rows, cols,
                     transposed ? fmt::format(" stored as {}x{}", cols, rows) : "");
}

/// That of most experts; the first such one where several are as many.
Shape common_shape(const ModelIndex& index, const Numbered& experts) {
  std::map<Shape, std::size_t> counts;
  std::size_t most = 0;
  for (const auto& [expert, matrix] : experts) {
    most = std::max(most, ++counts[shape_of(index.matrices[static_cast<std::size_t>(matrix)])]);
  }
  for (const auto& [expert, matrix] : experts) {
    const Shape shape = shape_of(index.matrices[static_cast<std::size_t>(matrix)]);
    if (counts[shape] == most) {
      return shape;
    }
  }
  return {};
}

/// "a.experts.3.up.weight" as "a.experts.*.up.weight": the last part that is the expert's number.
std::string name_of_all(const MatrixRecord& matrix) {
  if (matrix.slice >= 0) {
    return matrix.tensor;
  }
  const std::string number = std::to_string(matrix.expert);
  for (std::size_t at = matrix.tensor.rfind(number); at != std::string::npos;
       at = at == 0 ? std::string::npos : matrix.tensor.rfind(number, at - 1)) {
    const std::size_t end = at + number.size();
    const bool begins = at == 0 || matrix.tensor[at - 1] == '.';
    const bool ends = end == matrix.tensor.size() || matrix.tensor[end] == '.';
    if (begins && ends) {
      return matrix.tensor.substr(0, at) + "*" + matrix.tensor.substr(end);
    }
  }
  return matrix.tensor;
}

std::string error_of(const MatrixRecord& matrix, const Shape& common) {
  if (const std::string undecodable = undecodable_text(matrix); !undecodable.empty()) {
    return undecodable;
  }
  if (shape_of(matrix) != common) {
    return fmt::format("it is {}, the others {}", shape_text(shape_of(matrix)), shape_text(common));
  }
  return {};
}

ExpertGroup group_of_experts(const ModelIndex& index, const Numbered& experts, std::int32_t count) {
  ExpertGroup group;
  group.members.resize(static_cast<std::size_t>(count));
  for (GroupMember& member : group.members) {
    member.error = "the model has no such matrix";
  }
  const Shape common = common_shape(index, experts);
  const MatrixRecord& first = index.matrices[static_cast<std::size_t>(experts.begin()->second)];
  MatrixRecord& record = group.record;
  record.tensor = name_of_all(first);
  record.layer = first.layer;
  record.block = first.block;
  record.role = first.role;
  record.shard = first.shard;
  record.encoding = first.encoding;
  std::tie(record.rows, record.cols, record.transposed) = common;
  std::set<std::string> labels;
  bool is_supported = false;
  for (const auto& [expert, number] : experts) {
    const MatrixRecord& matrix = index.matrices[static_cast<std::size_t>(number)];
    GroupMember& member = group.members[static_cast<std::size_t>(expert)];
    member.matrix = number;
    member.error = error_of(matrix, common);
    if (member.error.empty()) {
      is_supported = true;
    } else if (record.unsupported.empty()) {
      record.unsupported = member.error;
    }
    labels.insert(matrix.encoding.label);
  }
  record.encoding.label = fmt::format("{}", fmt::join(labels, " "));
  if (is_supported) {
    record.unsupported.clear();
  }
  return group;
}

}  // namespace

std::uint64_t ExpertGroup::present() const {
  return static_cast<std::uint64_t>(std::count_if(
      members.begin(), members.end(), [](const GroupMember& one) { return one.error.empty(); }));
}

std::vector<ExpertGroup> expert_groups(const ModelIndex& index, const Selection& selection) {
  std::map<ExpertGroupKey, Numbered> found;
  std::map<std::int32_t, std::int32_t> counts;  // of experts, by layer
  for (const std::int64_t number : select(index, selection)) {
    const MatrixRecord& matrix = index.matrices[static_cast<std::size_t>(number)];
    if (matrix.block != Block::kRoutedExpert || matrix.expert < 0 ||
        matrix.table != ResultTable::kMatrix) {
      continue;
    }
    std::size_t again = 0;
    const auto key = [&] {
      return ExpertGroupKey(matrix.layer, role_rank(matrix.role), matrix.role, again);
    };
    while (found[key()].contains(matrix.expert)) {
      ++again;
    }
    found[key()][matrix.expert] = number;
    counts[matrix.layer] = std::max(counts[matrix.layer], matrix.expert + 1);
  }
  std::vector<ExpertGroup> groups;
  for (const auto& [key, experts] : found) {
    groups.push_back(group_of_experts(index, experts, counts[std::get<0>(key)]));
  }
  return groups;
}

}  // namespace vindex::model
