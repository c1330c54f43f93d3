// Owns checking places before anything is computed, and writing model, adapter and patch.
#include "edit_outputs.hpp"

#include "experts.hpp"

#include "core/files/output_target.hpp"
#include "core/files/path_kind.hpp"
#include "input/stores/open_store.hpp"
#include "write/rewrite_model.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <optional>

namespace vindex::edit {
namespace {

namespace fs = std::filesystem;

/// Whether the model was given as one file, which one file then replaces.
bool is_one_file(const input::ModelFiles& files) {
  return files.shards.size() == 1 && !files.store->file().empty();
}

/// Everything that an edit reads, as far as an output could take its place.
std::vector<std::string> inputs_of(const input::ModelFiles& files, const EditSettings& settings) {
  std::vector<std::string> inputs = files.side_files;
  for (const input::Shard& shard : files.shards) {
    inputs.push_back(shard.path);
  }
  for (const std::string& path :
       {files.path, settings.model_config, settings.patch, settings.direction.file, settings.key,
        settings.value, settings.keys, settings.values, settings.covariance, settings.probe}) {
    if (const auto local = input::local_path(path); local && !local->empty()) {
      inputs.push_back(*local);
    }
  }
  return inputs;
}

struct Output {
  std::string flag;
  std::string path;
};

std::vector<Output> outputs_of(const EditSettings& settings) {
  std::vector<Output> outputs;
  for (const Output& output : {Output{"-o", settings.output},
                               {"--save-patch", settings.save_patch},
                               {"--report", settings.report}}) {
    if (!output.path.empty() && output.path != "-") {
      outputs.push_back(output);
    }
  }
  return outputs;
}

/// Before any of them is found to be there: killed runs leave temporary names beside whole outputs.
void remove_stale_temporaries(const std::vector<Output>& outputs) {
  for (const Output& output : outputs) {
    write::OutputFolder::remove_stale_temporaries(output.path);
  }
}

/// Each output has a place of its own, and none lies where something is read.
void require_own_places(const input::ModelFiles& files, const EditSettings& settings,
                        const std::vector<Output>& outputs) {
  const std::vector<std::string> inputs = inputs_of(files, settings);
  const std::optional<std::string> patch = input::local_path(settings.patch);
  for (const Output& output : outputs) {
    for (const std::string& input : inputs) {
      const bool is_patch = input == patch;
      if (is_same_place(input, output.path) ||
          (is_patch && is_folder(input) && is_within(input, output.path))) {
        throw OutputError("E-OUTPUT-SOURCE",
                          fmt::format("{} {}: is read by this edit; choose another name",
                                      output.flag, printable(output.path)));
      }
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t j = i + 1; j < outputs.size(); ++j) {
      if (is_same_place(outputs[i].path, outputs[j].path)) {
        throw UsageError("E-OUTPUT-KIND", fmt::format("{} and {} name the same file",
                                                      outputs[i].flag, outputs[j].flag));
      }
      if (outputs[i].flag == "-o" && !names_a_file(outputs[i].path) &&
          is_within(outputs[i].path, outputs[j].path)) {
        throw UsageError(
            "E-OUTPUT-KIND",
            fmt::format("{} {}: lies in the folder that -o writes, which holds a model "
                        "or an adapter and nothing else",
                        outputs[j].flag, printable(outputs[j].path)));
      }
    }
  }
}

void require_free_folder(const std::string& path) {
  const PathKind kind = path_kind(path);
  if (kind == PathKind::kAbsent) {
    return;
  }
  if (kind != PathKind::kFolder) {
    throw OutputError("E-OUTPUT-NOT-A-FOLDER", printable(path) + ": is not a folder");
  }
  std::error_code error;
  const bool is_free = fs::is_empty(path, error);
  if (error) {
    throw SystemError("E-OUTPUT-WRITE", error.value(), "cannot list " + printable(path));
  }
  if (!is_free) {
    throw OutputError("E-OUTPUT-NOT-EMPTY",
                      fmt::format("{}: is not empty; choose another folder", printable(path)));
  }
}

[[noreturn]] void refuse_kind(const std::string& output, const char* what, const char* wanted) {
  throw UsageError("E-OUTPUT-KIND",
                   fmt::format("-o {}: {} is written as {}", printable(output), what, wanted));
}

write::ModelEdit edit_of(const EditedModel& model) {
  write::ModelEdit edit;
  const std::span<const std::byte> bytes = model.scratch->mapped();
  for (const NewPart& part : model.parts) {
    edit.bytes.push_back({model.files.tensors[static_cast<std::size_t>(part.tensor)].name,
                          part.offset, bytes.subspan(part.scratch, part.bytes)});
  }
  return edit;
}

bool is_lone_expert(const model::MatrixRecord& matrix) {
  return matrix.block == model::Block::kRoutedExpert && matrix.slice < 0;
}

std::vector<AdaptedMatrix> adapted(const EditedModel& model, const EditResult& result) {
  const bool peft = model.files.format != input::ContainerFormat::kGguf;
  const bool mixture = model.index.shape.experts.value_or(0) > 0;
  const Experts experts(model.index);
  std::vector<AdaptedMatrix> out;
  for (std::size_t i = 0; i < result.matrices.size(); ++i) {
    const model::MatrixRecord& target = *model.targets[i];
    const bool is_mlp = target.block == model::Block::kDenseMlp ||
                        target.block == model::Block::kSharedExpert ||
                        target.block == model::Block::kRouter;
    AdaptedMatrix matrix;
    matrix.entry = &result.matrices[i].entry;
    matrix.embedding = target.block == model::Block::kEmbedding;
    matrix.transposed = target.transposed;
    matrix.slices = stack_size(model.index, target);
    matrix.parameter = mixture && is_mlp;
    if (peft && is_lone_expert(target)) {
      PlaceInStack place = experts.place(target);
      matrix.stack = std::move(place.parameter);
      matrix.expert = target.expert;
      matrix.slices = place.experts;
      matrix.stack_rows = place.rows;
      matrix.first_row = place.first_row;
    }
    out.push_back(std::move(matrix));
  }
  return out;
}

void write_lora(const EditedModel& model, EditResult& result) {
  const EditSettings& settings = result.settings;
  const std::vector<AdaptedMatrix> matrices = adapted(model, result);
  if (model.files.format == input::ContainerFormat::kGguf) {
    AtomicFile file(settings.output, write::kOutputErrors);
    write_gguf_adapter(file, matrices, model.index.shape.architecture, settings.program);
    file.publish();
    result.files.push_back(file_name_of(settings.output));
  } else {
    write::OutputFolder folder(settings.output);
    write_peft_adapter(folder, matrices, settings.model);
    folder.publish();
    result.files = {"adapter_model.safetensors", "adapter_config.json"};
  }
}

}  // namespace

bool names_a_file(const std::string& output) {
  return output.ends_with(".safetensors") || output.ends_with(".gguf");
}

void require_outputs(const EditSettings& settings, const input::ModelFiles& files) {
  const bool gguf = files.format == input::ContainerFormat::kGguf;
  const std::string& output = settings.output;
  if (output.empty() && settings.as_lora) {
    throw UsageError("E-USAGE", "--as lora needs -o");
  }
  if (!output.empty() && settings.as_lora) {
    if (gguf != output.ends_with(".gguf")) {
      refuse_kind(output, gguf ? "the adapter of a GGUF model" : "a PEFT adapter",
                  gguf ? "one .gguf file" : "a folder");
    }
    if (!gguf && names_a_file(output)) {
      refuse_kind(output, "a PEFT adapter", "a folder");
    }
  } else if (!output.empty() && is_one_file(files)) {
    if (!output.ends_with(gguf ? ".gguf" : ".safetensors")) {
      refuse_kind(output, "a model that is one file",
                  gguf ? "one file, NAME.gguf" : "one file, NAME.safetensors");
    }
  } else if (!output.empty() && names_a_file(output)) {
    refuse_kind(output, "a model of a folder or of several files", "a folder of the same files");
  }
  const std::vector<Output> outputs = outputs_of(settings);
  require_own_places(files, settings, outputs);
  remove_stale_temporaries(outputs);
  if (!output.empty()) {
    if (names_a_file(output)) {
      require_free_target(output, settings.replace, "--force");
    } else {
      require_free_folder(output);
    }
  }
  if (!settings.save_patch.empty()) {
    if (!settings.save_patch.ends_with(".safetensors")) {
      refuse_kind(settings.save_patch, "a patch", "NAME.safetensors");
    }
    require_free_target(settings.save_patch, settings.replace, "--force");
  }
}

void require_adaptable(const EditSettings& settings, const input::ModelFiles& files,
                       const model::ModelIndex& index, const Records& targets) {
  if (!settings.as_lora || files.format == input::ContainerFormat::kGguf) {
    return;
  }
  const Experts experts(index);
  for (const model::MatrixRecord* target : targets) {
    if (is_lone_expert(*target)) {
      experts.place(*target);
    }
  }
}

void write_outputs(const EditedModel& model, EditResult& result) {
  const EditSettings& settings = result.settings;
  std::optional<AtomicFile> patch;
  if (!settings.save_patch.empty()) {
    std::vector<PatchEntry> entries;
    for (const EditedMatrix& matrix : result.matrices) {
      entries.push_back(matrix.entry);
    }
    patch.emplace(settings.save_patch, write::kOutputErrors);
    write_patch(*patch, entries, settings.program);
  }
  if (settings.stop.stop_requested()) {
    result.stopped = true;
    return;
  }
  if (!settings.output.empty() && settings.as_lora) {
    write_lora(model, result);
  } else if (!settings.output.empty()) {
    write::RewriteOptions options;
    options.replace = settings.replace;
    options.stop = settings.stop;
    const write::RewriteReport report =
        write::rewrite_model(model.files, settings.output, edit_of(model), options);
    if (report.stopped) {
      result.stopped = true;
      return;
    }
    result.files = report.files;
  }
  if (patch) {
    patch->publish();
  }
}

}  // namespace vindex::edit
