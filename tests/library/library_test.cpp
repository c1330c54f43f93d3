// What the calls of the library give: the figures of the program, by the names of its columns, and
// its errors.
#include "library_fixture.hpp"

#include "tests/support/expect_error.hpp"

#include <cmath>
#include <limits>
#include <regex>
#include <set>

namespace vindex::testing {
namespace {

TEST_F(LibraryTest, DecodesWhatTheProgramWrites) {
  for (const char* spec : {"kimi-k2-mini", "kimi-k2-mini-int4", "kimi-k2-mini-q8_0"}) {
    const std::string path = folder_ / spec;
    ASSERT_EQ(run({"synth", spec, "-o", path, "-q"}).exit_code, 0);
    const Model model = open(path);
    std::set<std::pair<std::string, std::string>> kinds;
    for (const Matrix& matrix : model.matrices()) {
      if (!kinds.emplace(matrix.encoding, matrix.role).second) {
        continue;
      }
      const std::string out = folder_ / "decoded.f32";
      std::vector<std::string> arguments = {"decode", path, "--tensor", matrix.tensor,
                                            "-o",     out,  "--force"};
      if (matrix.slice >= 0) {
        arguments.insert(arguments.end(), {"--slice", std::to_string(matrix.slice)});
      }
      ASSERT_EQ(run(arguments).exit_code, 0) << matrix.tensor;
      const std::vector<float> values = model.decode(matrix);
      ASSERT_EQ(values.size(), static_cast<std::size_t>(matrix.rows * matrix.cols));
      EXPECT_EQ(
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)),
          file_text(out))
          << matrix.tensor << " " << matrix.encoding;
    }
    EXPECT_GT(kinds.size(), 5U) << spec;
  }
}

TEST_F(LibraryTest, SaysWhatIsStoredInputsFirst) {
  const std::string path = folder_ / "inputs_first.safetensors";
  write_safetensors(path, {noise_tensor("model.layers.0.mlp.experts.gate_up_proj", {2, 32, 96}, 1),
                           noise_tensor("model.layers.0.mlp.experts.down_proj", {2, 48, 32}, 2)});
  const Model model = open(path);
  EXPECT_EQ(model.matrices().size(), 4U);
  for (const Matrix& matrix : model.matrices()) {
    EXPECT_TRUE(matrix.transposed);
    EXPECT_EQ(std::pair(matrix.rows, matrix.cols),
              matrix.role == "down_proj" ? std::pair(std::int64_t{32}, std::int64_t{48})
                                         : std::pair(std::int64_t{96}, std::int64_t{32}));
  }
  EXPECT_FALSE(open(float_model()).matrices()[0].transposed);
}

TEST_F(LibraryTest, SpectraAreTheRowsThatMeasureStores) {
  const Model model = open(float_model());
  ASSERT_EQ(model.matrices().size(), 3U);
  const std::string path = folder_ / "out.h5";
  const Outcome outcome = measure(model, path, on_cpu_);
  EXPECT_EQ(outcome.exit_code, ExitCode::kOk);
  EXPECT_EQ(outcome.measured_now, 3);
  EXPECT_EQ(run({"validate", path}).exit_code, 0);

  const Results results = read(path);
  ASSERT_EQ(results.size(), 3);
  EXPECT_EQ(results.status(), "complete");
  EXPECT_EQ(results.attribute("backend"), "cpu");
  for (std::int64_t row = 0; row < results.size(); ++row) {
    const auto i = static_cast<std::size_t>(row);
    const Matrix& matrix = model.matrices()[i];
    EXPECT_EQ(results.rows()[i].tensor, matrix.tensor);
    EXPECT_EQ(results.rows()[i].encoding, matrix.encoding);
    const Spectrum found =
        spectrum(model.decode(matrix), matrix.rows, matrix.cols, {.backend = "cpu"});
    EXPECT_TRUE(same_bits(found.sigma, results.spectrum(row))) << matrix.tensor;
    EXPECT_EQ(found.status, results.column<std::string>("status")[i]);
    EXPECT_EQ(found.method, results.column<std::string>("method")[i]);
    EXPECT_EQ(found.reason, results.column<std::string>("reason")[i]);
    EXPECT_EQ(found.sigma_error, results.column<double>("sigma_error")[i]);
    EXPECT_EQ(found.backend, "cpu");
    for (const auto& [name, value] : found.figures.all()) {
      const double stored = results.column<double>(name)[i];
      EXPECT_TRUE(stored == value || (std::isnan(stored) && std::isnan(value)))
          << name << " " << stored << " " << value;
    }
    const Null noise = null(matrix.cols, matrix.rows);
    EXPECT_EQ(noise.figures["stable_rank"], found.figures["stable_rank_null"]);
    EXPECT_EQ(noise.figures["stable_rank_null"], found.figures["stable_rank_null"]);
  }
  EXPECT_EQ(measure(model, path, on_cpu_).done_before, 3);
}

TEST_F(LibraryTest, EveryMetricOfThePageHasItsName) {
  const std::string path = folder_ / "out.h5";
  measure(open(float_model()), path, on_cpu_);
  const Results results = read(path);
  const std::vector<std::string> names = results.columns();
  const std::set<std::string> columns(names.begin(), names.end());
  const std::set<std::string> no_metrics = {"sigma_error", "method", "reason", "status",
                                            "escalated"};
  const Spectrum of_noise = spectrum(std::vector<float>(64 * 80, 1.0F), 64, 80);
  const std::string page = file_text(std::string(VINDEX_SOURCE_DIR) + "/docs/measuring/metrics.md");
  const std::regex quoted("`([a-z0-9_]+)`");
  std::set<std::string> found;
  for (std::sregex_iterator at(page.begin(), page.end(), quoted), end; at != end; ++at) {
    const std::string name = (*at)[1];
    if (columns.contains(name) && !no_metrics.contains(name) && name.find("_k") != 6) {
      EXPECT_TRUE(of_noise.figures.has(name)) << name;
      if (columns.contains(name + "_null")) {
        EXPECT_TRUE(of_noise.figures.has(name + "_null")) << name;
        EXPECT_TRUE(null(64, 80).figures.has(name)) << name;
      }
      found.insert(name);
    }
  }
  EXPECT_GT(found.size(), 25U);
  for (const char* k : {"1", "2", "4", "8", "16", "32", "64", "128", "256"}) {
    const std::string name = std::string("var_at_") + k;
    EXPECT_TRUE(of_noise.figures.has(name) && of_noise.figures.has(name + "_null")) << name;
    EXPECT_EQ(results.column<double>(name).size(), 3U);
  }
  EXPECT_EQ(results.column<double>("var_at_k").size(), 27U);
  EXPECT_EQ(results.column<std::int32_t>("layer"), (std::vector<std::int32_t>{0, 1, 2}));
}

TEST_F(LibraryTest, SpectraOfUnusualWeights) {
  std::vector<float> weights(12, 1.0F);
  weights[5] = std::numeric_limits<float>::quiet_NaN();
  const Spectrum with_nan = spectrum(weights, 3, 4, {.backend = "cpu"});
  EXPECT_EQ(with_nan.status, "not_finite");
  EXPECT_FALSE(with_nan.reason.empty());
  EXPECT_TRUE(std::isnan(with_nan.figures["stable_rank"]));

  const Spectrum zero = spectrum(std::vector<float>(12), 3, 4, {.backend = "cpu"});
  EXPECT_EQ(zero.status, "measured");
  EXPECT_EQ(zero.sigma, std::vector<double>(3, 0.0));
  EXPECT_EQ(zero.reason, "zero matrix");

  const Spectrum fast =
      spectrum(noise_tensor("", {200, 100}, 1).values, 200, 100, {.mode = Mode::kFast});
  EXPECT_EQ(fast.sigma.size(), 64U);
  EXPECT_TRUE(std::isnan(fast.figures["sigma_min"]));
}

TEST_F(LibraryTest, ErrorsHaveTheProgramsIdsAndCodes) {
  const Model model = open(float_model());
  const std::string path = folder_ / "out.h5";
  measure(model, path, on_cpu_);
  const Results results = read(path);
  Matrix matrix = model.matrices().front();
  matrix.slice = 3;
  EXPECT_EQ(error_of([&] { model.decode(matrix); }), "E-SLICE");
  matrix.tensor = "absent";
  EXPECT_EQ(error_of([&] { model.decode(matrix); }), "E-TENSOR");
  const std::vector<float> twelve(12);
  EXPECT_EQ(error_of([&] { spectrum(twelve, 3, 5); }), "E-SHAPE");
  EXPECT_EQ(error_of([&] { spectrum(twelve, -3, -4); }), "E-SHAPE");
  EXPECT_EQ(error_of([&] { spectrum(twelve, std::int64_t{1} << 62U, 16); }), "E-SHAPE");
  EXPECT_EQ(error_of([&] { null(0, 4); }), "E-SHAPE");
  EXPECT_EQ(error_of([&] { spectrum(twelve, 3, 4, {.backend = "tpu"}); }), "E-BACKEND");
  EXPECT_EQ(error_of([&] { results.column<double>("stable_rnk"); }), "E-COLUMN");
  EXPECT_NE(message_of([&] { results.column<double>("stable_rnk"); }).find("stable_rank"),
            std::string::npos);
  EXPECT_NE(message_of([&] { null(3, 4).figures["stable_rnk"]; }).find("stable_rank"),
            std::string::npos);
  EXPECT_EQ(error_of([&] { results.column<std::int64_t>("stable_rank"); }), "E-COLUMN");
  EXPECT_EQ(error_of([&] { results.column<double>("tensor"); }), "E-COLUMN");
  EXPECT_EQ(error_of([&] { results.spectrum(3); }), "E-ROW");
  EXPECT_EQ(error_of([&] { measure(model, path, {.layers = "x"}); }), "E-SELECTION");
  EXPECT_EQ(error_of([&] { measure(model, path, {.mode = Mode::kStrict, .backend = "cpu"}); }),
            "E-RESUME-FINGERPRINT");
  EXPECT_EQ(error_of([&] { measure(model, path, {.worker = 1}); }), "E-WORKER");
  EXPECT_EQ(error_of([&] { measure(model, path, {.threads = -1}); }), "E-USAGE");
  EXPECT_EQ(error_of([&] { measure(model, path, {.sign_flip_draws = -1}); }), "E-NULL");
  // Caught by their own types too: the library and the program mean the same class.
  EXPECT_THROW(open(folder_ / "absent"), MissingInputError);
  EXPECT_THROW(read(folder_ / "absent.h5"), MissingInputError);
  EXPECT_THROW(read(folder_.write("none.h5", "text")), FormatError);
  EXPECT_THROW(open(folder_.write("none.safetensors", "text")), FormatError);
  try {
    open(folder_ / "absent");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kMissingInput);
  }
}

TEST_F(LibraryTest, CopiesShareWhatIsOpen) {
  std::span<const Matrix> matrices;
  std::vector<float> values;
  Model last;
  {
    Model first = open(float_model());
    matrices = first.matrices();
    values = first.decode(matrices.front());
    const Model copy = first;
    last = std::move(first);
    EXPECT_EQ(copy.matrices().data(), matrices.data());
  }
  EXPECT_EQ(last.matrices().data(), matrices.data());
  EXPECT_EQ(last.decode(matrices.front()), values);

  const std::string path = folder_ / "out.h5";
  measure(last, path, on_cpu_);
  Results results = read(path);
  const Results copy = results;
  results = read(path);
  EXPECT_EQ(copy.spectrum(1), results.spectrum(1));
}

TEST(LibraryVersionTest, IsThatOfTheProgram) {
  const TemporaryFolder folder;
  const ProgramResult result =
      RunningProgram(VINDEX_PROGRAM, {"--version"}, folder / "stream").finish();
  EXPECT_NE(result.out.find(version()), std::string::npos) << result.out;
}

}  // namespace
}  // namespace vindex::testing
