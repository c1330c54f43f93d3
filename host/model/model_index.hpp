// Owns the meaning of a model's tensors: which are weights, which belong together (codes and
// scales, also across shards), and the layer, expert, block, role and logical shape of every
// matrix. Driven by a table of families (host/model/families/families.cpp); shapes are believed
// over keys.
#pragma once
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include "input/model_files.hpp"
#include <vindex/error.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::model {

/// Where in a transformer a matrix sits; the order is the results file's row order.
enum class Block : std::uint8_t {
  kEmbedding,
  kRouter,
  kAttention,
  kDenseMlp,
  kRoutedExpert,
  kSharedExpert,
  kSsm,
  kNorm,
  kOutput,
  kOther
};
std::string_view block_name(Block block);
std::optional<Block> block_of_name(std::string_view name);

/// Rank of a role in the results file's order; roles outside the table come after it (then by name,
/// bytewise).
std::int32_t role_rank(std::string_view role);

/// The table of the results file that a row belongs to. Rows of all tables share one order: those
/// of /matrix/, then those of every further table in the order here.
enum class ResultTable : std::uint8_t {
  kMatrix,   ///< a matrix as it is
  kImatrix,  ///< a matrix whose columns are weighted by the activations that reach them
  kProduct,  ///< a product of stored factors
};
inline constexpr std::size_t kResultTables = 3;
/// "matrix", "imatrix", "product": the group's name.
std::string_view table_name(ResultTable table);
std::optional<ResultTable> table_of_name(std::string_view name);

class ImportanceMatrix;

/// Where the mean squared activations of a row of /imatrix/ are
/// (model/importance/importance_matrix.hpp).
struct ActivationPart {
  std::shared_ptr<const ImportanceMatrix> file;
  std::uint64_t offset = 0;  ///< absolute; `cols` float32
  double divisor = 1.0;      ///< the file holds sums; positive
};

/// A stored tensor, or a contiguous part of one (a slice of a stack).
struct TensorPart {
  std::int32_t tensor = -1;  ///< index into ModelFiles::tensors
  std::uint64_t offset = 0;  ///< absolute in that tensor's file
  std::uint64_t bytes = 0;
  std::int64_t rows = 0;  ///< as stored, for companions (scales): elements, row-major
  std::int64_t cols = 0;
};

struct CompanionPart {
  decode::CompanionRole role = decode::CompanionRole::kScale;
  decode::ElementType type = decode::ElementType::kF32;
  TensorPart part;
};

struct Product;  // model/products/product.hpp

/// One matrix: a row of /matrix/ or of a table derived from it.
struct MatrixRecord {
  ResultTable table = ResultTable::kMatrix;
  std::string tensor;  ///< logical name (raw bytes)
  std::int32_t slice = -1;
  std::int32_t layer = -1;
  std::int32_t expert = -1;
  Block block = Block::kOther;
  std::string role;
  std::string shard;        ///< file name the codes come from
  std::int64_t rows = 0;    ///< logical: out
  std::int64_t cols = 0;    ///< logical: in
  bool transposed = false;  ///< stored as cols x rows (in x out)
  decode::Encoding encoding;
  /// Why it cannot be measured (companion missing, encoding); empty if it can.
  std::string unsupported;
  /// That is the file's fault: factors that are no pair, not a kind that we lack.
  bool is_malformed = false;
  TensorPart codes;
  std::vector<CompanionPart> companions;
  std::int32_t tensor_record = -1;  ///< index into ModelIndex::tensors
  /// Its place in the draw of its (layer, block, role), and of how many; -1: nothing was drawn
  /// (model/experts/expert_sample.hpp).
  std::int32_t draw = -1, draw_of = -1;
  ActivationPart activations;              ///< kImatrix
  std::shared_ptr<const Product> product;  ///< kProduct: nothing is stored of it
  std::int64_t stored_rows() const { return transposed ? cols : rows; }
  std::int64_t stored_cols() const { return transposed ? rows : cols; }
};

/// "model.layers.1.mlp.experts.down_proj[3]", printable.
std::string matrix_name(const MatrixRecord& matrix);

/// One logical tensor: a row of /tensor/.
struct TensorRecord {
  std::string name;                  ///< logical
  std::vector<std::int32_t> stored;  ///< indices into ModelFiles::tensors, codes first
  Block block = Block::kOther;
  std::string role;
  std::int32_t layer = -1;
  std::vector<std::int64_t> shape;  ///< logical, as decoded (outermost first)
  std::string encoding;
  std::int64_t count = 0;  ///< logical elements
  bool in_matrix = false;
  std::string reason;  ///< why no matrix ("1-D", "convolution", "zero size"), empty if in_matrix
};

/// What the config or the keys say, checked against the tensors (which are believed).
struct ModelShape {
  std::string architecture;  ///< model_type or general.architecture; "unknown" if none
  std::optional<std::int64_t> layers, experts, experts_per_token, shared_experts,
      dense_first_layers;
  /// "none", "fp8 128x128", "compressed-tensors INT4 g32", or the ggml types.
  std::string quantisation;
};

struct ModelIndex {
  ModelShape shape;
  std::vector<MatrixRecord> matrices;  ///< in the results file's row order, derived rows last
  std::vector<TensorRecord> tensors;   ///< in order of logical name, bytewise
  std::vector<Warning> warnings;       ///< those of ModelFiles not repeated
};

/// What is done with an output matrix that the configuration ties to the embedding and that is
/// stored all the same (model/index/tied_output.hpp).
enum class TiedOutput : std::uint8_t {
  kCompareAll,     ///< of equal bytes they are one matrix
  kComparePlaces,  ///< the same, by a few places: for those who read headers only
  kKeep,           ///< both are matrices, and nothing is read
};

/// What is asked of index_model() beyond its rules.
struct IndexOptions {
  /// Tensors of rank 3 and more that are no stack are matrices: shape[0] rows, the product of the
  /// other sides as columns, in the order stored.
  bool reshape_out = false;
  bool heads = false;  ///< rows of /product/ for every head of attention
  bool lora = false;   ///< rows of /product/ for every LoRA pair; adapters are accepted
  TiedOutput tied = TiedOutput::kCompareAll;
  std::int32_t threads = 0;  ///< that index; 0: one for each usable core, at most 8
};

}  // namespace vindex::model
