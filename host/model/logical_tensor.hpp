// Owns what one logical weight is: stored codes, and the companions that belong to them.
#pragma once

#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include "input/model_files.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vindex::model {

struct BoundCompanion {
  decode::CompanionRole role = decode::CompanionRole::kScale;
  std::int32_t tensor = -1;
  std::optional<decode::ElementType> as;  ///< what its bytes are, where the header does not say it
};

/// One logical tensor: codes, and what belongs to them.
struct LogicalTensor {
  std::string name;
  std::int32_t codes = -1;                 ///< index into ModelFiles::tensors
  std::vector<std::int32_t> stored;        ///< codes first, then every companion
  std::vector<BoundCompanion> companions;  ///< those that decoding needs
  std::vector<std::int64_t> shape;         ///< logical, outermost first; empty where unknown
  decode::Encoding encoding;
  std::string unsupported;  ///< why it cannot be decoded
  bool quantised = false;   ///< a scheme of several tensors: always out x in
  bool orphan = false;      ///< a companion whose codes are not in the model
  bool shape_known = true;  ///< false: a scheme whose logical shape could not be told
};

}  // namespace vindex::model
