// Owns how tests of this layer name products: their factors' windows on one line.
#pragma once

#include "model/products/product.hpp"
#include "tests/model/model_fixture.hpp"
#include "tests/support/expect_error.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace vindex::model {

inline const MatrixRecord& product_of(const ModelIndex& index, const std::string& name,
                                      std::int32_t slice) {
  const MatrixRecord* found = find_matrix(index, name, slice);
  if (found == nullptr || found->product == nullptr) {
    throw std::runtime_error("no product " + name);
  }
  return *found;
}

/// "q[8:12,0:10]' k[4:8,0:10] = 10x10 rank 4": the factors' last names and windows, ' where turned.
inline std::string recipe(const MatrixRecord& record) {
  std::string out;
  for (const ProductFactor& factor : record.product->factors) {
    std::string name = factor.matrix->tensor;
    if (name.ends_with(".weight")) {
      name.resize(name.size() - 7);
    }
    name.erase(0, name.rfind('.') + 1);
    out += fmt::format("{}{}[{}:{},{}:{}]{} ", name,
                       factor.matrix->slice < 0 ? "" : fmt::format("#{}", factor.matrix->slice),
                       factor.first_row, factor.first_row + factor.rows, factor.first_col,
                       factor.first_col + factor.cols, factor.transposed ? "'" : "");
  }
  return out + fmt::format("= {}x{} rank {}", record.rows, record.cols, record.product->rank());
}

inline std::string refusal(ModelFixture& fixture, const IndexOptions& options) {
  return testing::error_of([&] { fixture.index(options); });
}

}  // namespace vindex::model
