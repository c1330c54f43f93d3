// Owns reading slabs of codes; companions are read once.
#include "matrix_loader.hpp"

#include "read_ahead_window.hpp"

#include "core/process/stop.hpp"
#include "decode/encoding/code_layout.hpp"

#include <span>
#include <stop_token>
#include <vector>

namespace vindex::engine {

namespace {

/// Codes stay in the file; each slab call reads its bytes into one reused buffer, or finds them on
/// their way where rows pass by once.
class StreamedInput final : public MatrixInput {
 public:
  StreamedInput(SourceWatch& watch, const model::MatrixRecord& matrix, std::stop_token stop,
                std::unique_ptr<ReadAheadWindow> passing)
      : watch_(watch),
        matrix_(matrix),
        key_(engine::sign_flip_key(matrix)),
        stop_(std::move(stop)),
        passing_(std::move(passing)) {
    std::vector<std::span<const std::byte>> spans;
    for (const model::CompanionPart& companion : matrix.companions) {
      companions_.emplace_back(companion.part.bytes);
      read_part(watch, companion.part, companions_.back());
      spans.emplace_back(companions_.back());
    }
    whole_ = encoded_view(matrix, nullptr, spans);
    check_companions(matrix, whole_);
  }

  const decode::Encoding& encoding() const override { return matrix_.encoding; }
  std::int64_t rows() const override { return whole_.rows; }
  std::int64_t cols() const override { return whole_.cols; }
  bool transposed() const override { return matrix_.transposed; }
  std::uint64_t sign_flip_key() const override { return key_; }
  bool in_memory() const override { return false; }
  bool has_cheap_slabs() const override { return passing_ != nullptr; }

  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    return read(decode::cut_rows(whole_, first, count));
  }

  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return read(decode::cut_columns(whole_, first, count));
  }

 private:
  /// Reads the codes of `cut`: what lies in one run by one request, else all runs by one call.
  decode::EncodedMatrix read(const decode::Cut& cut) {
    throw_if_stopped(stop_);
    const decode::CodeWindow window = decode::code_window(cut.view);
    const auto width = static_cast<std::size_t>(window.width);
    const auto height = static_cast<std::size_t>(window.height);
    if (passing_ != nullptr && window.stride == window.width) {
      const std::byte* const codes =
          passing_->at(static_cast<std::uint64_t>(cut.offset + window.offset), width * height);
      watch_.was_read(matrix_.codes.tensor);
      return decode::with_codes(cut.view, codes);
    }
    slab_.resize(width * height);
    const std::uint64_t first =
        matrix_.codes.offset + static_cast<std::uint64_t>(cut.offset + window.offset);
    ByteSource& source = source_of(watch_.files(), matrix_.codes.tensor);
    if (window.stride == window.width) {
      source.read(first, slab_);
    } else {
      std::vector<ReadRequest> requests(height);
      for (std::size_t r = 0; r < height; ++r) {
        requests[r] = {.offset = first + static_cast<std::uint64_t>(window.stride) * r,
                       .into = std::span(slab_).subspan(r * width, width)};
      }
      source.read_many(requests);
    }
    watch_.was_read(matrix_.codes.tensor);
    return decode::with_codes(cut.view, slab_.data());
  }

  SourceWatch& watch_;
  const model::MatrixRecord& matrix_;
  std::uint64_t key_;
  std::stop_token stop_;
  std::unique_ptr<ReadAheadWindow> passing_;
  std::vector<std::vector<std::byte>> companions_;
  std::vector<std::byte> slab_;
  decode::EncodedMatrix whole_;
};

}  // namespace

std::unique_ptr<MatrixInput> make_streamed_input(SourceWatch& watch,
                                                 const model::MatrixRecord& matrix,
                                                 std::stop_token stop) {
  return std::make_unique<StreamedInput>(watch, matrix, std::move(stop), nullptr);
}

std::unique_ptr<MatrixInput> make_passing_input(ReadingUnit& unit, SourceWatch& watch,
                                                const model::MatrixRecord& matrix) {
  // Its first windows are under way while companions are read.
  auto codes = std::make_unique<ReadAheadWindow>(
      unit, input::ByteRange{&source_of(watch.files(), matrix.codes.tensor), matrix.codes.offset,
                             matrix.codes.bytes});
  return std::make_unique<StreamedInput>(watch, matrix, unit.stop_token(), std::move(codes));
}

}  // namespace vindex::engine
