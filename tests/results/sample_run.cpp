// Owns the description of that model, its rows, and their measurement into a file.
#include "sample_run.hpp"

#include "statistics/null/nulls.hpp"
#include "statistics/spectrum/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace vindex::results::testing {

namespace {

void add_matrix(RunDescription& run, const std::string& name, std::int32_t layer,
                std::int32_t expert, model::Block block, const std::string& role, std::int64_t rows,
                std::int64_t cols) {
  model::MatrixRecord matrix;
  matrix.tensor = name;
  matrix.layer = layer;
  matrix.expert = expert;
  matrix.block = block;
  matrix.role = role;
  matrix.shard = "model-00001-of-00001.safetensors";
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.encoding.label = "BF16";
  matrix.tensor_record = static_cast<std::int32_t>(run.tensors.size());
  run.matrices.push_back(matrix);
  model::TensorRecord tensor;
  tensor.name = name;
  tensor.block = block;
  tensor.role = role;
  tensor.layer = layer;
  tensor.shape = {rows, cols};
  tensor.encoding = "BF16";
  tensor.count = rows * cols;
  tensor.in_matrix = true;
  run.tensors.push_back(tensor);
  run.tensor_stored_names.push_back(name);
}

}  // namespace

RunDescription sample_run(const SampleOptions& options) {
  RunDescription run;
  run.model = "sample";
  run.mode = options.mode;
  run.backend = "cpu";
  run.store_spectra = options.spectra;
  run.sign_flip_draws = options.sign_flip_draws;
  run.vectors = options.vectors;
  run.fingerprint = {{"model.bytes", "4096"}, {"program.numeric", "1"}};
  run.command_json = R"(["vindex","measure","sample"])";
  run.settings_json = R"({"mode":"default"})";
  run.inputs_json = R"([{"path":"sample"}])";
  run.environment_json = R"({"version":"0.1.0"})";
  run.config_json = R"({"layers":2,"experts":3,"experts_per_token":2})";
  run.title = "Singular-value spectra of sample";
  run.history = "vindex measure sample";
  for (std::int32_t layer = 0; layer < options.layers; ++layer) {
    const std::string base = fmt::format("model.layers.{}.mlp", layer);
    add_matrix(run, base + ".gate.weight", layer, -1, model::Block::kRouter, "router", 8,
               options.cols);
    for (const char* role : {"gate_proj", "down_proj"}) {
      const bool down = std::string(role) == "down_proj";
      for (std::int32_t expert = 0; expert < options.experts; ++expert) {
        add_matrix(run, fmt::format("{}.experts.{}.{}.weight", base, expert, role), layer, expert,
                   model::Block::kRoutedExpert, role, down ? options.rows : options.cols,
                   down ? options.cols : options.rows);
      }
    }
  }
  model::TensorRecord norm;
  norm.name = "model.norm.weight";
  norm.block = model::Block::kNorm;
  norm.role = "norm";
  norm.shape = {options.cols};
  norm.encoding = "F32";
  norm.count = options.cols;
  norm.reason = "1-D";
  run.tensors.push_back(norm);
  run.tensor_stored_names.push_back(norm.name);
  run.sampled = options.sampled;
  if (run.sampled) {
    run.tensor_samples.resize(run.tensors.size());
    for (TensorSample& sample : run.tensor_samples) {
      sample.organ_class = "organ";
    }
    std::vector<float> values = {1.0F, 2.0F, 4.0F, 8.0F, 16.0F};
    run.tensor_samples.back() = {.organ_class = "norm",
                                 .angles = statistics::sample_angles(values, true),
                                 .missing = "a remark",
                                 .scales = {-0.5, 0.001, 0.25, 0.125, 0.0625, 0.5, 0.75},
                                 .scales_missing = "another"};
  }
  return run;
}

RunDescription weighted_run(const SampleOptions& options) {
  RunDescription run = sample_run(options);
  const std::vector<model::MatrixRecord> matrices = run.matrices;
  for (const model::MatrixRecord& matrix : matrices) {
    if (matrix.role == "down_proj") {
      run.matrices.push_back(matrix);
      run.matrices.back().table = model::ResultTable::kImatrix;
    }
  }
  run.fingerprint.emplace_back("derived.imatrix", "sha256 1");
  return run;
}

ResultRow sample_row(const RunDescription& run, std::int64_t index) {
  const model::MatrixRecord& matrix = run.matrices.at(static_cast<std::size_t>(index));
  const std::int64_t p = std::min(matrix.rows, matrix.cols);
  const bool fast = run.mode == "fast";
  MatrixReport report;
  report.status = MatrixStatus::kMeasured;
  const double decay = 0.2 + 0.01 * static_cast<double>(index % 29);
  double norm = 0.0;
  for (std::int64_t i = 0; i < p; ++i) {
    const double sigma = 3.0 * std::pow(static_cast<double>(i + 1), -decay);
    norm += sigma * sigma;
    if (!fast || i < 64) {
      report.sigma.push_back(sigma);
    }
  }
  decode::Moments& moments = report.moments;
  moments.count = matrix.rows * matrix.cols;
  moments.sum_squares = norm;
  moments.mean = 1e-4 * static_cast<double>(index + 1);
  moments.m2 = norm - static_cast<double>(moments.count) * moments.mean * moments.mean;
  moments.m4 = 3.0 * moments.m2 * moments.m2 / static_cast<double>(moments.count);
  moments.min = -1.0 - static_cast<double>(index);
  moments.max = 1.0;
  moments.zeros = index;
  report.method = "gram32+trd32+cpu";
  ResultRow row;
  row.index = index;
  row.status = report.status;
  row.method = report.method;
  commands::SpectrumNumbers numbers;
  numbers.values =
      statistics::derive_metrics(matrix.rows, matrix.cols, report,
                                 fast ? SpectrumMode::kFast : SpectrumMode::kDefault, row.reason);
  static statistics::NullCache nulls;
  numbers.nulls = nulls.of(matrix.rows, matrix.cols);
  row.sigma = report.sigma;
  numbers.set_moments(moments);
  if (run.sampled && index % 7 != 6) {
    std::vector<float> values;
    for (int i = 0; i < 50; ++i) {
      values.push_back(static_cast<float>(std::pow(i, 1.0 + 0.1 * static_cast<double>(index))));
    }
    numbers.set_sample(statistics::sample_angles(values, false));
    statistics::ScaleFigures scales = statistics::scale_nulls(4096);
    scales.z_modulus = 0.01 * static_cast<double>(index);
    scales.csci = -0.02 * static_cast<double>(index);
    numbers.set_scales(scales);
  }
  row.escalated = index % 5 == 4;
  numbers.sigma_error = 1e-7 * static_cast<double>(index + 1);
  if (run.sign_flip_draws > 0) {
    numbers.sign_flip.var_at_k.fill(0.25);
    numbers.sign_flip.rand_distance = fast ? std::nan("") : 0.125;
    if (run.sign_flip_draws > 1) {
      numbers.sign_flip.var_at_k_spread.fill({0.25, 0.01, -1.5});
      numbers.sign_flip.stable_rank = {9.0, 0.5, 2.0 + static_cast<double>(index)};
    }
  }
  if (fast) {
    numbers.var_at_k_lower.fill(0.1);
    numbers.var_at_k_upper.fill(0.2);
    numbers.stable_rank_lower = 1.0;
    numbers.stable_rank_upper = 2.0;
  }
  if (run.vectors > 0) {
    SingularVectors& vectors = row.vectors.emplace();
    vectors.count = static_cast<std::int32_t>(std::min<std::int64_t>(run.vectors, p));
    const auto k = static_cast<std::size_t>(vectors.count);
    vectors.right.assign(k * static_cast<std::size_t>(matrix.cols),
                         0.5F + static_cast<float>(index));
    vectors.left.assign(k * static_cast<std::size_t>(matrix.rows), 0.25F);
    vectors.sigma.assign(report.sigma.begin(), report.sigma.begin() + vectors.count);
    vectors.residual.assign(k, 1e-6);
    vectors.gap.assign(k, 0.1);
  }
  row.cells = commands::spectra_cells(numbers);
  return row;
}

commands::SpectrumNumbers sample_numbers(const RunDescription& run, std::int64_t index) {
  return commands::spectrum_numbers(sample_row(run, index).cells);
}

TestFolder::TestFolder() {
  // In memory where that is to be had: most of a small test is waiting for fsync.
  const std::filesystem::path base = std::filesystem::is_directory("/dev/shm")
                                         ? std::filesystem::path("/dev/shm")
                                         : std::filesystem::temp_directory_path();
  std::string name = base / "vindex_results_XXXXXX";
  path_ = mkdtemp(name.data());
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void measure_rows(RunStore& store, const RunDescription& run, std::int64_t first,
                  std::int64_t last) {
  for (std::int64_t i = first; i < last; ++i) {
    store.add(sample_row(run, i));
  }
}

void write_sample(const std::string& path, const RunDescription& run) {
  const auto store = open_run_store(path, run, {}, false);
  measure_rows(*store, run, 0, static_cast<std::int64_t>(run.matrices.size()));
  store->publish_file();
}

}  // namespace vindex::results::testing
