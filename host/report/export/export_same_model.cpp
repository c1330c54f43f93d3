// Owns the refusal to join files of different models in one export.
#include "export_same_model.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace vindex::report {

namespace {

[[noreturn]] void refuse(const std::string& one, const std::string& other, const std::string& why) {
  throw ConfigurationError("E-EXPORT-MODEL",
                           fmt::format("{} and {} are of different models: {}; export them apart",
                                       printable(one), printable(other), why));
}

/// The lines of a fingerprint that name the files of the model's weights: "file NAME" in a file of
/// spectra, "model file NAME" where a dump was measured with --model.
std::set<std::pair<std::string, std::string>> weight_lines(const std::string& path) {
  constexpr std::string_view kOfModel = "model ";
  std::set<std::pair<std::string, std::string>> lines;
  const results::ResultsReader reader(path, std::nullopt);
  for (auto [name, value] : reader.fingerprint()) {
    if (reader.schema().id != results::FileSchema::kResults) {
      if (!name.starts_with(kOfModel)) {
        continue;
      }
      name.erase(0, kOfModel.size());
    }
    if (name.starts_with("file ")) {
      lines.emplace(std::move(name), std::move(value));
    }
  }
  return lines;
}

/// What a model must have for the rows of a file to be of it: the width of a role in a layer.
struct Width {
  std::int32_t layer = -1;
  std::int64_t width = 0;
  std::string what;  ///< "experts", "neurons", "hidden width"
};

std::vector<Width> widths_of(const results::ResultsView& view) {
  std::vector<Width> widths;
  for (const results::ViewRow& row : view.rows) {
    if (row.role == "mlp" || row.role == "hidden" || row.role == "router_logits") {
      widths.push_back({row.layer, row.cols,
                        row.role == "mlp"      ? "neurons"
                        : row.role == "hidden" ? "hidden width"
                                               : "experts"});
    }
  }
  return widths;
}

/// The same of the weights, as far as their matrices show.
std::vector<Width> widths_of(const Layers& layers) {
  std::vector<Width> widths;
  for (const auto& [layer, blocks] : layers) {
    for (const auto& [block, roles] : blocks) {
      for (const auto& [role, rows] : roles) {
        const results::StoredRow& row = *rows.front();
        if (block == model::Block::kRouter && role == "router") {
          widths.push_back({layer, row.rows, "experts"});
          widths.push_back({layer, row.cols, "hidden width"});
        } else if (block == model::Block::kDenseMlp && role == "gate_proj") {
          widths.push_back({layer, row.rows, "neurons"});
          widths.push_back({layer, row.cols, "hidden width"});
        }
      }
    }
  }
  return widths;
}

/// Whether there was anything to compare. The last hidden state stands behind the last layer, so
/// that hidden widths are of the whole model.
bool compare_widths(const std::vector<Width>& one, const std::vector<Width>& other,
                    const std::string& path_one, const std::string& path_other) {
  bool any = false;
  for (const Width& a : one) {
    for (const Width& b : other) {
      const bool is_hidden = a.what == "hidden width";
      if (a.what != b.what || (a.layer != b.layer && !is_hidden)) {
        continue;
      }
      any = true;
      if (a.width != b.width) {
        refuse(path_one, path_other,
               is_hidden
                   ? fmt::format("hidden width {} and {}", a.width, b.width)
                   : fmt::format("layer {} has {} and {} {}", a.layer, a.width, b.width, a.what));
      }
    }
  }
  return any;
}

}  // namespace

std::string require_same_model(const std::map<std::string, std::string>& paths,
                               const PhaseSources& sources, const Layers& layers) {
  std::string compared = "none";
  std::vector<std::pair<std::string, std::vector<Width>>> widths;
  if (sources.spectra != nullptr) {
    widths.emplace_back(paths.at("measure"), widths_of(layers));
  }
  for (const auto* file : {&sources.activations, &sources.cka, &sources.routing}) {
    if (*file) {
      widths.emplace_back((*file)->path, widths_of(**file));
    }
  }
  for (std::size_t i = 0; i < widths.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (compare_widths(widths[j].second, widths[i].second, widths[j].first, widths[i].first)) {
        compared = "shapes";
      }
    }
  }
  std::string first;
  std::set<std::pair<std::string, std::string>> lines;
  for (const auto& [kind, path] : paths) {
    const auto found = weight_lines(path);
    if (found.empty()) {
      continue;
    }
    if (first.empty()) {
      first = path;
      lines = found;
    } else if (found != lines) {
      refuse(first, path, "they were measured from other files of weights");
    } else {
      compared = "files";
    }
  }
  return compared;
}

}  // namespace vindex::report
