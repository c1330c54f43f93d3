// Owns putting a page together: template, style, data, scripts, and the policy that lets a browser
// run these scripts and nothing else.
#include "write_page.hpp"

#include "page_assets.hpp"
#include "page_sections.hpp"
#include "page_values.hpp"

#include "core/digest.hpp"
#include "core/files/output_target.hpp"
#include "core/files/path_kind.hpp"
#include "report/text/text_sink.hpp"
#include "results/reading/table_rows.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace vindex::report {

namespace {

/// `text` without the lines that would have a browser's tools look for other files.
std::string without_maps(std::string_view text) {
  std::string out(text);
  for (std::size_t at = 0; (at = out.find("//# sourceMappingURL=", at)) != std::string::npos;) {
    out.erase(at, std::min(out.find('\n', at), out.size()) - at);
  }
  return out;
}

/// What the script of the page is: the notices, every module, and the call of the first one.
std::string page_script() {
  std::string out;
  for (const PageAsset& asset : page_assets()) {
    switch (asset.kind) {
      case AssetKind::kNotice:
        out += fmt::format("/*\n{}*/\n", asset.text);
        break;
      case AssetKind::kScript:
        out += asset.text;
        break;
      case AssetKind::kModule:
        out += fmt::format("define(\"{}\", function (module, exports, require) {{\n{}\n}});\n",
                           asset.name, without_maps(asset.text));
        break;
      case AssetKind::kSpecification:
        out += fmt::format("define(\"{}\", function (module) {{ module.exports =\n{}}});\n",
                           asset.name, asset.text);
        break;
      case AssetKind::kTemplate:
      case AssetKind::kStyle:
        break;
    }
  }
  return out + "require(\"main\");\n";
}

std::string text_of(AssetKind kind) {
  std::string out;
  for (const PageAsset& asset : page_assets()) {
    out += asset.kind == kind ? asset.text : std::string_view();
  }
  return out;
}

/// 'sha256-...' of a script as Content-Security-Policy wants it.
std::string policy_digest(std::string_view script) {
  const Sha256Digest digest = sha256(script);
  return fmt::format("'sha256-{}'", base64(std::as_bytes(std::span(digest))));
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// Replaces every {{name}} of the template; the values are not searched again.
std::string filled(std::string_view page,
                   std::span<const std::pair<std::string_view, std::string>> values) {
  std::string out;
  while (!page.empty()) {
    const std::size_t begin = page.find("{{");
    out += page.substr(0, begin);
    if (begin == std::string_view::npos) {
      break;
    }
    const std::size_t end = page.find("}}", begin);
    const std::string_view name = page.substr(begin + 2, end - begin - 2);
    const auto value = std::find_if(values.begin(), values.end(),
                                    [&](const auto& one) { return one.first == name; });
    expects(end != std::string_view::npos && value != values.end(), "a place of the page template");
    out += value->second;
    page.remove_prefix(end + 2);
  }
  return out;
}

std::string data_script(std::size_t file, const std::string& block, const Json& data) {
  return fmt::format("<script type=\"application/json\" id=\"data-{}-{}\">{}</script>\n", file,
                     block, script_text(data));
}

}  // namespace

WrittenPage write_page(std::span<const std::string> paths, const std::string& target,
                       bool replace) {
  if (target != "-") {
    require_no_input(std::span(&target, 1), paths);
    require_free_target(target, replace);
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (is_same_file(paths[i], paths[j])) {
        throw UsageError("E-REPORT-TWICE", fmt::format("{} and {} are one file",
                                                       printable(paths[j]), printable(paths[i])));
      }
    }
  }
  std::deque<results::ResultsReader> readers;
  WrittenPage written;
  for (const std::string& path : paths) {
    const results::ResultsReader& reader = readers.emplace_back(path, std::nullopt);
    if (reader.header().part) {
      throw UsageError("E-REPORT-PART",
                       printable(path) + " is a part of a run; merge it first (vindex merge)");
    }
    written.rows += results::row_count(reader.file(), reader.schema(), model::ResultTable::kMatrix);
  }
  std::string data;
  std::string title;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    PageFile file{.reader = readers[i], .rows_of_page = written.rows};
    PageData page{.main = page_facts(paths[i], readers[i])};
    title += (i == 0 ? "" : ", ") + printable(paths[i].substr(paths[i].rfind('/') + 1));
    for (const PageSection& section : page_sections()) {
      if (section.schema == readers[i].header().schema) {
        section.add(file, page);
      }
    }
    data += data_script(i, "main", page.main);
    for (const auto& [name, block] : page.blocks) {
      data += data_script(i, name, block);
    }
  }
  const std::string script = page_script();
  const std::pair<std::string_view, std::string> values[] = {
      {"title", escaped(title)},
      {"policy",
       fmt::format("default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; "
                   "base-uri 'none'; form-action 'none'",
                   policy_digest(script))},
      {"style", text_of(AssetKind::kStyle)},
      {"data", std::move(data)},
      {"script", script},
  };
  const std::string page = filled(text_of(AssetKind::kTemplate), values);
  TextSink sink(target);
  sink.write(page);
  sink.finish();
  written.bytes = page.size();
  return written;
}

}  // namespace vindex::report
