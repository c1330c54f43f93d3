// Where files lie that belong to a program: beside it, and where installations put them.
#include "core/files/companions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace vindex::companions_test {
namespace {

namespace fs = std::filesystem;

TEST(Companions, LieBesideTheProgramAndBelowTheFolderAboveIt) {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  const std::vector<std::string> places = companion_places("x.so");
  for (const fs::path& place :
       {folder / "x.so", folder.parent_path() / "lib" / "vindex" / "x.so"}) {
    EXPECT_NE(std::find(places.begin(), places.end(), place.string()), places.end()) << place;
  }
}

TEST(Companions, AreFoundWhereTheyAre) {
  const fs::path file =
      fs::read_symlink("/proc/self/exe").parent_path() / "companion_of_the_tests.so";
  fs::remove(file);
  EXPECT_EQ(find_companion("companion_of_the_tests.so"), "");
  std::ofstream(file).put('x');
  EXPECT_EQ(find_companion("companion_of_the_tests.so"), file.string());
  fs::remove(file);
}

}  // namespace
}  // namespace vindex::companions_test
