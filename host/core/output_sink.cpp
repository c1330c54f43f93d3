#include <vindex/core/output_sink.hpp>
#include <vindex/core/standard_output.hpp>

namespace vindex {

OutputSink::OutputSink(const std::string& target, const OutputErrorIds& ids) {
  if (target != "-") {
    file_.emplace(target, ids);
  }
}

void OutputSink::write(std::span<const std::byte> bytes) {
  if (!file_) {
    return write_standard_output(bytes);
  }
  file_->write(written_, bytes);
  written_ += bytes.size();
}

void OutputSink::commit() {
  if (file_) {
    file_->publish();
  }
}

}  // namespace vindex
