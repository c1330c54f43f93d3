// Strings of variable length read from bytes built by hand, and every way their heap can lie.
#include "results/hdf5/heap_strings.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/support/gguf_builder.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

namespace vindex::results::heap_strings_test {
namespace {

using vindex::testing::little_endian;

std::string object(std::uint16_t index, const std::string& text) {
  std::string bytes = little_endian(index) + little_endian(std::uint16_t{1}) +
                      little_endian(std::uint32_t{0}) + little_endian(std::uint64_t{text.size()}) +
                      text;
  return bytes.append((8 - text.size() % 8) % 8, '\0');
}

std::string collection(const std::string& objects) {
  return std::string("GCOL\1\0\0\0", 8) + little_endian(std::uint64_t{16 + objects.size()}) +
         objects;
}

std::string reference(std::uint32_t length, std::uint64_t address, std::uint32_t index) {
  return little_endian(length) + little_endian(address) + little_endian(index);
}

MemoryStorage storage_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return MemoryStorage(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

/// The strings of `references`, which follow `heap`; or the error's id.
std::vector<std::string> read(const std::string& heap, const std::string& references) {
  MemoryStorage storage = storage_of(heap + references);
  try {
    return read_heap_strings(storage, heap.size(), references.size() / 16, "f");
  } catch (const FormatError& error) {
    return {error.id()};
  }
}

bool sound(const std::string& heap) {
  MemoryStorage storage = storage_of(heap);
  return heap_is_sound(storage, 0, storage.bytes());
}

const std::vector<std::string> kRefused = {"E-RESULTS-DATA"};
const std::string kHeap = "--------" + collection(object(1, "first") + object(2, "the second"));

TEST(HeapStringsTest, ReferencesAreFollowed) {
  EXPECT_EQ(read(kHeap, reference(5, 8, 1) + reference(10, 8, 2) + reference(3, 8, 2)),
            (std::vector<std::string>{"first", "the second", "the"}));
  EXPECT_EQ(read(kHeap, reference(0, 0, 0) + reference(0, 8, 9) + reference(4, ~0ULL, 1)),
            (std::vector<std::string>{"", "", ""}));
  EXPECT_EQ(read("--------" + collection(object(1, std::string("a\0b", 3))), reference(3, 8, 1)),
            (std::vector<std::string>{"a"}));
}

TEST(HeapStringsTest, ReferencesToWhatIsNotThereAreRefused) {
  EXPECT_EQ(read(kHeap, reference(6, 8, 1)), kRefused);             // longer than the string
  EXPECT_EQ(read(kHeap, reference(1, 8, 3)), kRefused);             // no such string
  EXPECT_EQ(read(kHeap, reference(1, 8, 0x10001)), kRefused);       // an index of 17 bits
  EXPECT_EQ(read(kHeap, reference(1, 7, 1)), kRefused);             // no heap
  EXPECT_EQ(read(kHeap, reference(1, ~0ULL - 8, 1)), kRefused);     // beyond the file
  EXPECT_EQ(read(kHeap, reference(1, kHeap.size(), 1)), kRefused);  // the references themselves
}

TEST(HeapStringsTest, HeapsThatContradictThemselvesAreRefused) {
  const std::string free_space(16, '\0');  // of size 0: who follows it never ends
  for (const std::string& objects : {
           object(1, "text") + object(1, "twin"),
           object(1, "text") + free_space,
           std::string("\1\0\1\0\0\0\0\0", 8) + little_endian(~std::uint64_t{0}),
           std::string("\1\0\1\0\0\0\0\0", 8) + little_endian(~std::uint64_t{0} - 15),
           std::string("\1\0\1\0\0\0\0\0", 8) + little_endian(std::uint64_t{1}),
       }) {
    EXPECT_EQ(read("--------" + collection(objects), reference(1, 8, 1)), kRefused);
  }
  std::string longer = kHeap;
  longer[16] = 'x';
  EXPECT_EQ(read(longer, reference(1, 8, 1)), kRefused);
}

TEST(HeapStringsTest, HeapsWithinHeapsDoNotMultiply) {
  // Each heap holds all that follow: read one by one they would be the square of the file.
  std::string heap;
  for (int i = 0; i < 100; ++i) {
    heap = collection(object(1, heap));
  }
  EXPECT_EQ(read("--------" + heap, reference(1, 8, 1) + reference(1, 40, 1)), kRefused);
}

TEST(HeapStringsTest, TheDriverTellsUnsoundHeapsFromOtherBytes) {
  EXPECT_TRUE(sound(collection(object(1, "text") + object(7, "more"))));
  EXPECT_TRUE(sound("no heap at all, but bytes of a chunk"));
  EXPECT_TRUE(sound("GCOL"));
  EXPECT_FALSE(sound(collection(object(1, "text") + std::string(16, '\0'))));
  EXPECT_FALSE(sound(collection(object(1, "text")).substr(0, 30)));
  std::string too_long = collection(object(1, "text"));
  too_long[24] = 9;
  EXPECT_FALSE(sound(too_long));
}

}  // namespace
}  // namespace vindex::results::heap_strings_test
