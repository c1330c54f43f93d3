// Owns what the tests of units stand on: a model whose bytes are computed, a back end that compares
// what it is handed with them, and the pool that leads one to the other.
#pragma once

#include "commands/spectra/spectrum_plan.hpp"
#include "engine/run/worker_pool.hpp"
#include "engine/units/unit_stream.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/faulty_source.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

namespace vindex::engine {

inline constexpr std::int64_t kRows = 128, kCols = 512;
inline constexpr std::uint64_t kCodeBytes = kRows * kCols * 2;
inline constexpr std::uint64_t kScaleBytes = 96;

inline std::byte byte_at(std::uint64_t offset) {
  return static_cast<std::byte>((offset * 2654435761U) >> 13U);
}

/// A "model" of one file: BF16 codes, and behind all of them one small companion per matrix.
struct Model {
  explicit Model(std::size_t count) {
    const std::uint64_t header = 77;  // nothing is aligned
    content.resize(header + count * (kCodeBytes + kScaleBytes + 5));
    for (std::size_t i = 0; i < content.size(); ++i) {
      content[i] = static_cast<char>(byte_at(i));
    }
    files.shards.emplace_back();
    for (std::size_t i = 0; i < count; ++i) {
      model::MatrixRecord matrix;
      matrix.tensor = "t" + std::to_string(i);
      matrix.rows = kRows;
      matrix.cols = kCols;
      matrix.encoding = decode::plain_encoding(decode::ElementType::kBF16);
      matrix.codes = part(header + i * (kCodeBytes + 5), kCodeBytes);
      const std::uint64_t scales = header + count * (kCodeBytes + 5) + i * kScaleBytes;
      matrix.companions.push_back(
          {decode::CompanionRole::kScale, decode::ElementType::kF32, part(scales, kScaleBytes)});
      index.matrices.push_back(std::move(matrix));
    }
  }
  model::TensorPart part(std::uint64_t offset, std::uint64_t bytes) {
    input::StoredTensor& stored = files.tensors.emplace_back();
    stored.offset = offset;
    stored.bytes = bytes;
    return {static_cast<std::int32_t>(files.tensors.size()) - 1, offset, bytes, 1, 1};
  }
  void from_memory() {
    memory = input::make_memory_source("m", testing::bytes_of(content));
    use(std::make_unique<testing::FaultySource>(*memory, testing::Fault::kFails, ~0ULL));
  }
  void use(std::unique_ptr<ByteSource> source) {
    files.shards[0].identity = source->identity();
    files.shards[0].source = std::move(source);
  }
  WorkPlan plan(std::uint64_t budget, std::int32_t workers, std::int64_t batch,
                std::int64_t held) const {
    std::vector<std::int64_t> all(index.matrices.size());
    std::iota(all.begin(), all.end(), 0);
    return commands::plan_work(
        index, all, {}, {.ram_budget = budget, .workers = workers, .batch = batch, .held = held},
        [](const void*, const model::MatrixRecord&, InputBytes) { return std::uint64_t{1000}; },
        nullptr, false);
  }

  std::string content;
  std::unique_ptr<ByteSource> memory;
  input::ModelFiles files;
  model::ModelIndex index;
};

class HeapStaging final : public StagingBuffer {
 public:
  HeapStaging(std::size_t bytes, std::atomic<std::int64_t>& live) : bytes_(bytes), live_(live) {
    live_ += static_cast<std::int64_t>(bytes);
  }
  ~HeapStaging() override { live_ -= static_cast<std::int64_t>(bytes_.size()); }
  HeapStaging(const HeapStaging&) = delete;
  HeapStaging& operator=(const HeapStaging&) = delete;
  std::span<std::byte> bytes() override { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  std::atomic<std::int64_t>& live_;
};

/// Compares the bytes of its inputs with the file's, keeps its promise of `held` inputs, releases
/// in a random order within it, and sleeps a little now and then.
class ComparingBackend final : public Backend {
 public:
  ComparingBackend(const Model& model, std::int32_t calls, std::int64_t held, unsigned seed)
      : model_(model), calls_(calls), held_(held), random_(seed) {}
  BackendInfo info() const override { return {}; }
  BackendLimits limits() const override {
    return {.concurrent_calls = calls_, .batch = 1000, .held_inputs = held_};
  }
  std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) override {
    auto staging = std::make_unique<HeapStaging>(bytes, live);
    worst = std::max(worst.load(), live.load());
    return staging;
  }
  std::uint64_t workspace_bytes(const decode::Encoding&, std::int64_t, std::int64_t,
                                const MeasureOptions&, InputBytes) const override {
    return 1000;
  }
  void measure(std::span<MatrixInput* const> batch, const MeasureOptions&, std::uint64_t,
               std::span<MatrixReport>) override {
    std::deque<MatrixInput*> held;
    for (MatrixInput* input : batch) {
      pause();
      while (static_cast<std::int64_t>(held.size()) >= std::max<std::int64_t>(held_, 1)) {
        const std::size_t which = draw() % held.size();
        held[which]->release();
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      }
      check(*input);
      held.push_back(input);
    }
    while (!held.empty()) {
      held.front()->release();
      held.pop_front();
    }
  }
  void decode(const decode::EncodedMatrix&, std::span<float>) override {}

  /// True where the codes and the companion are the file's; false where the codes are zeros.
  bool same(MatrixInput& input) {
    const decode::EncodedMatrix slab = input.row_slab(8, 8);
    const model::MatrixRecord& record = record_of(input);
    const auto stride = static_cast<std::uint64_t>(kCols) * 2;
    bool equal = true, zero = true;
    for (std::uint64_t i = 0; i < 8 * stride; ++i) {
      equal = equal && slab.codes[i] == byte_at(record.codes.offset + 8 * stride + i);
      zero = zero && slab.codes[i] == std::byte{0};
    }
    const auto& companion = slab.companions[0].bytes;
    for (std::uint64_t i = 0; equal && i < companion.size(); ++i) {
      equal = companion[i] == byte_at(record.companions[0].part.offset + i);
    }
    EXPECT_TRUE(equal || zero) << record.tensor;
    return equal;
  }

  std::atomic<std::int64_t> live{0}, worst{0};
  std::atomic<int> good{0}, zeros{0};
  bool sleepy = true;

 private:
  const model::MatrixRecord& record_of(const MatrixInput& input) const {
    return *std::find_if(model_.index.matrices.begin(), model_.index.matrices.end(),
                         [&](const auto& m) { return &m.encoding == &input.encoding(); });
  }
  void check(MatrixInput& input) { ++(same(input) ? good : zeros); }
  std::size_t draw() {
    const std::lock_guard lock(mutex_);
    return random_();
  }
  void pause() {
    if (sleepy && draw() % 4 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(draw() % 200));
    }
  }

  const Model& model_;
  std::int32_t calls_;
  std::int64_t held_;
  std::mutex mutex_;
  std::mt19937 random_;
};

inline MakeStaging staging_of(Backend& backend) {
  return [&backend](std::size_t bytes) { return backend.make_staging(bytes); };
}

/// What a run does with its units, and what became of each matrix.
class Machine {
 public:
  Machine(Model& model, std::uint64_t budget, std::int32_t devices, std::int32_t calls,
          std::int64_t batch, std::int64_t held, unsigned seed, bool sleepy = true)
      : model_(model), plan_(model.plan(budget, devices * calls, batch, held)) {
    for (std::int32_t i = 0; i < devices; ++i) {
      auto backend = std::make_unique<ComparingBackend>(model, calls, held, seed + 31U * i);
      backend->sleepy = sleepy;
      comparing_.push_back(backend.get());
      backends_.push_back(std::move(backend));
    }
    pool_ = std::make_unique<WorkerPool>(
        plan_.units, budget, std::vector<std::int32_t>(static_cast<std::size_t>(devices), calls),
        [this](const WorkUnit& unit, std::shared_ptr<MemoryLease> lease) {
          return std::make_shared<UnitStream>(views_, unit, staging_of(*backends_[0]), reader_,
                                              std::move(lease));
        },
        [this](LoadedUnit& loaded, std::size_t device) {
          auto& unit = static_cast<UnitStream&>(loaded);
          std::vector<MatrixInput*> inputs;
          for (std::size_t i = 0; i < unit.size(); ++i) {
            inputs.push_back(unit.input(i));
          }
          std::vector<MatrixReport> reports(inputs.size());
          backends_[device]->measure(inputs, {}, 0, reports);
          for (std::size_t i = 0; i < unit.size(); ++i) {
            failed_ += unit.error(i) != nullptr ? 1 : 0;
            ++measured_;
          }
        },
        [] {});
  }
  WorkerPool& pool() { return *pool_; }
  const WorkPlan& plan() const { return plan_; }
  int measured() const { return measured_; }
  int failed() const { return failed_; }
  int good() const {
    int sum = 0;
    for (const auto* backend : comparing_) {
      sum += backend->good;
    }
    return sum;
  }
  std::int64_t worst_staging() const { return comparing_[0]->worst; }
  std::int64_t live_staging() const { return comparing_[0]->live; }

 private:
  Model& model_;
  ModelViews views_ = {{&model_.files, &model_.index}};
  WorkPlan plan_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<ComparingBackend*> comparing_;
  input::BulkReader reader_{{.depth = 3, .threads = 3}};
  std::atomic<int> measured_{0}, failed_{0};
  std::unique_ptr<WorkerPool> pool_;
};

}  // namespace vindex::engine
