// Owns what a page says of every file, whatever its kind.
#include "page_sections.hpp"

#include "core/text/secrets.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <filesystem>

namespace vindex::report {

namespace {

constexpr PageSection kSections[] = {
    {results::FileSchema::kResults, add_measure},   {results::FileSchema::kCompare, add_cells},
    {results::FileSchema::kExperts, add_cells},     {results::FileSchema::kCka, add_cells},
    {results::FileSchema::kRouting, add_cells},     {results::FileSchema::kActivations, add_cells},
    {results::FileSchema::kGateVectors, add_cells},
};

}  // namespace

std::span<const PageSection> page_sections() { return kSections; }

int PageFile::bits(std::int64_t numbers) const {
  constexpr double kRoom = 5.8e6;         // bytes of the page
  constexpr double kBytesPerBit = 0.175;  // of a number: base64 and what deflate cannot compress
  const double all = static_cast<double>(rows_of_page) * static_cast<double>(numbers);
  return static_cast<int>(std::clamp(kRoom / (std::max(all, 1.0) * kBytesPerBit), 8.0, 24.0));
}

Json page_facts(const std::string& path, const results::ResultsReader& reader) {
  const results::h5::File& file = reader.file();
  const auto attribute = [&](const char* name) {
    return file.has_attribute("/", name) ? printable(file.text_attribute("/", name))
                                         : std::string();
  };
  Json facts = {
      {"kind", results::writing_command(reader.header().schema)},
      {"path", printable(path)},
      {"label", printable(std::filesystem::path(path).stem().string())},
      {"schema", std::string(reader.schema().name) + " " + reader.header().schema_version},
      {"status", reader.header().status},
      {"row_noun", results::row_noun(reader.header().schema)},
  };
  for (const char* name : {"title", "history", "model", "model_b", "mode", "backend", "sample"}) {
    facts[name] = attribute(name);
  }
  Json& run = facts["run"] = Json::object();
  for (const char* name : {"command", "settings", "inputs", "environment", "config"}) {
    const std::string at = std::string("/run/") + name;
    run[name] = file.exists(at) ? Json(without_secrets(file.read_text(at))) : Json();
  }
  return facts;
}

}  // namespace vindex::report
