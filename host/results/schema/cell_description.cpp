// Owns writing and reading back the attributes of such a run.
#include "cell_description.hpp"

#include "present_arrays.hpp"
#include "table_layout.hpp"

#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace vindex::results {

namespace {

constexpr const char* kName = "/resume/attribute_name";
constexpr const char* kType = "/resume/attribute_type";
constexpr const char* kValue = "/resume/attribute_value";

template <typename T>
T number_of(const h5::File& file, const std::string& text) {
  const std::optional<T> value = whole_number<T>(text);
  if (!value) {
    throw FormatError("E-RESULTS-SCHEMA", printable(file.label() + " " + kValue),
                      "'" + printable(text) + "' is not a number");
  }
  return *value;
}

}  // namespace

void write_cell_resume(h5::File& file, const FileDescription& description) {
  file.write_strings(kOptionalColumns, description.optional_columns);
  std::vector<std::string> names, types, values;
  for (const RunAttribute& attribute : description.attributes) {
    names.push_back(attribute.name);
    if (const auto* const integer = std::get_if<std::int64_t>(&attribute.value)) {
      types.emplace_back("integer");
      values.push_back(std::to_string(*integer));
    } else if (const auto* const number = std::get_if<double>(&attribute.value)) {
      types.emplace_back("number");
      values.push_back(fmt::format("{}", *number));  // the shortest that reads back the same
    } else {
      types.emplace_back("text");
      values.push_back(std::get<std::string>(attribute.value));
    }
  }
  file.write_strings(kName, names);
  file.write_strings(kType, types);
  file.write_strings(kValue, values);
}

std::vector<RunAttribute> read_attributes(const h5::File& file) {
  std::vector<RunAttribute> attributes;
  if (!file.exists(kName)) {
    return attributes;
  }
  const std::vector<std::string> names = file.read_strings(kName);
  const std::vector<std::string> types = file.read_strings(kType);
  const std::vector<std::string> values = file.read_strings(kValue);
  if (types.size() != names.size() || values.size() != names.size()) {
    throw FormatError("E-RESULTS-SCHEMA", printable(file.label()),
                      "the attributes of the run are damaged");
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (types[i] == "integer") {
      attributes.push_back({names[i], number_of<std::int64_t>(file, values[i])});
    } else if (types[i] == "number") {
      attributes.push_back({names[i], number_of<double>(file, values[i])});
    } else {
      attributes.push_back({names[i], values[i]});
    }
  }
  return attributes;
}

void describe_cells(const h5::File& file, const Schema& schema, FileDescription& out) {
  // A scale is read whole: a claim beyond this is no scale of ours.
  constexpr std::uint64_t kMaxValues = 1U << 24U;
  out.optional_columns = optional_columns_in(file);
  out.attributes = read_attributes(file);
  for (const ScaleColumn& scale : schema.cells->scales) {
    const std::string path = array_path(schema, scale.name);
    if (!file.exists(path)) {
      continue;
    }
    const h5::Dataset dataset = file.open_dataset(path);
    if (dataset.shape().size() != 1 || dataset.shape()[0] == 0 || dataset.shape()[0] > kMaxValues) {
      throw FormatError("E-RESULTS-SCHEMA", printable(file.label() + " " + path), "wrong shape");
    }
    const auto read = [&](auto values) {
      dataset.read<typename decltype(values)::value_type>(0, values.size(), values);
      return ScaleValues(std::move(values));
    };
    const std::uint64_t size = dataset.shape()[0];
    out.scales.emplace(scale.name, scale.integer ? read(std::vector<std::int64_t>(size))
                                                 : read(std::vector<double>(size)));
  }
  for (const PresentArray& array : present_arrays(out)) {
    if (array.shape.empty()) {
      throw FormatError("E-RESULTS-SCHEMA", printable(file.label() + " " + array.path),
                        "one of its scales is missing");
    }
  }
}

}  // namespace vindex::results
