// Owns finding the products of a model: heads of attention, LoRA pairs.
#pragma once

#include "logical_tensor.hpp"
#include "model_config.hpp"
#include "records.hpp"

#include <vindex/model/model_index.hpp>
#include <vindex/model/product.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::model {

/// Throws where a model would have more rows of heads, or of pairs, than any has (the largest
/// mixtures have half as many matrices of experts). Errors: FormatError E-MODEL-PRODUCTS.
void check_product_count(const std::string& path, std::size_t count);

/// The row of a product whose factors fit each other. What a factor cannot be, it cannot be either:
/// `unsupported` names the first. Everything else but names is filled.
MatrixRecord product_record(Product product);

/// Two rows for every head of every attention that the tables know, qk_head and ov_head, from the
/// matrices of `index`. Warnings where head counts are absent or do not fit the shapes (the layer
/// is left out). Errors: UsageError E-HEADS where there is not one; FormatError E-MODEL-PRODUCTS.
std::vector<MatrixRecord> head_products(const std::string& path, Claims& claims, ModelIndex& index);

/// One row for every LoRA pair. A pair without partner, or whose factors do not fit, is a row that
/// is unsupported. Errors: those of AdapterConfig; FormatError E-LORA-DOUBLE where two tensors
/// are one factor, E-MODEL-PRODUCTS; UsageError E-LORA where there is no pair.
std::vector<MatrixRecord> adapter_products(const shard::ModelFiles& files,
                                           const std::vector<LogicalTensor>& logicals,
                                           const Naming& naming, std::vector<Warning>& warnings);

/// LoRA factors among the tensors, for a hint.
std::int64_t count_adapter_factors(const std::vector<LogicalTensor>& logicals,
                                   shard::ContainerFormat format);

}  // namespace vindex::model
