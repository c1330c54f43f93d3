// Owns the report of what an edit did, for programs and for readers; nulls stand beside what they
// belong to.
#include "edit_model.hpp"

#include "core/json/json_document.hpp"
#include "core/text/short_names.hpp"
#include "core/text/text_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cmath>

namespace vindex::edit {
namespace {

const char* side_text(const EditSettings& settings) {
  return settings.side.value_or(Side::kRight) == Side::kRight ? "right" : "left";
}

Json ratio(double value, double of) { return of > 0.0 ? Json(value / of) : Json(nullptr); }

bool has_keys(const EditResult& result) {
  return result.settings.kind == EditKind::kInsert || result.settings.kind == EditKind::kMemit;
}

const ProbeChange* keys_of(const EditResult& result, const EditedMatrix& matrix) {
  return has_keys(result) ? &matrix.change.probes.front() : nullptr;
}

const ProbeChange* own_probe(const EditResult& result, const EditedMatrix& matrix) {
  return result.probe_count > 0 ? &matrix.change.probes.back() : nullptr;
}

/// Relative changes of the output: over isotropic inputs, where the expected squares are the
/// Frobenius norms; over those of a covariance; over those of --probe.
void add_collateral(const EditResult& result, const EditedMatrix& matrix, Json& out) {
  const MatrixChange& change = matrix.change;
  out["collateral"] = {{"change", ratio(change.written_norm, change.norm)}};
  out["collateral_covariance"] =
      change.covariance
          ? Json{{"change", ratio(change.covariance->change, change.covariance->before)}}
          : Json(nullptr);
  const ProbeChange* own = own_probe(result, matrix);
  out["collateral_probe"] = own == nullptr ? Json(nullptr)
                                           : Json{{"vectors", result.probe_count},
                                                  {"change", ratio(own->change, own->before)},
                                                  {"standard_error", own->standard_error}};
}

Json matrix_json(const EditResult& result, const EditedMatrix& matrix) {
  const MatrixChange& change = matrix.change;
  const LowRankEdit& edit = matrix.entry.edit;
  Json out = {{"tensor", printable(matrix.entry.tensor)},
              {"slice", matrix.entry.slice},
              {"rows", edit.rows},
              {"cols", edit.cols},
              {"encoding", matrix.encoding},
              {"transposed", matrix.transposed},
              {"direction", Json::given(matrix.direction)},
              {"base", Json::given(matrix.base)},
              {"rank", matrix.spectrum.rank},
              {"norm", change.norm},
              {"edit_norm", change.edit_norm},
              {"edit_change", ratio(change.edit_norm, change.norm)},
              {"change", ratio(change.written_norm, change.norm)}};
  out["suppressed"] = matrix.share ? Json{{"norm_before", change.direction_before},
                                          {"norm_after", change.direction_after},
                                          {"share", Json::given(matrix.share)},
                                          {"share_null", Json::given(matrix.share_null)}}
                                   : Json(nullptr);
  const ProbeChange* keys = keys_of(result, matrix);
  out["keys"] = keys == nullptr ? Json(nullptr)
                                : Json{{"wanted_norm", keys->wanted},
                                       {"miss", ratio(keys->miss, keys->wanted)}};
  out["condition"] = matrix.condition ? Json{{"keys", matrix.condition->keys},
                                             {"covariance", matrix.condition->covariance}}
                                      : Json(nullptr);
  add_collateral(result, matrix, out);
  out["encoding_error"] = result.encoded ? ratio(change.encoding_norm, change.norm) : Json(nullptr);
  out["arrived"] = result.encoded ? Json(change.arrived) : Json(nullptr);
  out["lost"] = matrix.lost;
  out["blocks"] = {{"kept", change.counts.kept},
                   {"patched", change.counts.patched},
                   {"encoded", change.counts.encoded}};
  out["sha256_before"] = matrix.entry.before;
  out["sha256_after"] = Json::given(matrix.entry.after);
  return out;
}

std::string share_text(double value, double of) {
  return of > 0.0 ? fmt::format("{:.4g} %", 100.0 * value / of) : std::string("-");
}

/// One matrix, in full.
std::string matrix_text(const EditResult& result, const EditedMatrix& matrix) {
  const MatrixChange& change = matrix.change;
  const LowRankEdit& edit = matrix.entry.edit;
  std::vector<std::vector<std::string>> rows;
  const auto add = [&rows](std::string name, std::string text) {
    rows.push_back({std::move(name), std::move(text)});
  };
  if (!matrix.direction.empty()) {
    add("direction", fmt::format("{} ({})", matrix.direction, side_text(result.settings)));
  }
  if (matrix.base == "made from" || matrix.base == "left") {
    add("base", fmt::format("the weights that the patch {}",
                            matrix.base == "left" ? "left" : "was made from"));
  }
  add("rank", std::to_string(matrix.spectrum.rank));
  add("change", fmt::format("{} of the norm", share_text(change.written_norm, change.norm)));
  if (matrix.share) {
    add("suppressed", fmt::format("norm {:.4g} -> {:.2g}, {:.4g} % of norm^2 (by chance {:.4g} %)",
                                  change.direction_before, change.direction_after,
                                  100.0 * *matrix.share, 100.0 * *matrix.share_null));
  }
  if (const ProbeChange* keys = keys_of(result, matrix)) {
    add("at the keys",
        fmt::format("misses the values by {}", share_text(keys->miss, keys->wanted)));
  }
  if (matrix.condition) {
    add("condition", fmt::format("{:.2g} of the keys, {:.2g} of the covariance",
                                 matrix.condition->keys, matrix.condition->covariance));
  }
  add("collateral", fmt::format("{} of the output over isotropic inputs",
                                share_text(change.written_norm, change.norm)));
  if (change.covariance) {
    add("", fmt::format("{} over inputs of --covariance",
                        share_text(change.covariance->change, change.covariance->before)));
  }
  if (const ProbeChange* own = own_probe(result, matrix)) {
    add("", fmt::format("{}{} over {} rows of --probe", share_text(own->change, own->before),
                        std::isfinite(own->standard_error)
                            ? fmt::format(" +- {:.2g} %", 100.0 * own->standard_error)
                            : std::string(),
                        result.probe_count));
  }
  if (result.encoded) {
    add("encoding", fmt::format("costs {} beside an edit of {}; {:.4g} % of it arrived",
                                share_text(change.encoding_norm, change.norm),
                                share_text(change.edit_norm, change.norm), 100.0 * change.arrived));
  }
  return fmt::format("{}  {} x {}  {}\n{}", printable(matrix.entry.key()), edit.rows, edit.cols,
                     matrix.encoding, table_text(rows, {{}, {}}, 1000, 2));
}

/// Of a line: over the inputs that are nearest to those of a model.
std::string collateral_text(const EditResult& result, const EditedMatrix& matrix) {
  const MatrixChange& change = matrix.change;
  if (const ProbeChange* own = own_probe(result, matrix)) {
    return share_text(own->change, own->before);
  }
  return change.covariance ? share_text(change.covariance->change, change.covariance->before)
                           : share_text(change.written_norm, change.norm);
}

/// Several, a line each.
std::string table_of(const EditResult& result, std::size_t width) {
  const bool deletes = result.settings.kind == EditKind::kDelete;
  std::vector<std::vector<std::string>> rows = {
      {"tensor", "shape", "encoding", "rank", "change",
       deletes ? "share" : (has_keys(result) ? "miss" : "arrived"), "null", "collateral",
       "rounding"}};
  for (const EditedMatrix& matrix : result.matrices) {
    const MatrixChange& change = matrix.change;
    std::string middle = result.encoded ? fmt::format("{:.3g} %", 100.0 * change.arrived) : "-";
    if (const ProbeChange* keys = keys_of(result, matrix)) {
      middle = share_text(keys->miss, keys->wanted);
    } else if (deletes) {
      middle = matrix.share ? fmt::format("{:.3g} %", 100.0 * *matrix.share) : "-";
    }
    rows.push_back({printable(matrix.entry.key()),
                    fmt::format("{}x{}", matrix.entry.edit.rows, matrix.entry.edit.cols),
                    matrix.encoding, std::to_string(matrix.spectrum.rank),
                    share_text(change.written_norm, change.norm), middle,
                    matrix.share_null ? fmt::format("{:.3g} %", 100.0 * *matrix.share_null) : "-",
                    collateral_text(result, matrix),
                    result.encoded ? share_text(change.encoding_norm, change.norm) : "-"});
  }
  std::vector<TextColumn> columns(9);
  columns[0].min_width = 16;
  for (std::size_t i = 3; i < columns.size(); ++i) {
    columns[i].right = true;
    columns[i].is_close = true;
  }
  columns[1].dropped_as = 1;
  // The null stays where something stands beside it.
  columns[deletes ? 2 : 6].dropped_as = 2;
  return names_table_text(rows, columns, width);
}

}  // namespace

std::string edit_json(const EditResult& result) {
  const EditSettings& settings = result.settings;
  const auto text = [](const std::string& value) { return Json::given(printable(value)); };
  const bool has_alpha = settings.kind == EditKind::kDelete || settings.kind == EditKind::kApply;
  const Json document = {
      {"schema", "vindex-edit/1"},
      {"verb", kind_name(settings.kind)},
      {"model", printable(settings.model)},
      {"output", text(settings.output)},
      {"as", settings.output.empty() ? Json(nullptr) : Json(settings.as_lora ? "lora" : "model")},
      {"files", Json::list(result.files, printable)},
      {"save_patch", text(settings.save_patch)},
      {"patch", text(settings.patch)},
      {"patch_kind", text(result.patch_kind)},
      {"side", settings.kind == EditKind::kDelete ? Json(side_text(settings)) : Json(nullptr)},
      {"alpha", has_alpha ? Json(settings.alpha) : Json(nullptr)},
      {"ridge", settings.kind == EditKind::kMemit ? Json(settings.ridge) : Json(nullptr)},
      {"matrices",
       Json::list(result.matrices,
                  [&](const EditedMatrix& matrix) { return matrix_json(result, matrix); })},
      {"warnings", Json::list(result.warnings, [](const Warning& warning) {
         return Json{{"id", warning.id}, {"text", warning.text}};
       })}};
  return document.dump(1) + "\n";
}

std::string edit_text(const EditResult& result, std::size_t width) {
  const EditSettings& settings = result.settings;
  std::string out;
  constexpr std::size_t kInFull = 3;
  if (result.matrices.size() <= kInFull) {
    for (const EditedMatrix& matrix : result.matrices) {
      out += matrix_text(result, matrix);
    }
  } else {
    out += table_of(result, width);
  }
  if (settings.output.empty()) {
    out += "no model was written (no -o)\n";
  } else if (settings.as_lora) {
    out += fmt::format("adapter: {}\n", printable(settings.output));
  } else {
    out += fmt::format("model: {}, {} of its tensors touched, every other byte copied\n",
                       printable(settings.output), result.matrices.size());
  }
  if (!settings.save_patch.empty()) {
    out += fmt::format("patch: {} (`vindex edit apply --alpha -1` takes it back)\n",
                       printable(settings.save_patch));
  }
  return out;
}

}  // namespace vindex::edit
