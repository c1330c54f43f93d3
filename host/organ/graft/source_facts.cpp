// Owns gathering those facts from an opened GGUF model.
#include "source_facts.hpp"

#include "core/digest.hpp"
#include "core/files/byte_source.hpp"
#include "gguf/values/value.hpp"

#include <algorithm>
#include <variant>

namespace vindex::organ {
namespace {

std::optional<double> key_number(const gguf::Key& key) {
  if (const auto* value = std::get_if<double>(&key.value)) {
    return *value;
  }
  if (key.type == gguf::ValueType::kArray || key.type == gguf::ValueType::kString) {
    return std::nullopt;
  }
  if (const auto* value = std::get_if<std::int64_t>(&key.value)) {
    return static_cast<double>(*value);
  }
  return static_cast<double>(std::get<std::uint64_t>(key.value));
}

}  // namespace

ModelFacts facts_of(const GgufSource& model) {
  ModelFacts facts;
  facts.architecture = model.architecture();
  const GgufSplit& first = model.splits().front();
  for (const gguf::Key& key : model.keys()) {
    const gguf::Value value(key, first.header, *first.source);
    facts.keys.emplace(key.name, KeyFact{.text = value.text(),
                                         .digest = value.digest(),
                                         .number = key_number(key),
                                         .integers = key.integers});
  }
  for (const OrganTensor& tensor : model.tensors()) {
    facts.tensors.push_back(tensor);
    if (tensor.name.find("rope_f") != std::string::npos) {
      facts.rope_tables.emplace(
          tensor.name, digest_at(*model.files()[tensor.file].source, tensor.offset, tensor.bytes));
    }
  }
  return facts;
}

}  // namespace vindex::organ
