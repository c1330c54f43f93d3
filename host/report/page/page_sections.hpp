// Owns which kinds of files a page has a section for, and what a section is made of.
//
// To add one for another kind of file (say, of `vindex compare`):
//
//   1. host/report/page/page_compare.cpp: `void add_compare(PageFile&, PageData&)` fills `main`
//      (read when the page opens) and, for what is large and not seen at once, blocks by name.
//      Numbers through page_values.hpp; names stay what they are. Its line in page_sections()
//      below, its source in CMakeLists.txt.
//   2. host/report/page/sections/section_compare.js: a module that exports {kind: "compare", id,
//      title, draw(host, files, tools)}; specifications of its charts beside it as NAME.vg.json.
//      Both are listed in page/assets.cmake, and the module in page/sections.js.
//
// What every file has (model, status, command, inputs, environment) is there without either: facts
// of page_facts.cpp, shown by #trust and #provenance.
#pragma once

#include "core/json/json_document.hpp"
#include "results/reading/results_reader.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vindex::report {

/// A file that a page is made of.
struct PageFile {
  results::ResultsReader& reader;
  std::int64_t rows_of_page = 0;  ///< of all its files: decides how much of each row there is
  /// Significant bits of real numbers where each row has `numbers` of them: those of float32, or in
  /// a large page as many as there is room for (14, four decimal digits, for 69,120 matrices).
  int bits(std::int64_t numbers = 40) const;
};

/// What a page holds of a file, as documents of JSON. `main` has the facts already.
struct PageData {
  Json main = Json::object();
  std::vector<std::pair<std::string, Json>> blocks = {};
};

struct PageSection {
  results::FileSchema schema;
  void (*add)(PageFile& file, PageData& out);
};

/// Files of other kinds are in #trust and #provenance alone.
std::span<const PageSection> page_sections();

void add_measure(PageFile& file, PageData& out);
void add_cells(PageFile& file, PageData& out);

/// kind, path, label, model, status, schema, mode, back end, and the texts of the run.
Json page_facts(const std::string& path, const results::ResultsReader& reader);

}  // namespace vindex::report
