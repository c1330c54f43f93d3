// Owns the inputs of a unit: they wait for their slot and release it.
#include "unit_stream.hpp"

#include "derived_rows.hpp"
#include "matrix_loader.hpp"
#include "unit_slots.hpp"

#include "decode/encoding/code_layout.hpp"
#include <vindex/error.hpp>

#include <atomic>
#include <utility>

namespace vindex::engine {

namespace {

/// An input whose bytes are on their way to a slot.
class SlotInput final : public MatrixInput {
 public:
  SlotInput(UnitSlots& slots, std::size_t number) : slots_(slots), number_(number) {}

  const decode::Encoding& encoding() const override { return record().encoding; }
  std::int64_t rows() const override { return record().stored_rows(); }
  std::int64_t cols() const override { return record().stored_cols(); }
  bool transposed() const override { return record().transposed; }
  /// A digest, made when asked: few runs draw signs, and one thread begins the units of all
  /// workers.
  std::uint64_t sign_flip_key() const override { return engine::sign_flip_key(record()); }
  bool in_memory() const override { return !released_; }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    return released_ ? again().row_slab(first, count)
                     : decode::row_slab(slots_.wait(number_), first, count);
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return released_ ? again().column_slab(first, count)
                     : decode::column_slab(slots_.wait(number_), first, count);
  }
  void release() override {
    again_.reset();
    released_ = true;
    slots_.release(number_);
  }

 private:
  const model::MatrixRecord& record() const { return slots_.record(number_); }
  MatrixInput& again() {
    if (again_ == nullptr) {
      again_ = make_streamed_input(slots_.watch(number_), record(), slots_.stop_token());
    }
    return *again_;
  }

  UnitSlots& slots_;
  std::size_t number_;
  std::atomic<bool> released_{false};
  std::unique_ptr<MatrixInput> again_;
};

}  // namespace

UnitStream::UnitStream(const ModelViews& models, const WorkUnit& work, const MakeStaging& staging,
                       input::BulkReader& reader, std::shared_ptr<MemoryLease> lease)
    : ReadingUnit(work, reader, staging),
      slots_(std::make_shared<UnitSlots>(models, work, reader, std::move(lease), stop_token())) {
  for (std::size_t i = 0; i < work.matrices.size(); ++i) {
    const model::MatrixRecord& record = slots_->record(i);
    if (record.product != nullptr) {
      inputs_.push_back(nullptr);  // read by the multiplier (engine/units/derived_rows.hpp)
      continue;
    }
    try {
      std::unique_ptr<MatrixInput> stored;
      if (work.passing) {
        stored = make_passing_input(*this, slots_->watch(i), record);
      } else if (work.streamed) {
        stored = make_streamed_input(slots_->watch(i), record, stop_token());
      } else {
        stored = std::make_unique<SlotInput>(*slots_, i);
      }
      inputs_.push_back(derived_input(record, std::move(stored)));
    } catch (const Error&) {
      // Its place in a batch is held, so that its slot is released in its turn.
      inputs_.push_back(work.streamed
                            ? nullptr
                            : placeholder_input(record, std::make_unique<SlotInput>(*slots_, i)));
      slots_->set_error(i, std::current_exception());
    }
  }
  if (!work.streamed) {
    slots_->begin(take_staging(work.staging_bytes));
  }
}

UnitStream::~UnitStream() {
  // Nothing more is begun for a unit that nobody works on.
  stop();
}

std::size_t UnitStream::size() const { return inputs_.size(); }
MatrixInput* UnitStream::input(std::size_t i) { return inputs_[i].get(); }
void UnitStream::wait(std::size_t i) {
  if (!unit->streamed) {
    (void)slots_->wait(i);
  }
}
std::exception_ptr UnitStream::error(std::size_t i) const { return slots_->error(i); }
void UnitStream::require_read(std::size_t i) const {
  if (const std::exception_ptr unread = error(i); unread != nullptr) {
    std::rethrow_exception(unread);
  }
}
SourceWatch& UnitStream::watch(std::size_t model) { return slots_->watch_of(model); }

}  // namespace vindex::engine
