// Owns chains of factors for the tests of products: noise of given sides, and the product formed.
#pragma once
#include "cpu/product/product_spectrum.hpp"

#include <cstdint>
#include <random>
#include <vector>

namespace vindex::cpu {

inline std::vector<Factor> noise_chain(const std::vector<std::int64_t>& sides,
                                       std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<Factor> chain;
  for (std::size_t i = 0; i + 1 < sides.size(); ++i) {
    Factor factor{sides[i], sides[i + 1], {}};
    factor.values.resize(static_cast<std::size_t>(sides[i] * sides[i + 1]));
    for (double& value : factor.values) {
      value = normal(random);
    }
    chain.push_back(std::move(factor));
  }
  return chain;
}

inline std::vector<const Factor*> pointers(const std::vector<Factor>& chain) {
  std::vector<const Factor*> out;
  for (const Factor& factor : chain) {
    out.push_back(&factor);
  }
  return out;
}

inline Factor formed(const std::vector<Factor>& chain) {
  Factor product = chain.front();
  for (std::size_t k = 1; k < chain.size(); ++k) {
    const Factor& b = chain[k];
    Factor next{product.rows, b.cols, {}};
    next.values.assign(static_cast<std::size_t>(next.rows * next.cols), 0.0);
    for (std::int64_t i = 0; i < next.rows; ++i) {
      for (std::int64_t l = 0; l < product.cols; ++l) {
        const double a = product.values[static_cast<std::size_t>(i * product.cols + l)];
        for (std::int64_t j = 0; j < next.cols; ++j) {
          next.values[static_cast<std::size_t>(i * next.cols + j)] +=
              a * b.values[static_cast<std::size_t>(l * b.cols + j)];
        }
      }
    }
    product = std::move(next);
  }
  return product;
}

}  // namespace vindex::cpu
