// Owns the way from a model's files to its records, products and warnings.
#include "index_model.hpp"

#include "bind_companions.hpp"
#include "records.hpp"
#include "tied_output.hpp"

#include "model/config/model_config.hpp"
#include "model/families/families.hpp"
#include "model/logical_tensor.hpp"
#include "model/model_index.hpp"
#include "model/products/find_products.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace vindex::model {

namespace {

/// Files that hold tensors of a model but no model. Errors: FormatError naming the type.
void refuse_other_files(const input::ModelFiles& files, const Claims& claims,
                        const IndexOptions& options) {
  const std::string& type = claims.file_type();
  const bool projector = type == "mmproj" || claims.architecture() == "clip";
  if (projector || type == "imatrix" || (type == "adapter" && !options.lora) ||
      claims.architecture() == "imatrix") {
    throw FormatError(
        "E-MODEL-TYPE", printable(files.path),
        fmt::format("this GGUF file is no model but of type {}", projector      ? "mmproj"
                                                                 : type.empty() ? "imatrix"
                                                                                : type));
  }
}

void append(std::vector<MatrixRecord> records, ModelIndex& index) {
  std::move(records.begin(), records.end(), std::back_inserter(index.matrices));
}

/// Rows of products, behind all others and in their order.
void add_products(const input::ModelFiles& files, const std::vector<LogicalTensor>& logicals,
                  const Naming& naming, const IndexOptions& options, Claims& claims,
                  ModelIndex& index) {
  const auto first = static_cast<std::ptrdiff_t>(index.matrices.size());
  if (options.heads) {
    append(head_products(files.path, claims, index), index);
  }
  if (options.lora) {
    append(adapter_products(files, logicals, naming, index.warnings), index);
  } else if (const std::int64_t factors = count_adapter_factors(logicals, files.format);
             factors > 0) {
    index.warnings.push_back(
        {"W-LORA", fmt::format("{} of the matrices are LoRA factors, each measured by itself; "
                               "--lora measures their products too",
                               factors)});
  }
  sort_matrices(index.matrices.begin() + first, index.matrices.end());
}

}  // namespace

ModelIndex index_model(const input::ModelFiles& files, const IndexOptions& options) {
  ModelIndex index;
  Claims claims(files, index.warnings);
  refuse_other_files(files, claims, options);
  const QuantClaims quant = read_quant_claims(files, index.warnings);

  Naming naming;
  const bool gguf = files.format == input::ContainerFormat::kGguf;
  naming.dialect = gguf ? Dialect::kGguf : Dialect::kHuggingFace;
  const std::string& declared = claims.architecture();
  auto family = known_family(naming.dialect, declared);
  if (!family && !claims.inner_architecture().empty()) {
    family = known_family(naming.dialect, claims.inner_architecture());
  }
  // A safetensors file without a configuration declares nothing; Hugging Face's names are the same
  // in every family, so they still say what is what.
  const bool names_alone = !gguf && declared.empty() && claims.inner_architecture().empty();
  if (!family && !names_alone) {
    index.warnings.push_back(
        {"W-ARCHITECTURE-UNKNOWN",
         declared.empty() ? std::string("no architecture is named; every block is `other`")
                          : fmt::format("architecture {} is unknown; every block is `other`",
                                        printable(declared))});
  }
  std::optional<NameTable> table;
  if (family || names_alone) {
    table.emplace(naming.dialect, family.value_or(std::string_view()));
    naming.table = &*table;
    naming.layout_declared = family.has_value();
  }

  const std::vector<LogicalTensor> logicals =
      bind_companions(files, quant, options.threads, index.warnings);
  build_records(files, logicals, naming, options, index);
  if (options.tied != TiedOutput::kKeep &&
      claims.boolean({"tie_word_embeddings"}, {}).value_or(false)) {
    judge_tied_output(files, options.tied, options.threads, index);
  }
  index.shape.architecture = declared.empty() ? "unknown" : declared;
  derive_shape(files, claims, quant, index);
  add_products(files, logicals, naming, options, claims, index);
  return index;
}

}  // namespace vindex::model
