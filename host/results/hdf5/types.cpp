// Owns names and sizes of types.
#include "types.hpp"

#include <vindex/error.hpp>

namespace vindex::results::h5 {

std::string_view type_name(Type type) {
  switch (type) {
    case Type::kInt8:
      return "int8";
    case Type::kInt32:
      return "int32";
    case Type::kInt64:
      return "int64";
    case Type::kFloat16:
      return "float16";
    case Type::kBFloat16:
      return "bfloat16";
    case Type::kFloat32:
      return "float32";
    case Type::kFloat64:
      return "float64";
    case Type::kString:
      return "string";
  }
  return "";
}

std::uint64_t type_bytes(Type type) {
  switch (type) {
    case Type::kInt8:
      return 1;
    case Type::kFloat16:
    case Type::kBFloat16:
      return 2;
    case Type::kInt32:
    case Type::kFloat32:
      return 4;
    case Type::kInt64:
    case Type::kFloat64:
      return 8;
    case Type::kString:
      break;
  }
  expects(false, "strings have no size of their own");
  return 0;
}

}  // namespace vindex::results::h5
