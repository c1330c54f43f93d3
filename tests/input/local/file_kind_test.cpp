// What commonly lies where a container is expected is named as what it is.
#include "input/local/file_kind.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/safetensors_builder.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace vindex::input::file_kind_test {
namespace {

using namespace std::string_literals;

std::string kind_of(const std::string& content, const std::string& name = "model.safetensors") {
  const auto source = make_memory_source(name, testing::bytes_of(content));
  FileKind kind = FileKind::kGguf;
  const std::string error = testing::error_of([&] { kind = detect_container(*source); });
  if (error != "none") {
    return error.substr(0, error.find(' '));
  }
  return kind == FileKind::kGguf ? "gguf" : "safetensors";
}

TEST(FileKindTest, ContainersAreToldByContentWhateverTheirName) {
  EXPECT_EQ(kind_of(testing::small_gguf().bytes(), "a.safetensors"), "gguf");
  EXPECT_EQ(kind_of(testing::small_safetensors(), "a.gguf"), "safetensors");
  EXPECT_EQ(kind_of(testing::small_safetensors(), "weights"), "safetensors");
}

TEST(FileKindTest, OtherFilesAreNamed) {
  const std::string tar = std::string(257, 'n') + "ustar" + std::string(300, '\0');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "E-FILE-EMPTY"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
       "E-FILE-LFS-POINTER"},
      {"# xet version 0\nfilesize = 1\nhash = 'aa'\n", "E-FILE-XET-POINTER"},
      {"<!DOCTYPE html><html>", "E-FILE-HTML"},
      {"\n  <HTML lang=en>", "E-FILE-HTML"},
      {"\xEF\xBB\xBF<!doctype HTML>", "E-FILE-HTML"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>", "E-FILE-HTML"},
      {"{\"error\":\"Repository not found\"}", "E-FILE-JSON"},
      {" [1,2]", "E-FILE-JSON"},
      {"Invalid username or password.", "E-FILE-TEXT"},
      {"\x80\x02}q\x00."s, "E-FILE-PICKLE"},
      {"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}"s, "E-FILE-PICKLE"},
      {"PK\x03\x04\x00\x00archive/data.pkl"s, "E-FILE-PICKLE"},
      {"\x1f\x8b\x08\x00"s, "E-FILE-ARCHIVE"},
      {"\x28\xb5\x2f\xfd\x04"s, "E-FILE-ARCHIVE"},
      {"\xfd"
       "7zXZ\x00\x00"s,
       "E-FILE-ARCHIVE"},
      {"BZh91AY", "E-FILE-ARCHIVE"},
      {tar, "E-FILE-ARCHIVE"},
      {"\x89HDF\r\n\x1a\n\x00"s, "E-FILE-OTHER"},
      {"\x93NUMPY\x01\x00"s, "E-FILE-OTHER"},
      {"tjgg\x03\x00\x00\x00"s, "E-FILE-OTHER"},
  };
  for (const auto& [content, id] : cases) {
    EXPECT_EQ(kind_of(content), id);
    EXPECT_EQ(kind_of(content, "model.gguf"), id);
  }
}

// A link may lead to a file that is nobody's business.
TEST(FileKindTest, WhatATextSaysIsNotPrinted) {
  const std::string text = "root:x:0:0:root:/root:/bin/bash\n";
  try {
    const auto source = make_memory_source("model.gguf", std::as_bytes(std::span(text)));
    (void)detect_container(*source);
    FAIL() << "a text was taken for a container";
  } catch (const FormatError& error) {
    EXPECT_EQ(error.id(), "E-FILE-TEXT");
    EXPECT_EQ(std::string(error.what()).find("root"), std::string::npos) << error.what();
  }
}

TEST(FileKindTest, WhatIsNothingKnownCountsAsWhatItsNameSays) {
  const std::string noise = "\x01\x02\xF3\x04\xF5\x06\xF7\x08\x09\x0A";
  EXPECT_EQ(kind_of(noise, "a.gguf"), "gguf");
  EXPECT_EQ(kind_of(noise, "a.safetensors"), "safetensors");
  EXPECT_EQ(kind_of(noise, "a.dat"), "E-FILE-OTHER");
}

// A header of 640 bytes begins with 0x80 0x02, like a pickle of protocol 2.
TEST(FileKindTest, AHeaderLengthThatLooksLikeAPickleIsNone) {
  std::string header = "{}";
  header.resize(0x280, ' ');
  EXPECT_EQ(kind_of(testing::safetensors_file(header, 0)), "safetensors");
}

}  // namespace
}  // namespace vindex::input::file_kind_test
