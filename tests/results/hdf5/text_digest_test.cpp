// Text under a digest, since no checksum of the format covers it: a flipped byte is told wherever
// it is read, what others add is none of its business, and older files have none.
#include "results/hdf5/text_digest.hpp"

#include "forget_digests.hpp"
#include "robustness_fixture.hpp"

#include "commands/experts/experts_cells.hpp"
#include "report/cells/cells_text.hpp"
#include "results/reading/validate.hpp"
#include "results/runs/merge.hpp"
#include "results/view/results_view.hpp"
#include "tests/results/cell_run.hpp"
#include "tests/results/sample_run.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>
#include <hdf5.h>

#include <string>
#include <vector>

namespace vindex::results::testing::text_digest_test {
namespace {

SampleOptions small() {
  SampleOptions options;
  options.layers = 1;
  options.experts = 2;
  return options;
}

bool is_reported(const std::string& path) {
  try {
    return !validate_file(path).empty();
  } catch (const FormatError&) {
    return true;
  }
}

void set_text_attribute(hid_t object, const char* name, const char* value) {
  if (H5Aexists(object, name) > 0) {
    H5Adelete(object, name);
  }
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(H5Awrite(attribute, type, &value), 0);
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

TEST(TextDigest, IsThatOfAnyToolThatKnowsSha256) {
  // printf 'gate_proj\0\0down_proj\0' | sha256sum
  EXPECT_EQ(text_digest(std::vector<std::string>{"gate_proj", "", "down_proj"}),
            "d3f19e98d9f8ab7fc82e7fc719f9e11ac9242342f07b33d40f2f4140e0c323e1");
  EXPECT_NE(text_digest(std::vector<std::string>{"ab", "c"}),
            text_digest(std::vector<std::string>{"a", "bc"}));
}

TEST(TextDigest, AFlippedByteOfAnyTextIsTold) {
  const TestFolder folder;
  const std::string spectra = folder / "spectra.h5", cells = folder / "cells.h5";
  write_sample(spectra, sample_run(small()));
  write_cells(cells, cell_run(FileSchema::kExperts));
  const std::string other = folder / "damaged.h5";
  int flips = 0;
  for (const std::string& path : {spectra, cells}) {
    const std::string bytes = read_file(path);
    const RunDescription run =
        path == spectra ? sample_run(small()) : cell_run(FileSchema::kExperts);
    // Values of columns, attributes of the root, texts of /run/.
    for (const std::string& text :
         {std::string("gate_proj"), std::string("routed_expert"), run.title, run.settings_json}) {
      int found = 0;
      for (std::size_t at = bytes.find(text); at != std::string::npos && found < 6;
           at = bytes.find(text, at + 1)) {
        std::string damaged = bytes;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x02);
        write_file(other, damaged);
        EXPECT_TRUE(is_reported(other)) << text << " at byte " << at;
        ++found;
      }
      EXPECT_GT(found, 0) << text;
      flips += found;
    }
  }
  EXPECT_GT(flips, 20);
}

TEST(TextDigest, ReadersRefuseWhatValidateWould) {
  const TestFolder folder;
  const std::string path = folder / "cells.h5";
  write_cells(path, cell_run(FileSchema::kExperts));
  std::string bytes = read_file(path);
  const std::size_t heap = bytes.find("GCOL");
  const std::size_t at = bytes.find("gate_proj", heap);
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'd';
  write_file(path, bytes);
  const Outcome shown = outcome_of([&] { read_view(path); });
  EXPECT_EQ(shown.id, "E-RESULTS-DATA");
  EXPECT_EQ(shown.code, ExitCode::kMalformedInput);
  EXPECT_EQ(outcome_of([&] { merge_parts({path}, folder / "m.h5"); }).code,
            ExitCode::kMalformedInput);
}

TEST(TextDigest, WhatOthersAddAndWhatOlderProgramsLeftOutIsNoFault) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  write_sample(path, sample_run(small()));
  hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  set_text_attribute(file, "history", "another program was here");
  set_text_attribute(file, "note", "mine");
  const hsize_t rows = 2;
  const hid_t space = H5Screate_simple(1, &rows, nullptr);
  H5Dclose(H5Dcreate2(file, "/matrix/mine", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT,
                      H5P_DEFAULT));
  H5Sclose(space);
  H5Fclose(file);
  EXPECT_EQ(validate_file(path), std::vector<std::string>{});
  file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  set_text_attribute(file, "model", "another model");
  H5Fclose(file);
  EXPECT_TRUE(is_reported(path));
  file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  forget_digests(file);
  H5Fclose(file);
  EXPECT_EQ(validate_file(path), std::vector<std::string>{});
}

TEST(SchemaMinor, AFileWithoutTheColumnsOfALaterOneIsRead) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  write_cells(path, cell_run(FileSchema::kExperts));
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  int removed = 0;
  for (const CellColumn& column : commands::kExpertsCells) {
    if (column.since > 0) {
      EXPECT_GE(H5Ldelete(file, ("/group/" + std::string(column.name)).c_str(), H5P_DEFAULT), 0);
      ++removed;
    }
  }
  EXPECT_EQ(removed, 11);
  forget_digests(file);
  H5Fclose(file);
  EXPECT_TRUE(is_reported(path));  // of 1.2 they would be missing
  const hid_t again = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  set_text_attribute(again, "schema_version", "1.0");
  H5Fclose(again);
  EXPECT_EQ(validate_file(path), std::vector<std::string>{});
  EXPECT_NO_THROW(report::cells_text(read_view(path), 80));
  merge_parts({path}, folder / "merged.h5");
  EXPECT_EQ(validate_file(folder / "merged.h5"), std::vector<std::string>{});
}

// Before version 1.2 the stages of a CKA followed from another rule.
TEST(SchemaMinor, StagesOfAnOlderFileAreTakenAsTheyAre) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  write_cells(path, cell_run(FileSchema::kCka));
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t attribute = H5Aopen(file, "stages", H5P_DEFAULT);
  const std::int64_t stages = 3;
  EXPECT_GE(H5Awrite(attribute, H5T_NATIVE_INT64, &stages), 0);
  H5Aclose(attribute);
  forget_digests(file);
  H5Fclose(file);
  EXPECT_TRUE(is_reported(path));
  const hid_t again = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  set_text_attribute(again, "schema_version", "1.1");
  H5Fclose(again);
  EXPECT_EQ(validate_file(path), std::vector<std::string>{});
}

}  // namespace
}  // namespace vindex::results::testing::text_digest_test
