// Chunks packed by us are what HDF5's own filters undo, checksum included.
#include "results/hdf5/chunk_pack.hpp"

#include "results/hdf5/hdf5.hpp"
#include "results/hdf5/storage.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace vindex::results::chunk_pack_test {
namespace {

std::uint32_t fletcher_of(std::vector<int> bytes) {
  std::vector<std::byte> raw;
  for (const int byte : bytes) {
    raw.push_back(static_cast<std::byte>(byte));
  }
  return fletcher32(raw);
}

TEST(ChunkPackTest, ChecksumsByHand) {
  EXPECT_EQ(fletcher_of({}), 0U);
  EXPECT_EQ(fletcher_of({0, 0, 0, 0}), 0U);
  EXPECT_EQ(fletcher_of({1, 2}), 0x01020102U);
  EXPECT_EQ(fletcher_of({1, 2, 3}), 0x05040402U);  // words 0x0102, 0x0300
  EXPECT_EQ(fletcher_of({0xFF, 0xFF}), 0xFFFFFFFFU);
  EXPECT_EQ(fletcher_of({0xFF, 0xFF, 0, 1}), 0x00010001U);  // 65536 is 1, and so is 131071
}

/// Spectra: descending with noise, so that some planes are noise and some are not.
std::vector<double> spectra(std::size_t rows, std::size_t width) {
  std::mt19937 random(4);
  std::normal_distribution<double> noise(0.0, 2e-4);
  std::vector<double> values;
  for (std::size_t i = 0; i < rows; ++i) {
    std::vector<double> row(width);
    for (std::size_t j = 0; j < width; ++j) {
      row[j] = 2.0 - static_cast<double>(j) / static_cast<double>(width) + noise(random);
    }
    std::sort(row.rbegin(), row.rend());
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

TEST(ChunkPackTest, HdfReadsThemBackThroughItsFilters) {
  for (const auto& [rows, width, step] :
       {std::array<std::size_t, 3>{1, 1, 1}, {5, 3, 2}, {70, 2048, 32}, {33, 511, 8}}) {
    const std::vector<double> values = spectra(rows, width);
    MemoryStorage memory;
    {
      h5::File file = h5::File::create(memory, "test");
      h5::Dataset dataset = file.make_dataset("/sigma", h5::Type::kFloat64, {rows, width},
                                              {.chunk = {step, width}, .deflate = 1});
      write_packed_values<double>(dataset, rows, step, values);
      dataset = {};
      file.close();
    }
    const h5::File file = h5::File::open(memory, "test");
    const h5::Dataset dataset = file.open_dataset("/sigma");
    std::vector<double> back(rows * width);
    dataset.read<double>(0, rows, back);
    EXPECT_EQ(back, values);
  }
}

TEST(ChunkPackTest, NoiseCostsNextToNothingAndOrderIsFound) {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> noise(65536);
  for (std::uint64_t& value : noise) {
    value = random();
  }
  const auto bytes = std::as_bytes(std::span(noise));
  EXPECT_LE(pack_chunk(bytes, 8).size(), bytes.size() + bytes.size() / 1000);
  const std::vector<double> values = spectra(32, 2048);
  const auto spectrum = std::as_bytes(std::span(values));
  EXPECT_LT(pack_chunk(spectrum, 8).size(), spectrum.size() * 4 / 5);
}

TEST(ChunkPackTest, AStreamForgetsTheChunkBefore) {
  const std::vector<double> values = spectra(1, 300);
  const auto chunk = std::as_bytes(std::span(values));
  const std::vector<std::byte> first = pack_chunk(chunk, 8);
  // Its last planes are noise, so that the stream ends without compression.
  std::mt19937_64 random(2);
  std::vector<std::uint64_t> noise(16384);
  for (std::uint64_t& value : noise) {
    value = random();
  }
  (void)pack_chunk(std::as_bytes(std::span(noise)), 8);
  EXPECT_EQ(pack_chunk(chunk, 8), first);
}

}  // namespace
}  // namespace vindex::results::chunk_pack_test
