#include <vindex/core/error.hpp>
#include <vindex/core/leftovers.hpp>
#include <vindex/core/output_sink.hpp>
#include <vindex/core/path_kind.hpp>
#include <vindex/core/standard_output.hpp>

namespace vindex {

OutputSink::OutputSink(const std::string& target, const OutputErrorIds& ids) {
  if (target.empty()) {
    throw OutputError(ids.create, "an empty name is no file to write to");
  }
  if (target == "-") {
    return;
  }
  const PathKind kind = path_kind(target);
  if (kind == PathKind::kFolder || kind == PathKind::kOther) {
    throw OutputError(ids.create, printable(target) + ": exists and is no regular file");
  }
  remove_leftovers_of(target);
  file_.emplace(target, ids);
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
