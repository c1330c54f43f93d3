// The command bench: flags to cases, a table or one JSON document on standard output.
#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/options/values.hpp"
#include "apps/process/arithmetic_environment.hpp"
#include "apps/process/stop_signals.hpp"
#include "throughput/encoded_weights.hpp"
#include "throughput/run_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <unistd.h>

namespace vindex::apps {

namespace {

struct BenchFlags {
  std::vector<std::string> sections, shapes, encodings, modes, routes, spectra;
  std::vector<std::int64_t> batches;
  BackendFlags backend;
  std::string model, folder, synth, simd;
  std::int32_t threads = 0;
  std::int64_t tensors = 207'360;
  int samples = 3;
  double case_seconds = 10.0;
  bool json = false;
};

struct Shape {
  std::int64_t rows = 0, cols = 0;
};

Shape parse_shape(const std::string& text) {
  Shape shape;
  long long rows = 0;
  long long cols = 0;
  int end = 0;
  if (std::sscanf(text.c_str(), "%7lldx%7lld%n", &rows, &cols, &end) != 2 ||
      static_cast<std::size_t>(end) != text.size() || rows < 2 || cols < 2) {
    throw UsageError(
        "E-SHAPE", fmt::format("`{}` is not a shape; write ROWSxCOLS, as stored", printable(text)));
  }
  shape.rows = rows;
  shape.cols = cols;
  return shape;
}

/// What two cores measure in about two minutes: weights as training leaves them, then noise.
std::vector<throughput::SpectraCase> usual_cases() {
  return {{SpectrumMode::kDefault, 7168, 2048, "BF16", "trained"},
          {SpectrumMode::kDefault, 4096, 4096, "BF16", "trained"},
          {SpectrumMode::kDefault, 768, 2048, "BF16", "trained"},
          {SpectrumMode::kFast, 7168, 2048, "BF16", "trained"},
          {SpectrumMode::kStrict, 7168, 2048, "BF16", "trained"},
          {SpectrumMode::kDefault, 7168, 2048, "BF16", "noise"},
          {SpectrumMode::kDefault, 4096, 4096, "BF16", "noise"},
          {SpectrumMode::kDefault, 768, 2048, "BF16", "noise"},
          {SpectrumMode::kDefault, 7168, 2048, "F8_E4M3/128x128", "noise"},
          {SpectrumMode::kDefault, 2048, 7168, "F8_E4M3/128x128", "noise"},
          {SpectrumMode::kFast, 7168, 2048, "BF16", "noise"},
          {SpectrumMode::kStrict, 7168, 2048, "BF16", "noise"},
          {SpectrumMode::kStrict, 4096, 4096, "BF16", "noise"}};
}

/// The spectra of a mode where none was asked for.
std::vector<std::string> usual_spectra(const std::string& mode) {
  return mode == "default" ? std::vector<std::string>{"trained", "noise"}
                           : std::vector<std::string>{"noise"};
}

template <typename T>
std::vector<T> or_else(const std::vector<T>& given, std::vector<T> otherwise) {
  return given.empty() ? otherwise : given;
}

/// Every combination of what was given, or the usual cases where nothing was.
std::vector<throughput::SpectraCase> cases_of(const BenchFlags& flags) {
  const bool is_usual = flags.shapes.empty() && flags.encodings.empty() && flags.modes.empty();
  std::vector<throughput::SpectraCase> cases =
      is_usual ? usual_cases() : std::vector<throughput::SpectraCase>();
  if (!is_usual) {
    for (const std::string& mode : or_else(flags.modes, {"default"})) {
      for (const std::string& text : or_else(flags.shapes, {"7168x2048", "2048x7168"})) {
        const Shape shape = parse_shape(text);
        for (const std::string& encoding : or_else(flags.encodings, {"F8_E4M3/128x128"})) {
          for (const std::string& spectrum : or_else(flags.spectra, usual_spectra(mode))) {
            cases.push_back({mode_of(mode), shape.rows, shape.cols, encoding, spectrum});
          }
        }
      }
    }
  }
  std::vector<throughput::SpectraCase> all;
  for (const throughput::SpectraCase& one : cases) {
    if (!flags.spectra.empty() && std::find(flags.spectra.begin(), flags.spectra.end(),
                                            one.spectrum) == flags.spectra.end()) {
      continue;
    }
    for (const std::int64_t batch : or_else(flags.batches, {0})) {
      for (const std::string& route : or_else(flags.routes, {"auto"})) {
        all.push_back(one);
        all.back().batch = batch;
        all.back().route = route;
      }
    }
  }
  return all;
}

throughput::BenchSettings bench_settings(const BenchFlags& flags, const Session& session) {
  throughput::BenchSettings settings;
  const auto wants = [&](const char* section) {
    return flags.sections.empty() ||
           std::find(flags.sections.begin(), flags.sections.end(), section) != flags.sections.end();
  };
  settings.sections = {.read = wants("read"),
                       .decode = wants("decode"),
                       .spectra = wants("spectra"),
                       .end_to_end = wants("end-to-end"),
                       .index = wants("index")};
  settings.index_tensors = flags.tensors;
  settings.cases = cases_of(flags);
  settings.decode_encodings =
      or_else(flags.encodings, {"F32", "BF16", "F16", "F8_E4M3/128x128", "INT4/g32", "Q8_0", "Q4_0",
                                "Q4_K", "Q6_K", "IQ4_XS", "MXFP4"});
  if (!flags.shapes.empty()) {
    const Shape shape = parse_shape(flags.shapes.front());
    settings.decode_rows = shape.rows;
    settings.decode_cols = shape.cols;
  }
  settings.simd_level = flags.simd;
  settings.backend = engine::backend_choice(flags.backend.backend).value();
  settings.devices = parse_devices(flags.backend.device);
  settings.threads = flags.threads;
  settings.blas_core = blas_core_wish();
  settings.matrix_unit = wants_matrix_unit();
  settings.ram_budget = ram_budget_of(session, "").bytes;
  settings.sampling = {
      .samples = flags.samples, .case_seconds = flags.case_seconds, .stop = catch_stop_signals()};
  settings.model = flags.model;
  settings.synth_spec = flags.synth;
  settings.folder =
      flags.folder.empty() ? std::filesystem::temp_directory_path().string() : flags.folder;
  settings.mode = flags.modes.empty() ? SpectrumMode::kDefault : mode_of(flags.modes.front());
  settings.command = session.arguments;
  return settings;
}

/// Why a report is not whole: its first row with a note instead of samples.
std::string failure_text(const throughput::Report& report) {
  const auto failed = [](const throughput::Row& row) {
    return row.samples.empty() && !row.note.empty();
  };
  const auto first = std::find_if(report.rows.begin(), report.rows.end(), failed);
  expects(first != report.rows.end(), "a failed bench without a failed row");
  const auto all = std::count_if(report.rows.begin(), report.rows.end(), failed);
  return fmt::format("E-BENCH: {} {}x{} {}{}: not measured: {}{}", first->name, first->rows,
                     first->cols, first->encoding,
                     first->spectrum.empty() ? "" : ", " + first->spectrum, first->note,
                     all == 1 ? std::string() : fmt::format("; {} more such rows", all - 1));
}

}  // namespace

void add_bench(Command& app, Session& session) {
  auto flags = std::make_shared<BenchFlags>();
  flags->synth = "layer:12x7168x2048:fp8";
  Command& command = app.add_command(
      "bench",
      "Measure speed on this machine: reading, decoding, spectra\n\nExamples:\n"
      "  vindex bench                          a few minutes on two cores\n"
      "  vindex bench --sections spectra --shapes 7168x2048 --modes default,strict\n"
      "  vindex bench --sections spectra --spectra trained --encodings BF16\n"
      "  vindex bench --backend cuda --sections spectra --batch 1,384 --json > s.json\n"
      "  vindex bench --sections read,end-to-end --model MODEL\n"
      "  vindex bench --sections decode --encodings Q4_K,Q6_K\n"
      "Rates stand beside the limits of this machine, taken in the same run.");
  command.add_value("--sections", flags->sections, "read, decode, spectra, end-to-end, index; all")
      ->delimiter(',')
      ->check(CLI::IsMember({"read", "decode", "spectra", "end-to-end", "index"}));
  command.add_value("--shapes", flags->shapes, "ROWSxCOLS as stored")->delimiter(',');
  command
      .add_value("--encodings", flags->encodings, "BF16, F8, INT4, Q8_0, ...; decode also `all`")
      ->delimiter(',');
  command.add_value("--modes", flags->modes, "fast, default, strict")
      ->delimiter(',')
      ->check(CLI::IsMember({"fast", "default", "strict"}));
  command
      .add_value("--spectra", flags->spectra,
                 "Kinds of spectrum: trained, noise, powerlaw, spiked, rowscale, geometric, "
                 "steep, cluster, "
                 "dead; trained and noise for the mode default, else noise")
      ->delimiter(',')
      ->check(CLI::IsMember(throughput::known_spectra()));
  command.add_value("--routes,--svd-route", flags->routes, "auto, library, ...: SVD routes")
      ->delimiter(',');
  command
      .add_value("--batch", flags->batches, "Matrices per call; as many as the back end asks for")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536));
  add_backend_flags(command, flags->backend, "auto, cpu or cuda", "CUDA devices: all, N or N,N");
  command.add_value("--threads", flags->threads, "CPU workers, or calls to a GPU at once")
      ->check(CLI::Range(1, 4096));
  command.add_value("--samples", flags->samples, "Samples per case, after one warm-up")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  add_number(command, "--case-seconds", flags->case_seconds,
             "No sample of a case begins after these seconds", {.min = 0.001})
      ->capture_default_str();
  command.add_value("--simd", flags->simd, "Decoders for baseline, avx2 or avx512; the best here");
  command.add_input("--model", flags->model, "Index, read and measure this model end to end");
  command.add_value("--tensors", flags->tensors, "Stored tensors of the model that is indexed")
      ->check(CLI::Range(3, 10'000'000))
      ->capture_default_str();
  command
      .add_value("--synth", flags->synth, "What to write and measure end to end without --model")
      ->capture_default_str();
  command.add(ValueKind::kCaller, "--folder", flags->folder,
              "Where to write it; the folder for temporary files");
  command.add_flag("--json", flags->json, "One JSON document with every sample (vindex-bench/1)");
  command.runs(session, [&session, flags] {
    const throughput::BenchOutcome outcome =
        throughput::run_bench(bench_settings(*flags, session),
                              [&session](const std::string& line) { say(session, line); });
    print_result(flags->json ? throughput::report_json(outcome.report)
                             : throughput::report_table(outcome.report, text_width(STDOUT_FILENO)));
    if (outcome.stopped) {
      return stopped_early(fmt::format("{} rows are finished", outcome.report.rows.size()));
    }
    return outcome.failed ? Ending(ExitCode::kInternal, failure_text(outcome.report)) : Ending();
  });
}

}  // namespace vindex::apps
