// Owns the tasks of writing: files, ranges to copy, tensors to make, threads, publishing.
#include "compose.hpp"

#include "core/files/atomic_file.hpp"
#include "core/files/output_target.hpp"
#include "core/files/path_kind.hpp"
#include "core/files/temporary_files.hpp"
#include "core/integers.hpp"
#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include "input/gguf/gguf_set.hpp"
#include "write/output_folder.hpp"
#include "write/range_copy.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_set>
#include <utility>

namespace vindex::organ {
namespace {

/// Tensors without a digest are copied in pieces of this size by several threads.
constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 20U;
/// Held by each thread: the buffer of a copier, and some for a tensor that is made.
constexpr std::uint64_t kComposeThreadBytes = std::uint64_t{8} << 20U;

/// Files of the result that are written at a time: descriptors are few.
constexpr std::size_t kOpenFiles = 64;

struct OutputFile {
  std::unique_ptr<AtomicFile> file;
  std::unique_ptr<gguf::Writer> writer;
  std::size_t first = 0;  ///< tensor of the composition
  bool replaces = false;  ///< a file of an earlier run: what took its place stays
  std::unique_ptr<std::mutex> turn = std::make_unique<std::mutex>();
};

/// What one thread does at a time: a range of a tensor.
struct Task {
  std::size_t tensor = 0;
  std::size_t file = 0;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

std::vector<const GgufSource*> sources_of(const Composition& composition) {
  std::set<const GgufSource*> sources;
  for (const ComposedTensor& tensor : composition.tensors) {
    if (tensor.source != nullptr) {
      sources.insert(tensor.source);
    }
  }
  return {sources.begin(), sources.end()};
}

void refuse_inputs(const std::vector<std::string>& targets,
                   const std::vector<const GgufSource*>& sources, const ComposeOptions& options) {
  std::vector<std::string> inputs = options.inputs;
  for (const GgufSource* source : sources) {
    const std::vector<std::string> own = source->input_paths();
    inputs.insert(inputs.end(), own.begin(), own.end());
  }
  require_no_input(targets, inputs);
}

void check_tensors(const Composition& composition) {
  std::size_t placed = 0;
  for (const ComposedFile& file : composition.files) {
    placed += file.tensor_count;
  }
  expects(!composition.files.empty() && placed == composition.tensors.size(),
          "compose: every tensor in one of the files");
  std::unordered_set<std::string_view> names;
  for (const ComposedTensor& tensor : composition.tensors) {
    gguf::require_storable(tensor.layout);
    if (!names.insert(tensor.layout.name).second) {
      throw FormatError("E-GGUF-NAME", fmt::format("tensor \"{}\"", excerpt(tensor.layout.name)),
                        "the name is there twice");
    }
    expects((tensor.source != nullptr) != static_cast<bool>(tensor.make),
            "compose: a tensor has a source or is made");
    expects(tensor.source == nullptr || tensor.source->tensors().at(tensor.tensor).bytes ==
                                            gguf::stored_bytes(tensor.layout),
            "compose: a source of as many bytes as the layout has");
  }
  for (const ComposedFile& file : composition.files) {
    (void)file.keys.alignment();
  }
}

/// One run of compose(): the files under their temporary names.
class Assembly {
 public:
  Assembly(const Composition& composition, const ComposeOptions& options)
      : composition_(composition), options_(options) {}
  ~Assembly() {
    if (!published_) {
      for (OutputFile& output : outputs_) {
        if (!output.replaces) {
          output.file->withdraw();
        }
      }
    }
  }
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  /// Writes every file, through to the device.
  void write(const std::vector<std::string>& targets) {
    std::uint64_t bytes = 0;
    for (const ComposedTensor& tensor : composition_.tensors) {
      const auto sum = checked_add(bytes, gguf::stored_bytes(tensor.layout));
      bytes = sum.value_or(~std::uint64_t{0});
    }
    require_free_space(targets.front(), bytes);
    remove_stale_temporaries_of(targets);
    outputs_.reserve(targets.size());
    while (outputs_.size() < targets.size()) {
      const std::size_t first = outputs_.size();
      while (outputs_.size() < std::min(first + kOpenFiles, targets.size())) {
        create(targets[outputs_.size()]);
      }
      fill(first);
    }
    report.cloned = tally_.cloned;
    report.kernel = tally_.kernel;
    report.read = tally_.read;
  }

  void publish(const std::vector<const GgufSource*>& sources, const std::string& folder) {
    for (const GgufSource* source : sources) {
      source->require_unchanged();
    }
    throw_if_stopped(options_.stop);
    for (const OutputFile& output : outputs_) {
      output.file->rename();
    }
    sync_folder(folder, write::kOutputErrors.folder);
    published_ = true;
  }

  ComposeReport report;

 private:
  void create(const std::string& target) {
    const ComposedFile& file = composition_.files[outputs_.size()];
    OutputFile output;
    output.first = outputs_.empty() ? 0
                                    : outputs_.back().first +
                                          composition_.files[outputs_.size() - 1].tensor_count;
    output.replaces = path_kind(target) != PathKind::kAbsent;
    output.file = std::make_unique<AtomicFile>(target, write::kOutputErrors,
                                               StaleTemporaries::kRemovedBefore);
    std::vector<gguf::TensorLayout> layout;
    for (std::size_t t = output.first; t < output.first + file.tensor_count; ++t) {
      layout.push_back(composition_.tensors[t].layout);
    }
    output.writer = std::make_unique<gguf::Writer>(*output.file, file.keys, std::move(layout));
    std::uint64_t file_bytes = output.writer->file_bytes();
    if (file.bare_end && file.tensor_count == 0) {
      file_bytes = output.writer->header_bytes();
      output.file->resize(file_bytes);
    }
    report.files.push_back(target);
    report.bytes += file_bytes;
    outputs_.push_back(std::move(output));
  }

  void fill(std::size_t first_file) {
    const std::vector<Task> list = tasks(first_file);
    std::vector<write::RangeCopier> copiers(threads(), write::RangeCopier(tally_, options_.stop));
    for_each_index(list.size(), copiers.size(),
                   [&](std::size_t worker, std::size_t i) { run(list[i], copiers[worker]); });
    for_each_index(outputs_.size() - first_file, threads(),
                   [&](std::size_t /*worker*/, std::size_t i) {
                     OutputFile& output = outputs_[first_file + i];
                     output.writer->finish();
                     output.writer.reset();
                     output.file->flush();
                   });
  }

  std::vector<Task> tasks(std::size_t first_file) const {
    std::vector<Task> tasks;
    for (std::size_t file = first_file; file < outputs_.size(); ++file) {
      for (std::size_t i = 0; i < composition_.files[file].tensor_count; ++i) {
        const std::size_t index = outputs_[file].first + i;
        const ComposedTensor& tensor = composition_.tensors[index];
        const std::uint64_t bytes = gguf::stored_bytes(tensor.layout);
        const bool whole = tensor.make || !tensor.sha256.empty() || bytes == 0;
        const std::uint64_t step = whole ? std::max<std::uint64_t>(bytes, 1) : kPieceBytes;
        for (std::uint64_t begin = 0; begin < std::max<std::uint64_t>(bytes, 1); begin += step) {
          tasks.push_back({index, file, begin, std::min(step, bytes - begin)});
        }
      }
    }
    return tasks;
  }

  void run(const Task& task, write::RangeCopier& copier) {
    throw_if_stopped(options_.stop);
    const ComposedTensor& tensor = composition_.tensors[task.tensor];
    if (tensor.make) {
      return make(task);
    }
    OutputFile& output = outputs_[task.file];
    const OrganTensor& from = tensor.source->tensors()[tensor.tensor];
    const input::Shard& file = tensor.source->files()[from.file];
    const auto source = tensor.source->opened(from.file);
    write::RangeCopy range;
    range.source = source.get();
    range.source_offset = from.offset + task.begin;
    range.file = output.file.get();
    range.file_offset = output.writer->place(task.tensor - output.first, task.begin, task.bytes);
    range.bytes = task.bytes;
    range.turn = output.turn.get();
    Sha256 digest;
    if (!copier.run(range, tensor.sha256.empty() ? nullptr : &digest)) {
      throw Stopped{};
    }
    if (!tensor.sha256.empty() && hex(digest.finish()) != tensor.sha256) {
      throw FormatError("E-ORGAN-DIGEST",
                        fmt::format("{}, tensor \"{}\"", printable(file.path), excerpt(from.name)),
                        kOtherBytes);
    }
  }

  void make(const Task& task) {
    gguf::Writer& writer = *outputs_[task.file].writer;
    const std::size_t place = task.tensor - outputs_[task.file].first;
    std::uint64_t given = 0;
    composition_.tensors[task.tensor].make(
        [&](std::uint64_t offset, std::span<const std::byte> bytes) {
          throw_if_stopped(options_.stop);
          writer.write(place, offset, bytes);
          given += bytes.size();
        });
    expects(given == task.bytes, "compose: a tensor that is made gives all its bytes");
  }

  std::size_t threads() const { return thread_count(kComposeThreadBytes, options_.threads); }

  const Composition& composition_;
  const ComposeOptions& options_;
  std::vector<OutputFile> outputs_;
  write::CopyTally tally_;
  bool published_ = false;
};

}  // namespace

std::vector<std::string> composed_paths(const std::string& target, std::size_t count) {
  if (count <= 1) {
    return {target};
  }
  const std::string name = file_name_of(target);
  const std::string folder = target.substr(0, target.size() - name.size());
  input::SplitName split;
  if (const auto given = input::parse_split_name(name)) {
    split.prefix = given->prefix;
  } else {
    split.prefix = name.ends_with(".gguf") ? name.substr(0, name.size() - 5) : name;
  }
  split.count = count;
  std::vector<std::string> paths;
  for (std::size_t i = 1; i <= count; ++i) {
    paths.push_back(folder + split.file_name(i));
  }
  return paths;
}

ComposeReport compose(const Composition& composition, const std::string& target,
                      const ComposeOptions& options) {
  check_tensors(composition);
  const std::vector<std::string> targets = composed_paths(target, composition.files.size());
  const std::vector<const GgufSource*> sources = sources_of(composition);
  refuse_inputs(targets, sources, options);
  for (const std::string& path : targets) {
    require_free_target(path, options.replace, "--force");
  }
  Assembly assembly(composition, options);
  try {
    assembly.write(targets);
    assembly.publish(sources, folder_of(targets.front()));
  } catch (const Stopped&) {
    ComposeReport stopped;
    stopped.stopped = true;
    return stopped;
  }
  return assembly.report;
}

}  // namespace vindex::organ
