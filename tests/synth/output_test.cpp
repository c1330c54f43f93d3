// What synth leaves behind when it cannot write.
#include "synth/make_model.hpp"
#include "tests/support/file_size_limit.hpp"
#include "tests/support/temporary_folder.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

namespace vindex::synth::output_test {
namespace {

using testing::TemporaryFolder;

namespace fs = std::filesystem;
using testing::FileSizeLimit;

TEST(SynthOutput, AFileInTheWayIsNamed) {
  const TemporaryFolder scratch;
  std::ofstream(scratch / "file") << "x";
  try {
    make_model("layer:1x8x8:bf16", 0, scratch / "file");
    FAIL() << "a file was taken for a folder";
  } catch (const OutputError& error) {
    EXPECT_EQ(error.id(), "E-OUTPUT-NOT-A-FOLDER");
  }
  EXPECT_THROW(make_model("layer:1x8x8:bf16", 0, scratch / "file/below"), Error);
}

TEST(SynthOutput, AFullDiskLeavesNothing) {
  const TemporaryFolder scratch;
  for (const char* spec : {"kimi-k2-mini", "kimi-k2-mini-q8_0", "layer:4x256x256:fp8"}) {
    SCOPED_TRACE(spec);
    const FileSizeLimit limit(100'000);
    try {
      make_model(spec, 0, scratch / "m");
      FAIL() << "a full disk was not noticed";
    } catch (const SystemError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kInputOutput);
      EXPECT_EQ(error.error_number(), EFBIG);
    }
    EXPECT_FALSE(fs::exists(scratch / "m"));
  }
}

}  // namespace
}  // namespace vindex::synth::output_test
