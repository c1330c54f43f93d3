// Owns what the tests of codes and companions share: a model of one expert's matrix.
#pragma once

#include "tests/model/model_fixture.hpp"

#include <string>

namespace vindex::model {

inline const std::string kBase = "model.layers.1.mlp.experts.0.up_proj.weight";

inline ModelFixture deepseek() {
  ModelFixture fixture;
  fixture.config("model_type", "deepseek_v3");
  return fixture;
}

inline const MatrixRecord& only_matrix(const ModelIndex& index) {
  EXPECT_EQ(index.matrices.size(), 1U);
  return index.matrices.at(0);
}

}  // namespace vindex::model
