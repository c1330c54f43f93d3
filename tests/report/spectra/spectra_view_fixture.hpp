// Owns what the tests of reading for `show` stand on: a file that may be changed behind the
// library's back, and short ways to show it and to see what is refused.
#pragma once

#include "report/spectra/spectra_tables.hpp"
#include "tests/results/hdf5/forget_digests.hpp"
#include "tests/results/sample_run.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::results::testing {

/// The error that `action` ends with, "ID: message"; empty where it ends well.
inline std::string error_of(const std::function<void()>& action, ExitCode code = ExitCode::kUsage) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), code) << error.what();
    return error.what();
  }
  return "";
}

inline bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline model::Selection selection(const char* layers, const char* blocks, const char* roles) {
  return model::parse_selection(layers, blocks, roles, "");
}

class SpectraViewFile : public ::testing::Test {
 protected:
  report::SpectraView show(const std::string& metric, std::optional<std::int32_t> k = {},
                           const model::Selection& wanted = {}, const std::string& by = "") {
    return report::read_spectra_view(
        file_, {.metric = metric, .k = k, .selection = wanted, .sort_by = by});
  }
  std::string refusal(const std::string& metric, std::optional<std::int32_t> k = {},
                      const model::Selection& wanted = {}, const std::string& by = "") {
    return error_of([&] { show(metric, k, wanted, by); });
  }
  /// Puts a float64 column of one number per matrix into the file, as a later version may.
  void add_column(const char* name, double first, double step) {
    std::vector<double> values;
    for (std::size_t i = 0; i < run_.matrices.size(); ++i) {
      values.push_back(first + step * static_cast<double>(i));
    }
    const hsize_t size = values.size();
    const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, &size, nullptr);
    const hid_t data =
        H5Dcreate2(file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Dclose(data);
    H5Sclose(space);
    EXPECT_GE(H5Fclose(file), 0);
  }
  /// Puts another text into every row of a column.
  void set_texts(const char* column, const char* name) {
    std::vector<std::string> numbered;
    std::vector<const char*> texts(run_.matrices.size(), name);
    if (std::string_view(column) == "/matrix/tensor") {  // names are keys
      for (std::size_t i = 0; i < texts.size(); ++i) {
        numbered.push_back(name + std::to_string(i));
      }
      std::transform(numbered.begin(), numbered.end(), texts.begin(),
                     [](const std::string& text) { return text.c_str(); });
    }
    const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t data = H5Dopen2(file, column, H5P_DEFAULT);
    const hid_t type = H5Dget_type(data);
    EXPECT_GE(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data()), 0);
    H5Tclose(type);
    H5Dclose(data);
    forget_digests(file);
    EXPECT_GE(H5Fclose(file), 0);
  }
  void add_group(const char* name) {
    const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Gclose(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    EXPECT_GE(H5Fclose(file), 0);
  }

  TestFolder folder_;
  std::string file_ = folder_ / "out.h5";
  RunDescription run_ = sample_run({.experts = 5});
};

}  // namespace vindex::results::testing
