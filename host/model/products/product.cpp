// Owns sides, ranks and records of products; head_products.cpp and adapter_products.cpp find them.
#include "product.hpp"

#include "find_products.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::model {

std::vector<std::int64_t> Product::sides() const {
  std::vector<std::int64_t> sides;
  for (const ProductFactor& factor : factors) {
    if (sides.empty()) {
      sides.push_back(factor.left());
    }
    sides.push_back(factor.right());
  }
  return sides;
}

std::int64_t Product::rank() const {
  const std::vector<std::int64_t> all = sides();
  return all.empty() ? 0 : *std::min_element(all.begin(), all.end());
}

void check_product_count(const std::string& path, std::size_t count) {
  // A row takes about 1.5 KiB: a few hostile bytes of shapes may not become more than 200 MB. The
  // largest mixtures have 70,000 matrices of experts.
  constexpr std::size_t kMaxProducts = 131'072;
  if (count > kMaxProducts) {
    throw FormatError("E-MODEL-PRODUCTS", printable(path),
                      fmt::format("more than {} products", kMaxProducts));
  }
}

MatrixRecord product_record(Product product) {
  MatrixRecord record;
  record.table = ResultTable::kProduct;
  std::vector<std::string> labels;
  for (const ProductFactor& factor : product.factors) {
    const MatrixRecord& matrix = *factor.matrix;
    if (std::find(labels.begin(), labels.end(), matrix.encoding.label) == labels.end()) {
      labels.push_back(matrix.encoding.label);
    }
    if (record.shard.empty()) {
      record.shard = matrix.shard;
      record.tensor_record = matrix.tensor_record;
    }
    if (record.unsupported.empty() && !matrix.unsupported.empty()) {
      record.unsupported = fmt::format("{}: {}", printable(matrix.tensor), matrix.unsupported);
    }
  }
  for (std::size_t i = 1; i < product.factors.size(); ++i) {
    expects(product.factors[i - 1].right() == product.factors[i].left(), "factors whose sides fit");
  }
  record.encoding.scheme = decode::Scheme::kUnsupported;  // nothing is stored
  record.encoding.label = fmt::format("{}", fmt::join(labels, " "));
  if (!product.factors.empty()) {
    record.rows = product.factors.front().left();
    record.cols = product.factors.back().right();
  }
  record.product = std::make_shared<const Product>(std::move(product));
  return record;
}

}  // namespace vindex::model
