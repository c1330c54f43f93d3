// OpenBLAS in the program as built: which commands map it, which kernels it gets, what is said
// where they are poor, cannot run, or are not there at all.
#include "tests/support/environment_variable.hpp"
#include "tests/support/program/h5_support.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace vindex::testing::blas_cli_test {
namespace {

class BlasCliTest : public ProgramTest {
 protected:
  BlasCliTest() : no_wish_("OPENBLAS_CORETYPE", nullptr) {}
  void SetUp() override { must({"synth", "layer:2x256x128:bf16", "-o", model_, "-q"}); }
  /// True where the loader touched OpenBLAS for this call.
  bool maps_openblas(const std::vector<std::string>& arguments) {
    std::filesystem::remove_all(folder_.path() / "traces");
    std::filesystem::create_directory(folder_.path() / "traces");
    const EnvironmentVariable debug("LD_DEBUG", "files");
    const EnvironmentVariable output("LD_DEBUG_OUTPUT", (folder_.file("traces") + "/t").c_str());
    must(arguments);
    std::string text;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "traces")) {
      text += file_text(entry.path().string());
    }
    EXPECT_NE(text.find("libc.so.6"), std::string::npos) << "the loader says nothing";
    return text.find("openblas") != std::string::npos;
  }
  static nlohmann::json back_end(const std::string& results) {
    return nlohmann::json::parse(read_strings(results, "run/environment").at(0))
        .at("back_ends")
        .at(0);
  }

  EnvironmentVariable no_wish_;
  const std::string model_ = folder_.file("model");
};

TEST_F(BlasCliTest, OnlyCommandsThatComputeMapIt) {
  const std::string results = folder_.file("out.h5");
  EXPECT_TRUE(maps_openblas({"measure", model_, "-o", results, "--progress", "none"}));
  EXPECT_FALSE(maps_openblas({"--version"}));
  EXPECT_FALSE(maps_openblas({"inspect", model_, "--tensors"}));
  EXPECT_FALSE(
      maps_openblas({"decode", model_, "--tensor", "model.layers.1.mlp.experts.0.down_proj.weight",
                     "-o", folder_.file("weights.f32")}));
  EXPECT_FALSE(maps_openblas({"status", results}));
  EXPECT_FALSE(maps_openblas({"show", results}));
  EXPECT_FALSE(maps_openblas({"validate", results}));
  EXPECT_FALSE(
      maps_openblas({"export", results, "--format", "csv", "-o", folder_.file("table.csv")}));
  EXPECT_FALSE(maps_openblas({"synth", "layer:1x64x64:bf16", "-o", folder_.file("other"), "-q"}));
}

// They would turn float64 of cuBLAS into something else; the program takes them away from it.
TEST_F(BlasCliTest, VariablesThatChangeTheArithmeticOfADeviceAreUnsetAndRecorded) {
  const auto environment = [](const std::string& results) {
    return nlohmann::json::parse(read_strings(results, "run/environment").at(0));
  };
  const std::string plain = folder_.file("plain.h5");
  must({"measure", model_, "-o", plain, "--progress", "none"});
  EXPECT_FALSE(environment(plain).contains("unset_variables"));
  const EnvironmentVariable emulated("CUBLAS_EMULATE_DOUBLE_PRECISION", "1");
  const EnvironmentVariable rough("NVIDIA_TF32_OVERRIDE", "1");
  const std::string results = folder_.file("unset.h5");
  must({"measure", model_, "-o", results, "--progress", "none"});
  EXPECT_EQ(environment(results).at("unset_variables"),
            (nlohmann::json{"CUBLAS_EMULATE_DOUBLE_PRECISION=1", "NVIDIA_TF32_OVERRIDE=1"}));
}

#if defined(__x86_64__)

// As a Debian 12 of 2023 does on a Xeon of 2024, which its OpenBLAS takes for a Pentium 4.
TEST_F(BlasCliTest, PoorKernelsGiveTheSameNumbersAndAWarning) {
  const std::string best = folder_.file("best.h5");
  const std::string poor = folder_.file("poor.h5");
  const std::string exact = folder_.file("exact.h5");
  const ProgramResult first = run({"measure", model_, "-o", best, "--progress", "none"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  must({"measure", model_, "-o", exact, "--mode", "strict", "--progress", "none"});
  const EnvironmentVariable wish("OPENBLAS_CORETYPE", "Prescott");
  const ProgramResult second = run({"measure", model_, "-o", poor, "--progress", "none"});
  ASSERT_EQ(second.exit_code, 0) << second.err;

  EXPECT_EQ(first.err.find("W-BLAS-KERNELS"), std::string::npos) << first.err;
  EXPECT_NE(second.err.find("warning W-BLAS-KERNELS: OpenBLAS"), std::string::npos) << second.err;
  const std::string best_kernels = back_end(best).at("libraries").at(0);
  const std::string poor_kernels = back_end(poor).at("libraries").at(0);
  EXPECT_NE(first.err.find(best_kernels), std::string::npos) << first.err;
  EXPECT_TRUE(poor_kernels.ends_with(" Prescott")) << poor_kernels;
  EXPECT_FALSE(best_kernels.ends_with(" Prescott")) << best_kernels;
  EXPECT_TRUE(back_end(best).at("notes").empty());
  EXPECT_EQ(back_end(poor).at("notes").size(), 1U);

  const auto reference = by_key(read_rows(exact));
  ASSERT_FALSE(reference.empty());
  for (const std::string& results : {best, poor}) {
    for (const auto& [key, row] : by_key(read_rows(results))) {
      const MeasuredRow& truth = reference.at(key);
      ASSERT_EQ(row.sigma.size(), truth.sigma.size());
      for (std::size_t i = 0; i < row.sigma.size(); ++i) {
        EXPECT_NEAR(row.sigma[i], truth.sigma[i], 4e-6 * truth.sigma.front()) << results << i;
      }
      for (std::size_t k = 0; k < row.var_at_k.size(); ++k) {
        if (std::isfinite(truth.var_at_k[k])) {
          EXPECT_NEAR(row.var_at_k[k], truth.var_at_k[k], 1e-6) << results << k;
        }
      }
    }
  }
}

TEST_F(BlasCliTest, LimitsAreTheBestKernelsWhateverIsForced) {
  const auto bench = [&] {
    const ProgramResult result =
        run({"bench", "--json", "-q", "--backend", "cpu", "--sections", "spectra", "--shapes",
             "1024x576", "--encodings", "F32", "--samples", "1", "--folder", folder_.file("")});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  };
  const auto limit_note = [](const nlohmann::json& document) {
    for (const auto& row : document.at("rows")) {
      if (row.at("name") == "probe.ssyrk") {
        EXPECT_FALSE(row.at("samples").empty()) << row;
        return row.at("note").get<std::string>();
      }
    }
    return std::string("no row");
  };
  const nlohmann::json best = bench();
  const std::string kernels = best.at("host").at("blas");
  EXPECT_TRUE(limit_note(best).ends_with(kernels)) << limit_note(best);
  const EnvironmentVariable wish("OPENBLAS_CORETYPE", "Prescott");
  const nlohmann::json poor = bench();
  EXPECT_TRUE(poor.at("host").at("blas").get<std::string>().ends_with(" Prescott"));
  EXPECT_TRUE(limit_note(poor).ends_with(kernels)) << limit_note(poor);
}

TEST_F(BlasCliTest, KernelsThatThisProcessorCannotRunAreRefused) {
  const EnvironmentVariable wish("OPENBLAS_CORETYPE", "piledriver");
  const ProgramResult result = run({"measure", model_, "-o", folder_.file("out.h5")});
  if (__builtin_cpu_supports("fma4")) {
    GTEST_SKIP() << "this processor runs them";
  }
  EXPECT_EQ(result.exit_code, 78) << result.err;
  EXPECT_NE(result.err.find("E-BLAS-CORETYPE"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("FMA4"), std::string::npos) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder_.file("out.h5")));
}

TEST_F(BlasCliTest, KernelsThatNobodyHasAreNamed) {
  const EnvironmentVariable wish("OPENBLAS_CORETYPE", "Skylark");
  const ProgramResult result =
      run({"measure", model_, "-o", folder_.file("out.h5"), "--progress", "none"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("none called Skylark"), std::string::npos) << result.err;
}

#endif

// A file of that name which is something else: the loader takes it, and it has no function of BLAS.
TEST_F(BlasCliTest, WhatIsMissingIsSaidAndHowToGetIt) {
  std::filesystem::path other;
  for (const char* const folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                                   "/lib64", "/usr/lib64", "/usr/lib"}) {
    if (std::filesystem::exists(std::filesystem::path(folder) / "libm.so.6")) {
      other = std::filesystem::path(folder) / "libm.so.6";
      break;
    }
  }
  if (other.empty()) {
    GTEST_SKIP() << "no libm.so.6 in the usual folders";
  }
  std::filesystem::create_directory(folder_.path() / "lib");
  std::filesystem::copy_file(other, folder_.path() / "lib" / "libopenblas.so.0");
  const EnvironmentVariable path("LD_LIBRARY_PATH", folder_.file("lib").c_str());
  const ProgramResult result = run({"measure", model_, "-o", folder_.file("out.h5")});
  EXPECT_EQ(result.exit_code, 78) << result.err;
  EXPECT_NE(result.err.find("E-BLAS-MISSING"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("libopenblas0-pthread"), std::string::npos) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder_.file("out.h5")));
  must({"inspect", model_});
}

TEST_F(BlasCliTest, ALibraryThatCannotBeUsedIsTold) {
  std::filesystem::create_directory(folder_.path() / "lib");
  std::ofstream(folder_.file("lib") + "/libopenblas.so.0") << "no library";
  const EnvironmentVariable path("LD_LIBRARY_PATH", folder_.file("lib").c_str());
  const ProgramResult result =
      run({"measure", model_, "-o", folder_.file("out.h5"), "--progress", "none"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("warning W-BLAS-LIBRARY: "), std::string::npos) << result.err;
}

TEST_F(BlasCliTest, IntegersOf64BitsAreRefused) {
  const EnvironmentVariable path("LD_LIBRARY_PATH", VINDEX_BLAS_OF_64_BITS);
  const ProgramResult result = run({"measure", model_, "-o", folder_.file("out.h5")});
  EXPECT_EQ(result.exit_code, 78) << result.err;
  EXPECT_NE(result.err.find("E-BLAS-MISSING"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("64 bits"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder_.file("out.h5")));
}

}  // namespace
}  // namespace vindex::testing::blas_cli_test
