// Owns which entry of an importance matrix a matrix of a model belongs to.
#include "importance_matrix.hpp"

#include "model/families/families.hpp"
#include "model/families/tensor_name.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

namespace vindex::model {

namespace {

/// (layer, block, role, expert): the expert is -1 for a whole stack.
using ImportancePlace = std::tuple<std::int32_t, Block, std::string, std::int32_t>;

/// Entries by name and by what their names mean.
class ImportanceEntries {
 public:
  ImportanceEntries(const ImportanceMatrix& file, std::string_view architecture)
      : table_(Dialect::kGguf, known_family(Dialect::kGguf, architecture).value_or("")) {
    TensorName name;
    for (const ImportanceEntry& entry : file.entries()) {
      by_name_.emplace(entry.name, &entry);
      read_tensor_name(entry.name, Dialect::kGguf, name);
      const Meaning* meaning = name.tower ? nullptr : table_.find(name);
      if (meaning == nullptr || meaning->block == Block::kOther) {
        continue;
      }
      const bool one_expert = meaning->has_expert && name.number_count > 0;
      by_place_.emplace(
          ImportancePlace(name.layer, meaning->block,
                          std::string(meaning->role.empty() ? name.last : meaning->role),
                          one_expert ? name.numbers[0] : -1),
          &entry);
    }
  }

  struct Found {
    const ImportanceEntry* entry = nullptr;
    bool one_expert = false;  ///< of this expert alone, not of a stack
  };
  Found find(const MatrixRecord& matrix) const {
    if (const auto named = by_name_.find(matrix.tensor); named != by_name_.end()) {
      return {named->second, matrix.slice < 0};
    }
    if (matrix.block == Block::kOther) {
      return {};
    }
    // What one matrix here is several there all see the same inputs.
    std::vector<std::string> roles = {matrix.role};
    if (matrix.role == "gate_up_proj") {
      roles = {matrix.role, "gate_proj", "up_proj"};
    } else if (matrix.role == "qkv_proj") {
      roles = {matrix.role, "q_proj"};
    }
    for (const std::string& role : roles) {
      for (const bool one_expert : {true, false}) {
        if (one_expert && matrix.expert < 0) {
          continue;
        }
        const auto found = by_place_.find(
            ImportancePlace(matrix.layer, matrix.block, role, one_expert ? matrix.expert : -1));
        if (found != by_place_.end()) {
          return {found->second, one_expert};
        }
      }
    }
    return {};
  }

 private:
  NameTable table_;
  std::unordered_map<std::string_view, const ImportanceEntry*> by_name_;
  std::map<ImportancePlace, const ImportanceEntry*> by_place_;
};

/// Slices that an entry must hold for `matrix`, and which is its own.
struct Slice {
  std::int64_t number = 0, count = 1;
};
Slice importance_slice(const MatrixRecord& matrix, bool one_expert, const ModelIndex& index) {
  if (one_expert) {
    return {};
  }
  if (matrix.slice >= 0) {
    const TensorRecord& tensor = index.tensors[static_cast<std::size_t>(matrix.tensor_record)];
    return {matrix.slice, tensor.shape.empty() ? 1 : tensor.shape.front()};
  }
  if (matrix.expert >= 0) {
    return {matrix.expert, index.shape.experts.value_or(-1)};
  }
  return {};
}

/// llama.cpp's converter reorders the heads of values of Qwen3.5's linear attention, and with them
/// the inputs of its output: what its file says of a place is not of that place's column here.
/// (Not of Qwen3-Next, whose heads stay.) Source: convert_hf_to_gguf.py,
/// _LinearAttentionVReorderBase.
bool is_reordered(const MatrixRecord& matrix, std::string_view architecture) {
  return architecture.starts_with("qwen3_5") && matrix.block == Block::kSsm &&
         matrix.role == "out_proj";
}

/// Matrices that get no row, and the first of them.
struct Missed {
  std::int64_t count = 0;
  std::string first;
  void add(const MatrixRecord& matrix) {
    if (count++ == 0) {
      first = matrix_name(matrix);
    }
  }
};

}  // namespace

void weigh_columns(const std::shared_ptr<const ImportanceMatrix>& file, ModelIndex& index,
                   std::vector<std::int64_t>& selected) {
  const ImportanceEntries entries(*file, index.shape.architecture);
  Missed absent, unlike, unused, reordered;
  const std::size_t all = selected.size();
  std::size_t plain = 0;
  for (std::size_t i = 0; i < all; ++i) {
    const MatrixRecord& matrix = index.matrices[static_cast<std::size_t>(selected[i])];
    if (!matrix.unsupported.empty() || matrix.table != ResultTable::kMatrix) {
      continue;
    }
    ++plain;
    const ImportanceEntries::Found found = entries.find(matrix);
    if (found.entry == nullptr) {
      absent.add(matrix);
      continue;
    }
    const ImportanceEntry& entry = *found.entry;
    if (entry.name != matrix.tensor && is_reordered(matrix, index.shape.architecture)) {
      reordered.add(matrix);
      continue;
    }
    const Slice slice = importance_slice(matrix, found.one_expert, index);
    const auto cols = static_cast<std::uint64_t>(matrix.cols);
    const std::uint64_t slices = entry.value_count / cols;
    const bool fits = entry.value_count % cols == 0 &&
                      (slice.count < 0 || static_cast<std::uint64_t>(slice.count) == slices) &&
                      static_cast<std::uint64_t>(slice.number) < slices &&
                      (entry.divisors.size() == 1 || entry.divisors.size() == slices);
    if (!fits) {
      unlike.add(matrix);
      continue;
    }
    const auto number = static_cast<std::uint64_t>(slice.number);
    const double divisor = entry.divisors[entry.divisors.size() == 1 ? 0 : number];
    if (divisor == 0.0) {
      unused.add(matrix);
      continue;
    }
    MatrixRecord weighted = matrix;
    weighted.table = ResultTable::kImatrix;
    weighted.activations = {
        .file = file, .offset = entry.offset + number * cols * sizeof(float), .divisor = divisor};
    selected.push_back(static_cast<std::int64_t>(index.matrices.size()));
    index.matrices.push_back(std::move(weighted));
  }
  if (plain == 0) {
    throw UsageError("E-IMATRIX-MODEL",
                     "--imatrix: no stored matrix is selected that could be weighted; select some, "
                     "or leave it out");
  }
  if (selected.size() == all && reordered.count == 0) {
    throw UsageError("E-IMATRIX-MODEL",
                     fmt::format("{} has activations for none of the {} selected matrices: it "
                                 "belongs to another model (its first entry is {})",
                                 file->name(), plain, printable(file->entries().front().name)));
  }
  index.warnings.insert(index.warnings.end(), file->warnings().begin(), file->warnings().end());
  const auto warn = [&](const char* id, const Missed& missed, const char* why) {
    if (missed.count > 0) {
      index.warnings.push_back(
          {id, fmt::format("{} of {} matrices have no row in /imatrix/ (first: {}): {}",
                           missed.count, plain, missed.first, why)});
    }
  };
  warn("W-IMATRIX-ABSENT", absent, "the importance matrix has no entry for them");
  warn("W-IMATRIX-WIDTH", unlike, "their entries are of other widths or numbers of slices");
  warn("W-IMATRIX-ORDER", reordered,
       "their inputs stand in another order in the GGUF model that it was made with");
  warn("W-IMATRIX-COUNT", unused, "no activation reached them when it was made");
}

}  // namespace vindex::model
