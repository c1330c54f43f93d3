// What the writer of safetensors files gives: order, alignment, and refusals.
#include "write/safetensors_writer.hpp"

#include "input/open/open_model.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/temporary_folder.hpp"
#include "write/output_folder.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vindex::write::safetensors_writer_test {
namespace {

using decode::ElementType;
using testing::file_text;
using testing::filled;
using testing::TemporaryFolder;

TEST(SafetensorsWriter, WidestTensorsComeFirstAndStayAligned) {
  const TemporaryFolder scratch;
  {
    OutputFolder folder(scratch / "m");
    SafetensorsWriter writer(folder.create("model.safetensors"),
                             {{"c", ElementType::kF8E4M3, {3, 5}},
                              {"b", ElementType::kBF16, {7}},
                              {"z", ElementType::kF32, {2}},
                              {"a", ElementType::kF32, {}},
                              {"empty", ElementType::kI64, {0, 4}}},
                             {{"format", "pt"}}, TensorOrder::kWidestFirst);
    writer.write(2, 0, filled(8, 2));
    writer.write(0, 5, filled(10, 1));
    writer.write(0, 0, filled(5, 9));
    writer.write(1, 0, filled(14, 3));
    writer.write(3, 0, filled(4, 4));
    writer.finish();
    folder.publish();
  }
  const auto files = input::open_model(scratch / "m/model.safetensors");
  std::vector<std::string> names;
  for (const auto& tensor : files.tensors) {
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.offset % decode::element_type_row(tensor.type).block_bytes, 0U) << tensor.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"empty", "a", "z", "b", "c"}));
  std::vector<std::byte> bytes(15);
  files.shards[0].source->read(files.tensors.back().offset, bytes);
  EXPECT_EQ(std::to_integer<int>(bytes[4]), 9);
  EXPECT_EQ(std::to_integer<int>(bytes[5]), 1);
}

TEST(SafetensorsWriter, RefusesDoubleNamesAndRangesOutside) {
  const TemporaryFolder scratch;
  OutputFolder folder(scratch / "m");
  EXPECT_THROW(SafetensorsWriter(folder.create("a"),
                                 {{"x", ElementType::kF32, {1}}, {"x", ElementType::kF32, {2}}}, {},
                                 TensorOrder::kAsGiven),
               FormatError);
  SafetensorsWriter writer(folder.create("b"), {{"x", ElementType::kF32, {2}}}, {},
                           TensorOrder::kAsGiven);
  EXPECT_THROW(writer.write(0, 4, filled(8, 0)), Error);
  EXPECT_THROW(writer.write(1, 0, filled(1, 0)), Error);
  writer.write(0, 0, filled(4, 0));
  EXPECT_THROW(writer.finish(), Error);
}

TEST(SafetensorsWriter, KeepsTheGivenOrderAndPadsTheHeader) {
  const TemporaryFolder scratch;
  {
    AtomicFile file(scratch / "a.safetensors");
    SafetensorsWriter writer(
        file, {{"narrow", ElementType::kF8E4M3, {3}}, {"w\xC3\xA9", ElementType::kF32, {}}},
        {{"z", "1"}, {"a", "\"2\"\n"}}, TensorOrder::kAsGiven);
    writer.write(0, 0, filled(3, 'x'));
    writer.write(1, 0, filled(4, 'y'));
    writer.finish();
    file.publish();
  }
  std::string header =
      R"({"__metadata__":{"z":"1","a":"\"2\"\n"},"narrow":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]},)"
      "\"w\xC3\xA9\":"
      R"({"dtype":"F32","shape":[],"data_offsets":[3,7]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(file_text(scratch / "a.safetensors"),
            testing::little_endian(std::uint64_t{header.size()}) + header + "xxxyyyy");
}

TEST(SafetensorsWriter, RefusesWhatNoReaderTakes) {
  const TemporaryFolder scratch;
  AtomicFile file(scratch / "a");
  const auto id_of = [&](const std::vector<SafetensorsTensor>& tensors) {
    return testing::error_of([&] { SafetensorsWriter(file, tensors, {}, TensorOrder::kAsGiven); });
  };
  EXPECT_EQ(id_of({}), "none");
  EXPECT_EQ(id_of({{"__metadata__", ElementType::kF32, {1}}}), "E-ST-NAME");
  EXPECT_EQ(id_of({{"\xFF", ElementType::kF32, {1}}}), "E-ST-NAME");
  EXPECT_EQ(id_of({{"x", ElementType::kQ8_0, {32}}}), "E-ST-LAYOUT");
  EXPECT_EQ(id_of({{"x", ElementType::kF4, {3}}}), "E-ST-LAYOUT");
  EXPECT_EQ(id_of({{"x", ElementType::kF32, {-1}}}), "E-ST-LAYOUT");
  const std::int64_t half = std::int64_t{1} << 62;
  EXPECT_EQ(id_of({{"x", ElementType::kU8, {half}}, {"y", ElementType::kU8, {half}}}),
            "E-ST-LAYOUT");
}

}  // namespace
}  // namespace vindex::write::safetensors_writer_test
