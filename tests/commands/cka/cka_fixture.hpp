// Owns layers of activations in memory for tests of CKA: noise with something in common, and the
// parts that a tile is made of.
#pragma once

#include "commands/cka/cka_tile.hpp"
#include "core/philox.hpp"
#include "cpu/cpu_backend.hpp"
#include "engine/units/matrix_loader.hpp"
#include "input/local/file_source.hpp"

#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <optional>
#include <span>
#include <vector>

namespace vindex::commands::testing {

/// Standard normal number `index` of a stream.
inline double normal(std::uint64_t key, std::uint64_t index) {
  const PhiloxBlock block = philox_block(key, index);
  const double first = (static_cast<double>(block.word[0]) + 0.5) * 0x1p-32;
  const double second = static_cast<double>(block.word[1]) * 0x1p-32;
  return std::sqrt(-2.0 * std::log(first)) * std::cos(2.0 * std::numbers::pi * second);
}

using Values = std::vector<float>;

inline Values noise(std::int64_t rows, std::int64_t cols, std::uint64_t key) {
  Values values(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(normal(key, i));
  }
  return values;
}

/// A dump of matrices of `rows` rows, in memory.
class MemoryDump {
 public:
  MemoryDump(std::int64_t rows, std::vector<Values> layers) : values_(std::move(layers)) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const auto bytes = std::as_bytes(std::span(values_[i]));
      const auto number = static_cast<std::int32_t>(i);
      input::Shard& shard = files_.shards.emplace_back();
      shard.source = input::make_memory_source("memory", bytes);
      files_.tensors.push_back({"hidden", decode::ElementType::kF32, {}, number, 0, bytes.size()});
      model::MatrixRecord& record = records_.emplace_back();
      record.layer = number;
      record.rows = rows;
      record.cols = static_cast<std::int64_t>(values_[i].size()) / rows;
      record.encoding = decode::plain_encoding(decode::ElementType::kF32);
      record.codes = {number, 0, bytes.size(), rows, record.cols};
    }
    watch_ = std::make_unique<engine::SourceWatch>(files_);
  }
  std::size_t size() const { return records_.size(); }
  engine::ActivationRows rows(std::size_t layer, std::span<const model::PromptRows> prompts = {},
                              engine::Pooling pooling = engine::Pooling::kNone) {
    return {*watch_, records_[layer], prompts, pooling};
  }

 private:
  std::vector<Values> values_;
  input::ModelFiles files_;
  std::vector<model::MatrixRecord> records_;
  std::unique_ptr<engine::SourceWatch> watch_;
};

/// All layers of a dump opened for a tile.
class OpenedLayers {
 public:
  explicit OpenedLayers(MemoryDump& dump) {
    for (std::size_t i = 0; i < dump.size(); ++i) {
      rows_.push_back(std::make_unique<engine::ActivationRows>(dump.rows(i)));
      sums_.push_back(std::make_unique<LayerSums>(layer_sums(*rows_.back(), 16)));
      selves_.push_back(std::make_unique<std::optional<SelfSums>>());
      layers_.push_back({rows_.back().get(), sums_.back().get(), selves_.back().get()});
    }
  }
  std::span<const TileLayer> layers() const { return layers_; }

 private:
  std::vector<std::unique_ptr<engine::ActivationRows>> rows_;
  std::vector<std::unique_ptr<LayerSums>> sums_;
  std::vector<std::unique_ptr<std::optional<SelfSums>>> selves_;
  std::vector<TileLayer> layers_;
};

inline Backend& backend() {
  static const auto cpu = cpu::make_cpu_backend(1, "");
  return *cpu;
}

/// Every layer of `a` with every one of `b`, and each with the next one.
inline TileResult tile_of(const CkaPlan& plan, MemoryDump& a, MemoryDump& b, const TileDraws& draws,
                          std::int32_t threads = 2) {
  const OpenedLayers left(a), right(b);
  std::vector<std::int64_t> next(a.size(), -1);
  for (std::size_t i = 0; i + 1 < a.size(); ++i) {
    next[i] = static_cast<std::int64_t>(i) + 1;
  }
  return measure_tile({backend(), threads}, plan, left.layers(), right.layers(), {}, next, draws);
}

/// `count` groups of `size` rows.
inline std::vector<engine::RowRun> equal_groups(std::int64_t count, std::int64_t size) {
  std::vector<engine::RowRun> groups;
  for (std::int64_t i = 0; i < count; ++i) {
    groups.push_back({i * size, size});
  }
  return groups;
}

}  // namespace vindex::commands::testing
