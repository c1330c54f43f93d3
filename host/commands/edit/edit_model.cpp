// Owns the steps of an edit: opening, targets, factors, effects, outputs.
#include "edit_model.hpp"

#include "edit_arrays.hpp"
#include "edit_outputs.hpp"
#include "experts.hpp"
#include "targets.hpp"

#include "blas/blas_library.hpp"
#include "core/files/path_kind.hpp"
#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include "engine/run/matrix_pass.hpp"
#include "engine/units/matrix_loader.hpp"
#include "input/model_store.hpp"
#include "input/open/open_model.hpp"
#include "model/config/model_config.hpp"
#include "model/index/index_model.hpp"
#include "model/selection/selection.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

namespace vindex::edit {
namespace {

/// Without a budget: what arrays may take.
constexpr std::uint64_t kUsualBytes = std::uint64_t{4} << 30U;
/// An edit of which less arrives is lost in rounding.
constexpr double kArrived = 0.5;

/// The model; of a folder with one file of weights that file where one is to be written.
input::ModelFiles open_for(const EditSettings& settings) {
  const input::OpenOptions options = {
      .model_config = settings.model_config, .for_matrices = true, .stop = settings.stop};
  input::ModelFiles files = input::open_model(settings.model, options);
  if (!settings.as_lora && names_a_file(settings.output) && files.shards.size() == 1 &&
      files.store->file().empty()) {
    return input::open_model(files.shards.front().path, options);
  }
  return files;
}

/// One run: the model, what was read beside it, and the matrices one by one.
class Editing {
 public:
  explicit Editing(const EditSettings& settings)
      : settings_(settings),
        files_(open_for(settings)),
        index_(model::index_model(files_, {.tied = model::TiedOutput::kKeep})),
        watch_(files_) {}

  EditResult run() {
    EditResult result;
    result.settings = settings_;
    result.warnings = files_.warnings;
    require_outputs(settings_, files_);
    const bool wants_model = !settings_.output.empty() && !settings_.as_lora;
    find_targets_of();
    warn_of_stored_output(result);
    require_adaptable(settings_, files_, index_, targets_);
    require_decodable(wants_model);
    if (settings_.kind == EditKind::kDelete) {
      require_side(targets_, settings_);
    }
    read_inputs(result);
    if (settings_.direction.kind == DirectionChoice::Kind::kSingular &&
        settings_.kind == EditKind::kDelete) {
      backend_ = settings_.backend();
    }
    use_threads();
    if (wants_model) {
      scratch_.emplace(scratch_folder());
    }
    result.encoded = wants_model;
    if (!edit_targets(result)) {
      result.stopped = true;
      return result;
    }
    watch_.require_unchanged();
    const EditedModel edited = {files_, index_, targets_, scratch_ ? &*scratch_ : nullptr, parts_};
    write_outputs(edited, result);
    return result;
  }

 private:
  /// On the output's disk: the nearest folder that is there.
  std::string scratch_folder() const {
    std::string folder = folder_of(settings_.output);
    while (path_kind(folder) == PathKind::kAbsent && folder != folder_of(folder)) {
      folder = folder_of(folder);
    }
    return folder;
  }

  std::uint64_t budget() const {
    return settings_.ram_budget == 0 ? kUsualBytes : settings_.ram_budget;
  }

  /// Of a patch by its headers, so that what they refute is refused before factors are read.
  void find_targets_of() {
    if (settings_.kind != EditKind::kApply) {
      targets_ = find_targets(index_, settings_);
      return;
    }
    const PatchBase base = {files_, index_};
    patch_file_ = open_patch(settings_.patch, settings_.force, &base);
    require_architecture();
    experts_.emplace(index_);
    for (const PatchEntry& outline : patch_file_->outline().entries) {
      for (const PatchEntry& entry : experts_->fitted(outline)) {
        add_target(entry);
      }
    }
  }

  /// Whoever edits the embedding of a model with one matrix for both ends expects other logits.
  void warn_of_stored_output(EditResult& result) const {
    std::vector<Warning> unused;
    const model::Claims claims(files_, unused);
    const auto is = [](const model::MatrixRecord& matrix, std::string_view role) {
      return matrix.layer == -1 && matrix.role == role;
    };
    const auto output = std::find_if(index_.matrices.begin(), index_.matrices.end(),
                                     [&](const auto& matrix) { return is(matrix, "lm_head"); });
    const auto target = std::find_if(targets_.begin(), targets_.end(), [&](const auto* matrix) {
      return is(*matrix, "embed_tokens");
    });
    const bool edits_output =
        std::any_of(targets_.begin(), targets_.end(),
                    [&](const auto* matrix) { return is(*matrix, "lm_head"); });
    if (output != index_.matrices.end() && target != targets_.end() && !edits_output &&
        claims.boolean({"tie_word_embeddings"}, {}).value_or(false)) {
      result.warnings.push_back(
          {"W-TIED", fmt::format("{} is edited, but {} is stored too although the configuration "
                                 "ties them, and stays as it is: logits are made by the stored "
                                 "one",
                                 model::matrix_name(**target), model::matrix_name(*output))});
    }
  }

  void add_target(const PatchEntry& entry) {
    const model::MatrixRecord& target = target_of(index_, entry, printable(settings_.patch));
    if (std::find(targets_.begin(), targets_.end(), &target) != targets_.end()) {
      throw FormatError("E-PATCH-FORMAT", printable(settings_.patch),
                        fmt::format("two entries are of {}", model::matrix_name(target)));
    }
    if (patch_file_->outline().knows_base && entry.before.empty() &&
        !settings_.accept_unknown_base) {
      throw ConfigurationError(
          "E-PATCH-BASE",
          fmt::format("{}: {} does not say which weights it was made from (no digest of {}), so "
                      "it cannot be checked against this model; --accept-unknown-base applies "
                      "it all the same",
                      model::matrix_name(target), printable(settings_.patch),
                      excerpt(entry.key())));
    }
    targets_.push_back(&target);
  }

  /// llama.cpp loads no adapter of another architecture: names may be the same, layouts are not.
  void require_architecture() const {
    const std::optional<std::string>& wanted = patch_file_->outline().architecture;
    if (!wanted || files_.format != input::ContainerFormat::kGguf ||
        *wanted == index_.shape.architecture) {
      return;
    }
    throw ConfigurationError(
        "E-ADAPTER-ARCHITECTURE",
        fmt::format("{}: the adapter is of {}, the model of {}: it is an adapter of another model",
                    printable(settings_.patch),
                    wanted->empty() ? "no architecture" : "architecture " + excerpt(*wanted),
                    excerpt(index_.shape.architecture)));
  }

  void require_decodable(bool wants_model) {
    for (const model::MatrixRecord* matrix : targets_) {
      if (const std::string reason = model::undecodable_text(*matrix); !reason.empty()) {
        throw FormatError("E-UNSUPPORTED", model::matrix_name(*matrix), reason);
      }
      if (wants_model && !can_encode(watch_, *matrix)) {
        throw ConfigurationError(
            "E-ENCODE-TYPE",
            fmt::format("{}: {} cannot be encoded again; --as lora writes the edit as an adapter "
                        "beside the model, or edit the model in F32, F16, BF16, Q8_0, Q5_1, Q5_0, "
                        "Q4_1, Q4_0, fp8 blocks or INT4 groups",
                        model::matrix_name(*matrix), matrix->encoding.label));
      }
    }
  }

  void read_inputs(EditResult& result) {
    arrays_ = read_arrays(settings_, targets_, budget());
    result.probe_count = arrays_.probe ? arrays_.probe->rows : 0;
    if (patch_file_ == nullptr) {
      return;
    }
    Patch patch = patch_file_->read();
    result.patch_kind = patch.kind;
    result.warnings.insert(result.warnings.end(), patch.warnings.begin(), patch.warnings.end());
    for (PatchEntry& entry : patch.entries) {
      std::vector<PatchEntry> parts = experts_->fitted(std::move(entry));
      std::move(parts.begin(), parts.end(), std::back_inserter(patch_entries_));
    }
  }

  void use_threads() const {
    blas::set_library_threads(settings_.threads > 0 ? settings_.threads : usable_cores());
  }

  LowRankEdit edit_of(std::size_t index, const model::MatrixRecord& matrix, EditedMatrix& out,
                      std::optional<Direction>& direction) {
    switch (settings_.kind) {
      case EditKind::kDelete: {
        blas::set_library_threads(1);  // what back ends count on
        ChosenDirection chosen =
            choose_direction(watch_, index_, matrix, settings_,
                             arrays_.direction ? &*arrays_.direction : nullptr, backend_.get());
        use_threads();
        const std::vector<double> image = image_of(watch_, matrix, chosen.direction);
        out.direction = chosen.text;
        out.share_null = 1.0 / static_cast<double>(chosen.direction.unit.size());
        LowRankEdit edit =
            deletion(chosen.direction.side, chosen.direction.unit, image, settings_.alpha);
        direction = std::move(chosen.direction);
        return edit;
      }
      case EditKind::kInsert:
        return insertion(arrays_.keys->values, arrays_.values->values);
      case EditKind::kMemit:
        out.condition.emplace();
        return memit(*arrays_.keys, *arrays_.values,
                     arrays_.covariance ? &*arrays_.covariance : nullptr, settings_.ridge,
                     *out.condition, settings_.stop);
      case EditKind::kApply:
        break;
    }
    return scaled(std::move(patch_entries_[index].edit), settings_.alpha);
  }

  /// The keys of an insertion with what they are to become, then --probe.
  std::vector<Probe> probes() const {
    std::vector<Probe> probes;
    if (arrays_.keys) {
      Probe keys;
      keys.count = arrays_.keys->cols;
      keys.inputs.assign(arrays_.keys->values.begin(), arrays_.keys->values.end());
      keys.wanted.assign(arrays_.values->values.begin(), arrays_.values->values.end());
      probes.push_back(std::move(keys));
    }
    if (arrays_.probe) {
      const Matrix& given = *arrays_.probe;
      Probe own;
      own.count = given.rows;
      own.inputs = transposed_of<float>(given.values, given.rows, given.cols);
      probes.push_back(std::move(own));
    }
    return probes;
  }

  /// One after the other, as the library's threads share the work on each. False: stopped.
  bool edit_targets(EditResult& result) {
    std::vector<engine::RowWork> works;
    for (const model::MatrixRecord* target : targets_) {
      const std::uint64_t bytes = engine::stored_bytes(*target);
      works.push_back({.row = std::ssize(works),
                       .name = model::matrix_name(*target),
                       .cost = static_cast<double>(bytes),
                       .read_bytes = bytes,
                       .reading = engine::Reading::kPieces});
    }
    const auto edit = [&](std::size_t i, engine::UnitStream& /*unit*/) {
      if (!edit_target(i, result)) {
        throw Stopped{};
      }
    };
    return !engine::pass_over({}, works, {.in_order = true}, edit,
                              {.stop = settings_.stop, .progress = settings_.progress})
                .stopped;
  }

  bool edit_target(std::size_t i, EditResult& result) {
    const model::MatrixRecord& matrix = *targets_[i];
    EditedMatrix out;
    out.entry.tensor = matrix.tensor;
    out.entry.slice = matrix.slice;
    out.encoding = matrix.encoding.label;
    out.transposed = matrix.transposed;
    std::optional<Direction> direction;
    if (arrays_.covariance) {
      require_covariance(*arrays_.covariance, matrix.cols, printable(settings_.covariance));
    }
    out.entry.edit = bounded(edit_of(i, matrix, out, direction), settings_.stop);
    if (!all_finite(out.entry.edit.a) || !all_finite(out.entry.edit.b)) {
      throw FormatError("E-EDIT-VALUES", model::matrix_name(matrix),
                        "the edit's factors are beyond float32");
    }
    out.spectrum = spectrum_of(out.entry.edit, settings_.stop);
    const std::vector<Probe> probes = this->probes();
    MatrixEditOptions options;
    options.probes = probes;
    options.covariance = arrays_.covariance ? &*arrays_.covariance : nullptr;
    options.direction = direction ? &*direction : nullptr;
    options.scratch = scratch_ ? &*scratch_ : nullptr;
    options.stop = settings_.stop;
    auto change = edit_matrix(watch_, matrix, out.entry.edit, options, parts_);
    if (!change) {
      return false;
    }
    out.change = std::move(*change);
    out.entry.before = out.change.before;
    out.entry.after = scratch_ ? out.change.after : std::string();
    if (direction && out.change.norm > 0.0) {
      out.share = std::pow(out.change.direction_before / out.change.norm, 2);
    }
    if (settings_.kind == EditKind::kApply) {
      require_base(patch_entries_[i], out, result);
    }
    judge(matrix, out, result);
    result.matrices.push_back(std::move(out));
    return true;
  }

  void require_base(const PatchEntry& wanted, EditedMatrix& found, EditResult& result) const {
    const std::string& weights = found.entry.before;
    found.base =
        weights == wanted.before
            ? "made from"
            : (weights == wanted.after ? "left" : (wanted.before.empty() ? "unknown" : "other"));
    if (found.base != "other") {
      return;
    }
    const std::string text = fmt::format(
        "{}: the weights are neither those that the patch was made from nor those that "
        "it left",
        excerpt(wanted.key()));
    if (!settings_.force) {
      throw ConfigurationError(
          "E-PATCH-BASE",
          text + "; --accept-findings applies it to another copy (quantised, or edited since)");
    }
    result.warnings.push_back({"W-PATCH-BASE", text});
  }

  void judge(const model::MatrixRecord& matrix, EditedMatrix& out, EditResult& result) const {
    const MatrixChange& change = out.change;
    if (scratch_ && change.edit_norm > 0.0 &&
        (change.encoding_norm >= change.edit_norm || change.arrived < kArrived)) {
      out.lost = true;
      result.warnings.push_back(
          {"W-EDIT-LOST",
           fmt::format("{}: the edit ({:.2g} of the norm) is below the step of {}: rounding costs "
                       "{:.2g}, {:.0f} % of the edit arrived",
                       model::matrix_name(matrix), change.edit_norm / change.norm,
                       matrix.encoding.label, change.encoding_norm / change.norm,
                       100.0 * change.arrived)});
    }
    constexpr double kIll = 1e10;
    if (out.condition && std::max(out.condition->keys, out.condition->covariance) > kIll) {
      result.warnings.push_back(
          {"W-EDIT-CONDITION",
           fmt::format(
               "{}: the equations are ill-conditioned ({:.1e} for the keys, {:.1e} for the "
               "covariance): the edit may be large where no key is; a larger --ridge or a larger "
               "diagonal of C helps",
               model::matrix_name(matrix), out.condition->keys, out.condition->covariance)});
    }
  }

  const EditSettings& settings_;
  input::ModelFiles files_;
  model::ModelIndex index_;
  engine::SourceWatch watch_;
  Records targets_;
  EditArrays arrays_;
  std::unique_ptr<PatchFile> patch_file_;
  std::optional<Experts> experts_;         ///< beside a patch
  std::vector<PatchEntry> patch_entries_;  ///< beside targets_
  std::unique_ptr<Backend> backend_;
  std::optional<write::ScratchFile> scratch_;
  std::vector<NewPart> parts_;
};

}  // namespace

std::string_view kind_name(EditKind kind) {
  constexpr std::string_view kNames[] = {"delete", "insert", "memit", "apply"};
  return kNames[static_cast<std::size_t>(kind)];
}

EditResult edit_model(const EditSettings& settings) {
  if (!std::isfinite(settings.alpha) || !std::isfinite(settings.ridge) || settings.ridge < 0.0) {
    throw UsageError("E-USAGE", "--alpha and --ridge are finite numbers, --ridge not negative");
  }
  return Editing(settings).run();
}

}  // namespace vindex::edit
