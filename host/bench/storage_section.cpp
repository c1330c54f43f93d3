// Reading alone and the whole way end to end, from the page cache and from the disk.
#include "section.hpp"

#include <vindex/bench/weights.hpp>
#include <vindex/core/error.hpp>
#include <vindex/run/run_description.hpp>
#include <vindex/synth/synth.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>

namespace vindex::bench {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPiece = 8ULL << 20U;

/// A folder of its own, removed at the end.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& parent) {
    std::string pattern = (fs::path(parent) / "vindex-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw SystemError("E-SCRATCH", errno,
                        fmt::format("no folder can be made in {}", printable(parent)));
    }
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

/// The model that is read: what of it is the same for all matrices, and its files.
struct Source {
  std::string model;
  shard::ModelFiles files;
  std::vector<std::string> paths;
  std::uint64_t bytes = 0;  ///< of all files
  std::int64_t matrices = 0;
  std::uint64_t encoded_bytes = 0;  ///< of all matrices
  std::int64_t rows = 0, cols = 0;  ///< 0 where shapes differ
  std::string encoding;             ///< "mixed" where they differ
};

Source open_source(const std::string& model) {
  run::RunSettings settings;
  settings.model = model;
  run::SelectedModel opened = run::open_selected(settings);
  Source source;
  source.model = model;
  for (const std::int64_t index : opened.selected) {
    const auto& matrix = opened.index.matrices[static_cast<std::size_t>(index)];
    const bool is_first = source.matrices++ == 0;
    source.encoded_bytes += run::encoded_bytes(matrix);
    if (is_first) {
      source.rows = matrix.stored_rows();
      source.cols = matrix.stored_cols();
      source.encoding = matrix.encoding.label;
    } else {
      if (source.rows != matrix.stored_rows() || source.cols != matrix.stored_cols()) {
        source.rows = source.cols = 0;
      }
      if (source.encoding != matrix.encoding.label) {
        source.encoding = "mixed";
      }
    }
  }
  source.files = std::move(opened.files);
  for (const shard::Shard& shard : source.files.shards) {
    source.paths.push_back(shard.path);
    source.bytes += shard.source->size();
  }
  return source;
}

/// Seconds of reading every file whole by our reader, 8 MiB at a time.
double read_everything(const Source& source, int readers) {
  struct Piece {
    shard::ByteSource* from;
    std::uint64_t offset;
    std::size_t bytes;
  };
  std::vector<Piece> pieces;
  for (const shard::Shard& shard : source.files.shards) {
    const std::uint64_t size = shard.source->size();
    for (std::uint64_t offset = 0; offset < size; offset += kPiece) {
      pieces.push_back(
          {shard.source.get(), offset, static_cast<std::size_t>(std::min(kPiece, size - offset))});
    }
  }
  std::vector<std::vector<std::byte>> buffers(static_cast<std::size_t>(readers),
                                              std::vector<std::byte>(kPiece));
  std::atomic<std::size_t> next{0};
  return run_together(readers, [&](int reader) {
    const std::span<std::byte> buffer = buffers[static_cast<std::size_t>(reader)];
    for (std::size_t i = next++; i < pieces.size(); i = next++) {
      pieces[i].from->read(pieces[i].offset, buffer.first(pieces[i].bytes));
    }
  });
}

/// The two states of the page cache that a run can find.
enum class Cache : std::uint8_t { kResident, kDropped };

Row storage_row(const Section& section, const Source& source, const std::string& name,
                Cache cache) {
  return {.name = name,
          .route = cache == Cache::kResident ? "page-cache" : "disk",
          .backend = section.backend.info().name,
          .rows = source.rows,
          .cols = source.cols,
          .batch = source.matrices,
          .encoding = source.encoding};
}

/// The row "read" and the rate it reached.
double add_read_row(Section& section, const Source& source, Cache cache,
                    std::optional<double> limit) {
  const int readers = std::max(2, section.workers());
  Row row = storage_row(section, source, "read", cache);
  row.backend = "cpu";
  row.unit = "gb_per_s";
  row.limit = limit;
  row.samples = take_samples(section.settings.sampling, [&] {
    if (cache == Cache::kDropped) {
      (void)drop_from_page_cache(source.paths);
    }
    return 1e-9 * static_cast<double>(source.bytes) / read_everything(source, readers);
  });
  const double rate = best_of(row);
  section.add(std::move(row));
  return rate;
}

/// max(bytes / min(storage, bus), matrices x the spectra stage alone), in milliseconds per matrix.
std::optional<double> end_to_end_limit(Section& section, const Source& source,
                                       double storage_gb_per_s) {
  double rate = storage_gb_per_s;
  if (const auto bus = section.is_cuda() ? section.limits.bus_gb_per_s() : std::nullopt) {
    rate = std::min(rate, *bus);
  }
  const double bytes = 1e-6 * static_cast<double>(source.encoded_bytes) / rate /
                       static_cast<double>(source.matrices);
  if (source.rows == 0 || source.encoding == "mixed") {
    return bytes;
  }
  const SpectraCase alone{.mode = section.settings.mode,
                          .rows = source.rows,
                          .cols = source.cols,
                          .encoding = source.encoding,
                          .batch = std::min(section.backend.limits().batch, source.matrices)};
  try {
    const SpectraSamples samples = measure_case(section, alone);
    return std::max(bytes, *std::min_element(samples.total.begin(), samples.total.end()));
  } catch (const UsageError&) {
    return bytes;  // an encoding that is only read: its spectra stage cannot be had alone
  }
}

void add_end_to_end_row(Section& section, const Source& source, const std::string& results,
                        Cache cache, std::optional<double> limit) {
  const BenchSettings& settings = section.settings;
  run::RunSettings run_settings;
  run_settings.model = source.model;
  run_settings.output = results;
  run_settings.options.mode = settings.mode;
  run_settings.backend = section.is_cuda() ? run::BackendChoice::kCuda : run::BackendChoice::kCpu;
  run_settings.devices = settings.devices;
  run_settings.threads = settings.threads;
  run_settings.restart = true;
  run_settings.command = settings.command;
  run::RunHooks hooks;
  hooks.stop_signal = settings.sampling.stop_signal;
  Row row = storage_row(section, source, "end_to_end", cache);
  row.route += ", " + run::mode_name(settings.mode);
  row.unit = "ms_per_matrix";
  row.limit = limit;
  bool stopped = false;
  try {
    row.samples = take_samples(settings.sampling, [&] {
      if (cache == Cache::kDropped) {
        (void)drop_from_page_cache(source.paths);
      }
      const double start = wall_seconds();
      const run::RunOutcome outcome = run::measure_model(run_settings, hooks);
      const double seconds = wall_seconds() - start;
      stopped = stopped || outcome.stopped;
      if (!outcome.stopped && outcome.exit_code != ExitCode::kOk) {
        throw Error(outcome.exit_code, "E-BENCH", "end to end: " + outcome.first_failure_reason);
      }
      return 1e3 * seconds / static_cast<double>(source.matrices);
    });
  } catch (const std::exception& error) {
    section.add_failure(row, error.what());
    return;
  }
  if (!stopped && !row.samples.empty()) {
    section.add(std::move(row));
  }
}

}  // namespace

void storage_section(Section& section) {
  const BenchSettings& settings = section.settings;
  const ScratchFolder scratch(settings.folder);
  std::string model = settings.model;
  if (model.empty()) {
    model = scratch.file("model");
    section.say(fmt::format("writing {} to {}", settings.synth_spec, printable(model)));
    synth::make_model(settings.synth_spec, 1, model);
  }
  const Source source = open_source(model);
  const double copy = section.limits.memcpy_gb_per_s(std::max(2, section.workers()));
  const bool has_disk = drop_from_page_cache(source.paths);
  std::optional<double> disk;
  if (has_disk) {
    Row row = disk_row(source.paths, std::max(8, section.workers()), settings.sampling);
    if (!row.samples.empty()) {
      disk = best_of(row);
    }
    section.add(std::move(row));
  } else {
    section.say("the page cache keeps these files (a file system in memory?): no disk rows");
  }
  for (const Cache cache : {Cache::kDropped, Cache::kResident}) {
    if ((cache == Cache::kDropped && !has_disk) || settings.sampling.stopped()) {
      continue;
    }
    double rate = cache == Cache::kDropped ? disk.value_or(copy) : copy;
    if (settings.sections.read) {
      const double read = add_read_row(section, source, cache,
                                       cache == Cache::kDropped ? disk : std::optional(copy));
      rate = cache == Cache::kDropped && !disk ? read : rate;
    }
    if (settings.sections.end_to_end && !settings.sampling.stopped()) {
      add_end_to_end_row(section, source, scratch.file("results.h5"), cache,
                         end_to_end_limit(section, source, rate));
    }
  }
}

}  // namespace vindex::bench
