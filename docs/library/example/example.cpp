// Measures a model and one of its matrices: example MODEL RESULTS.h5
#include <vindex/vindex.hpp>

#include <cmath>
#include <cstdio>
#include <stop_token>
#include <vector>

namespace {

int run(const char* address, const char* results_path) {
  // Headers are read, no weights.
  const vindex::Model model = vindex::open(address);
  std::printf("%zu matrices\n", model.matrices().size());

  // One matrix: its weights, its spectrum, and what noise of its shape gives.
  const vindex::Matrix& matrix = model.matrices().front();
  const std::vector<float> weights = model.decode(matrix);
  const vindex::Spectrum spectrum = vindex::spectrum(weights, matrix.rows, matrix.cols);
  const vindex::Null noise = vindex::null(matrix.rows, matrix.cols);
  std::printf("%s: s_1 %.4f, stable rank %.2f, of noise %.2f\n",
              vindex::printable(matrix.tensor).c_str(), spectrum.sigma.front(),
              spectrum.figures["stable_rank"], noise.figures["stable_rank"]);

  // All of them, into a file. A program with a button "stop" calls stop.request_stop(): what is
  // finished is in the file, and the same call goes on from there.
  std::stop_source stop;
  vindex::Hooks hooks;
  hooks.stop = stop.get_token();
  hooks.message = [](std::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  };
  hooks.progress = [](const vindex::Progress& at) {
    std::fprintf(stderr, "%lld of %lld\n", static_cast<long long>(at.done),
                 static_cast<long long>(at.total));
  };
  const vindex::Outcome outcome = vindex::measure(model, results_path, {.backend = "cpu"}, hooks);
  if (outcome.exit_code != vindex::ExitCode::kOk) {
    return static_cast<int>(outcome.exit_code);
  }

  // The file again, by names of columns.
  const vindex::Results results = vindex::read(results_path);
  const std::vector<double> rank = results.column<double>("stable_rank");
  const std::vector<double> null = results.column<double>("stable_rank_null");
  std::int64_t structured = 0;
  for (std::int64_t row = 0; row < results.size(); ++row) {
    structured += rank[row] < 0.95 * null[row] ? 1 : 0;
  }
  std::printf("%s: %lld of %lld matrices are no noise\n", results.status().c_str(),
              static_cast<long long>(structured), static_cast<long long>(results.size()));

  // Its rows are those of model.matrices(), so the first one is of the matrix above.
  const double difference = results.spectrum(0).front() - spectrum.sigma.front();
  return std::abs(difference) <= 2 * spectrum.sigma_error ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return argc == 3 ? run(argv[1], argv[2]) : 64;
  } catch (const vindex::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());  // "E-...: what, where, what to do"
    return static_cast<int>(error.exit_code());
  }
}
