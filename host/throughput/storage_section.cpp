// Owns the section on storage: reading alone and the whole way end to end, from the page cache and
// from the disk.
#include "encoded_weights.hpp"
#include "section.hpp"

#include "commands/spectra/measure_run.hpp"
#include "commands/spectra/spectrum_plan.hpp"
#include "core/process/parallel.hpp"
#include "engine/run/description_parts.hpp"
#include "engine/run/opening.hpp"
#include "engine/units/bounded_queue.hpp"
#include "input/bulk/bulk_reader.hpp"
#include "input/bulk/read_extent.hpp"
#include "input/bulk/read_statistics.hpp"
#include "input/local/page_residency.hpp"
#include "synth/make_model.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace vindex::throughput {

namespace {

constexpr std::uint64_t kReadPiece = 8ULL << 20U;

/// The model that is read: what of it is the same for all matrices, and its files.
struct Source {
  std::string model;
  input::ModelFiles files;
  std::vector<std::string> paths;
  std::uint64_t bytes = 0;  ///< of all files
  std::int64_t matrices = 0;
  std::uint64_t encoded_bytes = 0;  ///< of all matrices
  std::int64_t rows = 0, cols = 0;  ///< 0 where shapes differ
  std::string encoding;             ///< "mixed" where they differ
  std::string spectrum;             ///< of a synthetic layer; empty where it is not known
};

Source open_source(const std::string& model) {
  engine::RunSettings settings;
  settings.model = model;
  engine::SelectedModel opened = engine::open_selected(settings);
  Source source;
  source.model = model;
  for (const std::int64_t index : opened.selected) {
    const auto& matrix = opened.index.matrices[static_cast<std::size_t>(index)];
    const bool is_first = source.matrices++ == 0;
    source.encoded_bytes += commands::encoded_bytes(matrix);
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
  for (const input::Shard& shard : source.files.shards) {
    source.paths.push_back(shard.path);
    source.bytes += shard.source->size();
  }
  return source;
}

/// Kind of the spectra of `spec`: a layer has one, by its last word.
std::string spectrum_of(const std::string& spec) {
  const auto known = known_spectra();
  const auto found = std::find(known.begin(), known.end(), spec.substr(spec.rfind(':') + 1));
  return found != known.end() ? *found : spec.starts_with("layer:") ? "noise" : "";
}

/// Memory for one piece that direct reads accept.
using PieceBuffer = std::unique_ptr<std::byte, decltype(&std::free)>;

struct Reading {
  double seconds = 0.0;
  std::string text;  ///< reading_text()
};

/// Reads every file whole by the reader of a run, 8 MiB at a time, as many pieces in flight as it
/// takes.
Reading read_everything(const Source& source, input::ReadPath path, int threads) {
  input::BulkReader reader({.path = path, .threads = threads});
  const int in_flight = std::max(input::kDefaultDepth, 2 * threads);
  engine::BoundedQueue<std::byte*> free_buffers(static_cast<std::size_t>(in_flight));
  std::vector<PieceBuffer> buffers;
  for (int i = 0; i < in_flight; ++i) {
    void* memory = std::aligned_alloc(input::kDirectAlignment, kReadPiece);
    if (memory == nullptr) {
      throw OutOfMemory("a buffer to read into", kReadPiece);
    }
    // Touched before the clock starts, as a ring's memory is.
    std::memset(memory, 0, kReadPiece);
    buffers.emplace_back(static_cast<std::byte*>(memory), &std::free);
    free_buffers.push(buffers.back().get());
  }
  std::mutex mutex;
  std::exception_ptr first_error;
  const double start = wall_seconds();
  for (const input::Shard& shard : source.files.shards) {
    const std::uint64_t size = shard.source->size();
    for (std::uint64_t offset = 0; offset < size; offset += kReadPiece) {
      std::byte* const into = free_buffers.pop().value();
      const input::ByteRange range = {shard.source.get(), offset,
                                      std::min(kReadPiece, size - offset)};
      reader.submit({{range, into, true}}, [&, into](const std::exception_ptr& error) {
        if (error != nullptr) {
          const std::lock_guard lock(mutex);
          first_error = error;
        }
        free_buffers.push(into);
      });
    }
  }
  for (int i = 0; i < in_flight; ++i) {
    (void)free_buffers.pop();
  }
  const double seconds = wall_seconds() - start;
  if (first_error != nullptr) {
    std::rethrow_exception(first_error);
  }
  return {seconds, input::reading_text(reader.statistics(), reader.engine())};
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
          .encoding = source.encoding,
          .spectrum = name == "end_to_end" ? source.spectrum : ""};
}

/// Threads that copy: as many as the reader of such a run has.
int reader_threads(const Section& section) {
  return section.is_cuda() ? std::clamp(usable_cores(), 4, 16) : std::max(2, section.workers());
}

/// What the reader is told of all files, piece by piece: "700 in the page cache, 0 not, ...".
std::string told_of_pieces(const Source& source) {
  std::map<input::Residency, int> count;
  for (const input::Shard& shard : source.files.shards) {
    const std::uint64_t size = shard.source->size();
    for (std::uint64_t offset = 0; offset < size; offset += kReadPiece) {
      ++count[input::page_residency(shard.source->descriptor(), offset,
                                    std::min(kReadPiece, size - offset))];
    }
  }
  using enum input::Residency;
  return fmt::format(
      "the reader is told of pieces of 8 MiB: {} in the page cache, {} not, {} to be written, {} "
      "unknown",
      count[kResident], count[kAbsent], count[kDirty], count[kUnknown]);
}

/// Brings about a state of the page cache. What direct reads have read is not in it.
void set_cache(const Section& section, const Source& source, Cache cache) {
  if (cache == Cache::kDropped) {
    (void)drop_from_page_cache(source.paths);
  } else {
    (void)read_everything(source, input::ReadPath::kBuffered, reader_threads(section));
  }
}

/// Whether the state is there, by mincore and by what the reader asks: where they differ the
/// reader chooses by timed reads alone, and where mincore finds less there is too little memory.
void add_cache_row(Section& section, const Source& source, Cache cache) {
  Row row = storage_row(section, source, "probe.page_cache", cache);
  row.backend = "cpu";
  row.unit = "share";
  row.limit = cache == Cache::kResident ? std::optional(1.0) : std::nullopt;
  row.note = told_of_pieces(source);
  if (const auto share = resident_share(source.paths)) {
    row.samples = {*share};
  }
  section.add(std::move(row));
}

/// The row "read" by one way of reading, and the rate it reached.
double add_read_row(Section& section, const Source& source, Cache cache, input::ReadPath path,
                    std::optional<double> limit) {
  Row row = storage_row(section, source, "read", cache);
  row.backend = "cpu";
  row.route += path == input::ReadPath::kBuffered ? ", buffered" : "";
  row.unit = "gb_per_s";
  row.limit = limit;
  row.samples = take_samples(section.settings.sampling, [&] {
    if (cache == Cache::kDropped) {
      (void)drop_from_page_cache(source.paths);
    }
    Reading reading = read_everything(source, path, reader_threads(section));
    row.note = std::move(reading.text);
    return 1e-9 * static_cast<double>(source.bytes) / reading.seconds;
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
                          .spectrum = source.spectrum.empty() ? "noise" : source.spectrum,
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
  commands::SpectraSettings measuring;
  engine::RunSettings& run_settings = measuring.run;
  run_settings.model = source.model;
  run_settings.output = results;
  run_settings.options.mode = settings.mode;
  run_settings.backend =
      section.is_cuda() ? engine::BackendChoice::kCuda : engine::BackendChoice::kCpu;
  run_settings.devices = settings.devices;
  run_settings.threads = settings.threads;
  run_settings.ram_budget = settings.ram_budget;
  run_settings.restart = true;
  run_settings.provenance.command = settings.command;
  engine::RunHooks hooks;
  hooks.stop = settings.sampling.stop;
  Row row = storage_row(section, source, "end_to_end", cache);
  row.route += ", " + engine::mode_name(settings.mode);
  row.unit = "ms_per_matrix";
  row.limit = limit;
  bool stopped = false;
  std::vector<engine::RunOutcome> outcomes;
  try {
    row.samples = take_samples(settings.sampling, [&] {
      if (cache == Cache::kDropped) {
        (void)drop_from_page_cache(source.paths);
      }
      const double start = wall_seconds();
      const engine::RunOutcome outcome = commands::measure_model(measuring, hooks);
      const double seconds = wall_seconds() - start;
      stopped = stopped || outcome.stopped;
      if (!outcome.stopped && outcome.exit_code != ExitCode::kOk) {
        throw Error(outcome.exit_code, "E-BENCH", "end to end: " + outcome.first_failure_reason);
      }
      row.note = input::reading_text(outcome.reading, outcome.reading_engine);
      outcomes.push_back(outcome);
      return 1e3 * seconds / static_cast<double>(source.matrices);
    });
  } catch (const std::exception& error) {
    section.add_failure(row, error.what());
    return;
  }
  if (stopped || row.samples.empty()) {
    return;
  }
  const Row whole = row;
  section.add(std::move(row));
  // Its parts; the first outcome is the warm-up's.
  const auto add_part = [&](const std::string& name, const std::string& unit, auto&& value) {
    Row part = whole;
    part.name = name;
    part.unit = unit;
    part.limit.reset();
    part.note.clear();
    part.samples.clear();
    for (std::size_t i = 1; i < outcomes.size(); ++i) {
      part.samples.push_back(value(outcomes[i]));
    }
    section.add(std::move(part));
  };
  using Outcome = engine::RunOutcome;
  add_part("probe.start", "seconds", [](const Outcome& one) { return one.begun_seconds; });
  add_part("probe.work", "ms_per_matrix", [&](const Outcome& one) {
    return 1e3 * (one.last_row_seconds - one.begun_seconds) / static_cast<double>(source.matrices);
  });
  add_part("probe.publish", "seconds",
           [](const Outcome& one) { return one.seconds - one.last_row_seconds; });
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
  Source source = open_source(model);
  if (settings.model.empty()) {
    source.spectrum = spectrum_of(settings.synth_spec);
  }
  const double copy = section.limits.memcpy_gb_per_s(reader_threads(section));
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
    set_cache(section, source, cache);
    add_cache_row(section, source, cache);
    double rate = cache == Cache::kDropped ? disk.value_or(copy) : copy;
    if (settings.sections.read) {
      const auto limit = cache == Cache::kDropped ? disk : std::optional(copy);
      const double read = add_read_row(section, source, cache, input::ReadPath::kAuto, limit);
      // What the choice saves, or costs.
      add_read_row(section, source, cache, input::ReadPath::kBuffered, limit);
      rate = cache == Cache::kDropped && !disk ? read : rate;
    }
    if (settings.sections.end_to_end && !settings.sampling.stopped()) {
      add_end_to_end_row(section, source, scratch.file("results.h5"), cache,
                         end_to_end_limit(section, source, rate));
    }
  }
}

}  // namespace vindex::throughput
