#include <vindex/core/error.hpp>
#include <vindex/decode/encoding.hpp>
#include <vindex/run/derived_rows.hpp>
#include <vindex/run/matrix_loader.hpp>
#include <vindex/run/unit_stream.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

namespace vindex::run {

/// Shared with the reader: it lives until the last read under way has ended.
class UnitStream::State : public std::enable_shared_from_this<UnitStream::State> {
 public:
  State(const shard::ModelFiles& files, const model::ModelIndex& index, const WorkUnit& unit,
        shard::BulkReader& reader, std::shared_ptr<MemoryLease> lease)
      : files_(files),
        index_(index),
        unit_(unit),
        reader_(reader),
        lease_(std::move(lease)),
        matrices_(unit.matrices.size()) {
    for (std::size_t slot = unit.slots; slot > 0; --slot) {
      free_slots_.push_back(slot - 1);
    }
  }

  void begin(measure::Backend& backend) {
    if (unit_.streamed) {
      return;
    }
    staging_ = backend.make_staging(static_cast<std::size_t>(unit_.staging_bytes));
    const std::span<std::byte> bytes = staging_->bytes();
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    const std::uint64_t skipped =
        (shard::kDirectAlignment - address % shard::kDirectAlignment) % shard::kDirectAlignment;
    expects(skipped + unit_.shared_bytes + unit_.slots * unit_.slot_bytes <= bytes.size(),
            "staging memory for every slot of a unit");
    base_ = bytes.data() + skipped;
    read_shared();
    read_next();
  }

  const model::MatrixRecord& record(std::size_t i) const {
    return index_.matrices[static_cast<std::size_t>(unit_.matrices[i])];
  }
  const shard::ModelFiles& files() const { return files_; }

  /// Waits for the bytes of matrix i; the view is of the whole matrix.
  const decode::EncodedMatrix& wait(std::size_t i) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || is_ready(i); });
    if (stopped_) {
      throw RunStopped{};
    }
    Matrix& matrix = matrices_[i];
    if (!matrix.checked) {
      matrix.checked = true;
      check(i, matrix);
    }
    return matrix.view;
  }

  /// The bytes of matrix i are needed no more; its slot takes the next one.
  void release(std::size_t i) {
    std::unique_ptr<measure::StagingBuffer> freed;
    bool next = false;
    {
      const std::lock_guard lock(mutex_);
      Matrix& matrix = matrices_[i];
      if (matrix.released) {
        return;
      }
      matrix.released = true;
      ++released_;
      next = matrix.arrived && free_slot_of(matrix);
      freed = freed_staging();
    }
    give_back(std::move(freed));
    if (next) {
      read_next();
    }
  }

  std::exception_ptr error(std::size_t i) const {
    const std::lock_guard lock(mutex_);
    return matrices_[i].error;
  }
  void set_error(std::size_t i, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    keep_first(matrices_[i], std::move(error));
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

 private:
  static constexpr std::size_t kNoSlot = ~std::size_t{0};

  struct Matrix {
    std::size_t slot = kNoSlot;
    std::size_t first_shared = 0;  ///< its first place in shared_at_
    std::span<std::byte> memory;   ///< of the slot that holds it
    decode::EncodedMatrix view;
    std::exception_ptr error;
    bool arrived = false, released = false, checked = false;
  };

  /// Looks into what has arrived. Group indices that name no group become an error and zeros, so
  /// that the neighbours of a batch are measured.
  void check(std::size_t i, Matrix& matrix) {
    try {
      check_companions(record(i), matrix.view);
    } catch (const Error&) {
      keep_first(matrix, std::current_exception());
      const auto indices = matrix.view.companion(decode::CompanionRole::kGroupIndex)->bytes;
      std::memset(base_ + (indices.data() - base_), 0, indices.size());
    }
  }

  static void keep_first(Matrix& matrix, std::exception_ptr error) {
    if (matrix.error == nullptr) {
      matrix.error = std::move(error);
    }
  }
  bool is_ready(std::size_t i) const { return matrices_[i].arrived && shared_arrived_; }

  /// True where there is a next matrix for it.
  bool free_slot_of(Matrix& matrix) {
    free_slots_.push_back(std::exchange(matrix.slot, kNoSlot));
    return next_ < matrices_.size() && !stopped_;
  }

  /// The staging memory, once nothing of it is or will be used.
  std::unique_ptr<measure::StagingBuffer> freed_staging() {
    const bool over = released_ == matrices_.size() && under_way_ == 0 && shared_arrived_;
    return over ? std::move(staging_) : nullptr;
  }
  void give_back(std::unique_ptr<measure::StagingBuffer> freed) {
    if (freed != nullptr) {
      freed.reset();
      lease_->give_back(unit_.staging_bytes);
    }
  }

  shard::ByteRange range_of(const model::TensorPart& part) const {
    return {&source_of(files_, part.tensor), part.offset, part.bytes};
  }

  static std::vector<shard::BulkExtent> extents_of(const shard::Placement& placement,
                                                   std::byte* base) {
    std::vector<shard::BulkExtent> extents;
    for (const shard::Placement::Piece& piece : placement.pieces) {
      extents.push_back({piece.range, base + piece.at, true});
    }
    return extents;
  }

  /// The small companions of every matrix, in one pass over the files.
  void read_shared() {
    std::vector<shard::ByteRange> ranges;
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      matrices_[i].first_shared = ranges.size();
      for (const model::CompanionPart& companion : record(i).companions) {
        if (shares_memory(unit_, companion)) {
          ranges.push_back(range_of(companion.part));
        }
      }
    }
    const shard::Placement placement = shard::place_ranges(ranges, kMergedGap);
    expects(placement.bytes <= unit_.shared_bytes, "room for the companions of a unit");
    for (const std::uint64_t at : placement.at) {
      shared_at_.push_back(base_ + at);
    }
    if (ranges.empty()) {
      shared_arrived_ = true;
      return;
    }
    reader_.submit(extents_of(placement, base_),
                   [self = shared_from_this()](const std::exception_ptr& error) {
                     self->shared_has_arrived(error != nullptr);
                   });
  }

  void shared_has_arrived(bool failed) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      for (const model::CompanionPart& companion : record(i).companions) {
        if (!shares_memory(unit_, companion)) {
          continue;
        }
        std::byte* const into = shared_at_[at++];
        try {
          if (failed) {  // one by one, so that the trouble is told of the right matrix
            read_part(files_, companion.part, {into, companion.part.bytes});
          } else {
            check_unchanged(files_, companion.part.tensor);
          }
        } catch (...) {
          set_error(i, std::current_exception());
        }
      }
    }
    std::unique_ptr<measure::StagingBuffer> freed;
    {
      const std::lock_guard lock(mutex_);
      shared_arrived_ = true;
      freed = freed_staging();
      changed_.notify_all();
    }
    give_back(std::move(freed));
  }

  /// Fills free slots with the next matrices.
  void read_next() {
    while (true) {
      std::size_t i = 0;
      std::byte* slot = nullptr;
      {
        const std::lock_guard lock(mutex_);
        if (stopped_ || free_slots_.empty() || next_ == matrices_.size()) {
          return;
        }
        i = next_++;
        matrices_[i].slot = free_slots_.back();
        free_slots_.pop_back();
        ++under_way_;
        slot = base_ + unit_.shared_bytes + matrices_[i].slot * unit_.slot_bytes;
      }
      read_matrix(i, slot);
    }
  }

  void read_matrix(std::size_t i, std::byte* slot) {
    std::vector<shard::BulkExtent> extents;
    try {
      extents = lay_out(i, slot);
    } catch (...) {
      has_arrived(i, std::current_exception());
      return;
    }
    reader_.submit(extents, [self = shared_from_this(), i](const std::exception_ptr& error) {
      self->has_arrived(i, error);
    });
  }

  /// Where the parts of matrix i go in `slot`, and its view over them.
  std::vector<shard::BulkExtent> lay_out(std::size_t i, std::byte* slot) {
    const model::MatrixRecord& matrix = record(i);
    std::vector<shard::ByteRange> ranges = {range_of(matrix.codes)};
    for (const model::CompanionPart& companion : matrix.companions) {
      if (!shares_memory(unit_, companion)) {
        ranges.push_back(range_of(companion.part));
      }
    }
    const shard::Placement placement = shard::place_ranges(ranges, kMergedGap);
    expects(placement.bytes <= unit_.slot_bytes, "a slot that holds every matrix of its unit");
    std::vector<std::span<const std::byte>> companions;
    std::size_t own = 1;
    std::size_t shared = matrices_[i].first_shared;
    for (const model::CompanionPart& companion : matrix.companions) {
      const std::byte* at =
          shares_memory(unit_, companion) ? shared_at_[shared++] : slot + placement.at[own++];
      companions.emplace_back(at, companion.part.bytes);
    }
    matrices_[i].view = encoded_view(matrix, slot + placement.at[0], companions);
    matrices_[i].memory = {slot, static_cast<std::size_t>(placement.bytes)};
    return extents_of(placement, slot);
  }

  void has_arrived(std::size_t i, std::exception_ptr error) {
    if (error == nullptr) {
      try {
        check_unchanged(files_, record(i).codes.tensor);
        for (const model::CompanionPart& companion : record(i).companions) {
          check_unchanged(files_, companion.part.tensor);
        }
      } catch (...) {
        error = std::current_exception();
      }
    }
    if (error != nullptr) {
      std::memset(matrices_[i].memory.data(), 0, matrices_[i].memory.size());
    }
    std::unique_ptr<measure::StagingBuffer> freed;
    bool next = false;
    {
      const std::lock_guard lock(mutex_);
      Matrix& matrix = matrices_[i];
      if (error != nullptr) {
        keep_first(matrix, std::move(error));
      }
      matrix.arrived = true;
      --under_way_;
      next = matrix.released && free_slot_of(matrix);
      freed = freed_staging();
      changed_.notify_all();
    }
    give_back(std::move(freed));
    if (next) {
      read_next();
    }
  }

  const shard::ModelFiles& files_;
  const model::ModelIndex& index_;
  const WorkUnit& unit_;
  shard::BulkReader& reader_;
  std::shared_ptr<MemoryLease> lease_;  // before the memory that it stands for
  std::unique_ptr<measure::StagingBuffer> staging_;
  std::byte* base_ = nullptr;
  std::vector<std::byte*> shared_at_;  ///< per shared companion, in the order of the unit
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Matrix> matrices_;
  std::vector<std::size_t> free_slots_;
  std::size_t next_ = 0, released_ = 0, under_way_ = 0;
  bool shared_arrived_ = false, stopped_ = false;

  friend class UnitStream;
};

namespace {

/// An input whose bytes are on their way to a slot.
template <typename State>
class SlotInput final : public measure::MatrixInput {
 public:
  SlotInput(State& state, std::size_t number)
      : state_(state), number_(number), key_(run::sign_flip_key(state.record(number))) {}

  const decode::Encoding& encoding() const override { return record().encoding; }
  std::int64_t rows() const override { return record().stored_rows(); }
  std::int64_t cols() const override { return record().stored_cols(); }
  bool transposed() const override { return record().transposed; }
  std::uint64_t sign_flip_key() const override { return key_; }
  bool in_memory() const override { return !released_; }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    return released_ ? again().row_slab(first, count)
                     : decode::row_slab(state_.wait(number_), first, count);
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return released_ ? again().column_slab(first, count)
                     : decode::column_slab(state_.wait(number_), first, count);
  }
  void release() override {
    again_.reset();
    released_ = true;
    state_.release(number_);
  }

 private:
  const model::MatrixRecord& record() const { return state_.record(number_); }
  measure::MatrixInput& again() {
    if (again_ == nullptr) {
      again_ = make_streamed_input(state_.files(), record());
    }
    return *again_;
  }

  State& state_;
  std::size_t number_;
  std::uint64_t key_;
  std::atomic<bool> released_{false};
  std::unique_ptr<measure::MatrixInput> again_;
};

}  // namespace

UnitStream::UnitStream(const shard::ModelFiles& files, const model::ModelIndex& index,
                       const WorkUnit& work, measure::Backend& backend, shard::BulkReader& reader,
                       std::shared_ptr<MemoryLease> lease)
    : LoadedUnit(work),
      state_(std::make_shared<State>(files, index, work, reader, std::move(lease))) {
  for (std::size_t i = 0; i < work.matrices.size(); ++i) {
    const model::MatrixRecord& record = state_->record(i);
    if (record.product != nullptr) {
      inputs_.push_back(nullptr);  // read by whoever multiplies (run/product_rows.hpp)
      continue;
    }
    try {
      std::unique_ptr<measure::MatrixInput> stored;
      if (work.streamed) {
        stored = make_streamed_input(files, record);
      } else {
        stored = std::make_unique<SlotInput<State>>(*state_, i);
      }
      inputs_.push_back(derived_input(record, std::move(stored)));
    } catch (const Error&) {
      // Its place in a batch is held, so that its slot is released in its turn.
      inputs_.push_back(
          work.streamed
              ? nullptr
              : placeholder_input(record, std::make_unique<SlotInput<State>>(*state_, i)));
      state_->set_error(i, std::current_exception());
    }
  }
  state_->begin(backend);
}

UnitStream::~UnitStream() {
  // Nothing more is begun for a unit that nobody measures.
  state_->stop();
}

std::size_t UnitStream::size() const { return inputs_.size(); }
measure::MatrixInput* UnitStream::input(std::size_t i) { return inputs_[i].get(); }
void UnitStream::wait(std::size_t i) {
  if (!unit->streamed) {
    (void)state_->wait(i);
  }
}
std::exception_ptr UnitStream::error(std::size_t i) const { return state_->error(i); }
void UnitStream::stop() { state_->stop(); }

}  // namespace vindex::run
