// Files whose rows are cells that are not what they claim: every planted damage is found, and none
// is more than a clear error.
#include "commands/token_tables/routing_cells.hpp"
#include "report/cells/cells_text.hpp"
#include "report/export/export.hpp"
#include "results/reading/validate.hpp"
#include "results/runs/merge.hpp"
#include "results/runs/run_status.hpp"
#include "results/view/results_view.hpp"
#include "tests/results/cell_run.hpp"
#include "tests/results/hdf5/forget_digests.hpp"
#include "tests/results/hdf5/robustness_fixture.hpp"
#include "tests/results/sample_run.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <functional>

namespace vindex::results::testing::cell_damage_test {
namespace {

/// What validate says of a file of `schema` after `damage`.
std::vector<std::string> faults_after(FileSchema schema, const std::function<void(hid_t)>& damage) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  write_cells(path, cell_run(schema));
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  damage(file);
  forget_digests(file);
  H5Fclose(file);
  return validate_file(path);
}

/// Sets element `at` of float64 (or float32) dataset `path`.
void set_element(hid_t file, const char* path, std::vector<hsize_t> at, double value) {
  const hid_t dataset = H5Dopen2(file, path, H5P_DEFAULT);
  const hid_t space = H5Dget_space(dataset);
  const std::vector<hsize_t> one(at.size(), 1);
  ASSERT_GE(H5Sselect_hyperslab(space, H5S_SELECT_SET, at.data(), nullptr, one.data(), nullptr), 0);
  const hsize_t count = 1;
  const hid_t memory = H5Screate_simple(1, &count, nullptr);
  ASSERT_GE(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, &value), 0);
  H5Sclose(memory);
  H5Sclose(space);
  H5Dclose(dataset);
}

struct Damage {
  const char* name;
  FileSchema schema;
  std::function<void(hid_t)> plant;
  const char* said;
};

const std::vector<Damage>& damages() {
  static const std::vector<Damage> all = {
      {"CosineBeyondOne", FileSchema::kExperts,
       [](hid_t f) {
         set_element(f, "/group/cosine", {1, 0, 1}, 1.5);
       },
       "not between -1 and 1"},
      {"CosineNotSymmetric", FileSchema::kExperts,
       [](hid_t f) {
         set_element(f, "/group/cosine", {1, 0, 1}, 0.9);
       },
       "not symmetric"},
      {"DiagonalNotOne", FileSchema::kExperts,
       [](hid_t f) {
         set_element(f, "/group/cosine_centred", {0, 2, 2}, 0.5);
       },
       "diagonal"},
      {"SpectrumRises", FileSchema::kExperts,
       [](hid_t f) {
         set_element(f, "/group/expert_axis_spectrum", {2, 3}, 9.0);
       },
       "descend"},
      {"LayerBelowNone", FileSchema::kExperts,
       [](hid_t f) { set_element(f, "/group/layer", {0}, -9.0); }, "layer -9 is below -1"},
      {"NoRows", FileSchema::kExperts, [](hid_t f) { set_element(f, "/group/rows", {0}, 0.0); },
       "0 x 16 is not a shape"},
      {"NoStatus", FileSchema::kExperts, [](hid_t f) { set_element(f, "/group/status", {1}, 6.0); },
       "is not a status"},
      {"NumbersOfARowThatIsNotMeasured", FileSchema::kExperts,
       [](hid_t f) { set_element(f, "/group/status", {1}, 5.0); },
       "is not measured and has a number"},
      {"NegativeNorm", FileSchema::kExperts,
       [](hid_t f) {
         set_element(f, "/group/norm", {0, 0}, -1.0);
       },
       "not between 0"},
      {"CkaBeyondOne", FileSchema::kCka,
       [](hid_t f) {
         set_element(f, "/cka", {0, 1}, 1.2);
       },
       "not between -1 and 1"},
      {"CkaOfOneModelNotSymmetric", FileSchema::kCka,
       [](hid_t f) {
         set_element(f, "/cka", {0, 2}, 0.3);
       },
       "not symmetric"},
      {"IntervalTurnedRound", FileSchema::kCka,
       [](hid_t f) {
         set_element(f, "/ci_low", {0, 2}, 0.9);
       },
       "ci_low"},
      {"IntervalElsewhere", FileSchema::kCka,
       [](hid_t f) {
         set_element(f, "/ci_low", {0, 1}, 0.905);
       },
       "do not hold cka"},
      {"NegativeError", FileSchema::kCka,
       [](hid_t f) {
         set_element(f, "/se", {0, 1}, -0.1);
       },
       "not between 0"},
      {"MatchedIsNotTheMatrix", FileSchema::kCka,
       [](hid_t f) { set_element(f, "/matched/cka", {3}, 0.123); }, "/matched/cka"},
      {"StagesAreNotOfTheNeighbours", FileSchema::kCka,
       [](hid_t f) {
         const hid_t attribute = H5Aopen(f, "stages", H5P_DEFAULT);
         const std::int64_t stages = 7;
         H5Awrite(attribute, H5T_NATIVE_INT64, &stages);
         H5Aclose(attribute);
       },
       "stages"},
      {"LayersAreNotTheRows", FileSchema::kCka,
       [](hid_t f) { set_element(f, "/layers_a", {1}, 17.0); }, "/layers_a"},
      {"SharesFallWithTheThreshold", FileSchema::kActivations,
       [](hid_t f) {
         set_element(f, "/layer/sparsity", {1, 2}, 0.01);
       },
       "rise"},
      {"ShareBeyondOne", FileSchema::kActivations,
       [](hid_t f) { set_element(f, "/layer/top8_mass", {0}, 1.5); }, "not between 0 and 1"},
      {"LoadsDoNotSumToOne", FileSchema::kRouting,
       [](hid_t f) {
         set_element(f, "/layer/load", {2, 1}, 0.5);
       },
       "sum to"},
      {"DeadExpertsMiscounted", FileSchema::kRouting,
       [](hid_t f) { set_element(f, "/layer/dead_experts", {2}, 3.0); }, "dead experts"},
      {"LiftNotSymmetric", FileSchema::kRouting,
       [](hid_t f) {
         set_element(f, "/layer/coactivation_lift", {0, 0, 1}, 2.0);
       },
       "not symmetric"},
      {"ScaleDetached", FileSchema::kRouting,
       [](hid_t f) {
         const hid_t dataset = H5Dopen2(f, "/layer/load", H5P_DEFAULT);
         H5Adelete(dataset, "DIMENSION_LIST");
         H5Dclose(dataset);
       },
       "no dimension scale"},
      {"ArrayMissing", FileSchema::kRouting,
       [](hid_t f) { H5Ldelete(f, "/layer/transition_lift", H5P_DEFAULT); }, "is missing"},
      {"ScaleMissing", FileSchema::kRouting,
       [](hid_t f) { H5Ldelete(f, "/layer/expert_other", H5P_DEFAULT); }, "is missing"},
      {"CountsDisagree", FileSchema::kRouting,
       [](hid_t f) {
         const hid_t attribute = H5Aopen(f, "matrices_measured", H5P_DEFAULT);
         const std::int64_t count = 9;
         H5Awrite(attribute, H5T_NATIVE_INT64, &count);
         H5Aclose(attribute);
       },
       "matrices_measured"},
      {"ArrayOfAnotherShape", FileSchema::kRouting,
       [](hid_t f) {
         H5Ldelete(f, "/layer/load", H5P_DEFAULT);
         const hsize_t shape[] = {4, 1000};
         const hid_t space = H5Screate_simple(2, shape, nullptr);
         H5Dclose(H5Dcreate2(f, "/layer/load", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT,
                             H5P_DEFAULT));
         H5Sclose(space);
       },
       "another shape"},
  };
  return all;
}

class PlantedDamage : public ::testing::TestWithParam<std::size_t> {};

TEST_P(PlantedDamage, IsFound) {
  const Damage& damage = damages()[GetParam()];
  const std::vector<std::string> faults = faults_after(damage.schema, damage.plant);
  EXPECT_TRUE(some_line_has(faults, damage.said))
      << damage.said << ": " << (faults.empty() ? "valid" : faults.front());
}

INSTANTIATE_TEST_SUITE_P(Cells, PlantedDamage, ::testing::Range(std::size_t{0}, damages().size()),
                         [](const auto& damage) {
                           return std::string(damages()[damage.param].name);
                         });

/// Reading the file in every way ends in a result or an error.
void read_every_way(const std::string& path, const std::string& folder) {
  const std::function<void()> ways[] = {
      [&] { validate_file(path); },
      [&] { read_status(path); },
      [&] { report::cells_text(read_view(path), 80); },
      [&] { report::export_file(path, "json", folder + "/out.json"); },
      [&] { report::export_file(path, "phase-json", folder + "/phases"); },
      [&] { merge_parts({path}, folder + "/merged.h5"); }};
  for (const auto& way : ways) {
    try {
      way();
    } catch (const Error& error) {
      EXPECT_NE(error.exit_code(), ExitCode::kInternal) << error.what();
    }
  }
}

TEST(HostileCells, ScalesThatClaimTheWorldAreRefused) {
  for (const char* scale : {"/layer/expert", "/layer/expert_other"}) {
    for (const hsize_t size : {hsize_t{0}, hsize_t{1} << 23U, hsize_t{1} << 40U}) {
      const TestFolder folder;
      const std::string path = folder / "out.h5";
      write_cells(path, cell_run(FileSchema::kRouting));
      const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
      H5Ldelete(file, scale, H5P_DEFAULT);
      const hid_t space = H5Screate_simple(1, &size, nullptr);
      const hid_t create = H5Pcreate(H5P_DATASET_CREATE);
      const hsize_t chunk = 1024;
      H5Pset_chunk(create, 1, &chunk);
      H5Dclose(H5Dcreate2(file, scale, H5T_STD_I64LE, space, H5P_DEFAULT, create, H5P_DEFAULT));
      H5Pclose(create);
      H5Sclose(space);
      H5Fclose(file);
      const std::vector<std::string> faults = validate_file(path);
      EXPECT_FALSE(faults.empty()) << scale << " " << size;
      read_every_way(path, folder.path());
    }
  }
}

TEST(HostileCells, WhatIsLeftOutIsToldAndNoCrash) {
  const char* const kPaths[] = {"/layer",
                                "/layer/load",
                                "/layer/status",
                                "/layer/expert",
                                "/layer/entry",
                                "/resume",
                                "/run",
                                "/layer/tensor",
                                "/resume/attribute_type",
                                "/layer/gini",
                                "/resume/optional_columns"};
  for (const char* gone : kPaths) {
    const TestFolder folder;
    const std::string path = folder / "out.h5";
    write_cells(path, cell_run(FileSchema::kRouting));
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Ldelete(file, gone, H5P_DEFAULT);
    H5Fclose(file);
    const std::vector<std::string> faults = validate_file(path);
    if (gone == std::string("/resume/optional_columns")) {  // files of earlier versions lack it
      EXPECT_TRUE(faults.empty()) << faults[0];
    } else {
      EXPECT_TRUE(some_line_has(faults, "is missing")) << gone;
    }
    read_every_way(path, folder.path());
  }
}

TEST(HostileCells, AnotherKindIsRefusedByName) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  write_cells(path, cell_run(FileSchema::kRouting));
  const Outcome opened =
      outcome_of([&] { open_run_store(path, cell_run(FileSchema::kCka), {}, false); });
  EXPECT_EQ(opened.id, "E-OUT-FOREIGN");
  write_sample(folder / "spectra.h5", sample_run());
  EXPECT_EQ(outcome_of([&] { read_view(folder / "spectra.h5"); }).id, "E-RESULTS-KIND");
  const Outcome merged = outcome_of([&] {
    merge_parts({path, folder / "spectra.h5"}, folder / "both.h5");
  });
  EXPECT_EQ(merged.code, ExitCode::kBadConfiguration);
}

}  // namespace
}  // namespace vindex::results::testing::cell_damage_test
