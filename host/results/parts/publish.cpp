// Owns writing files that are read back before they appear.
#include "publish.hpp"

#include "parts_folder.hpp"

#include "core/files/atomic_file.hpp"
#include "results/hdf5/storage.hpp"
#include "results/reading/results_reader.hpp"
#include "results/reading/validate.hpp"
#include "results/writing/bulk_writer.hpp"
#include "results/writing/results_writer.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <future>
#include <vector>

namespace vindex::results {

namespace {

/// Writes the image `memory` as `path` and checks that it is what the disk holds.
void publish_image(const std::string& path, const MemoryStorage& memory,
                   const std::string& digest) {
  AtomicFile file(path);
  file.write(0, memory.bytes());
  file.flush();
  if (part_digest_of_file(file.temporary_path()) != digest) {
    throw SystemError("E-OUT-WRITE", 0,
                      printable(file.temporary_path()) + " does not hold what was written to it");
  }
  { const ResultsReader reader(file.temporary_path(), std::nullopt); }
  file.publish();
}

class NoBulk final : public BulkSource {
 public:
  void sigma(const StoredRow& /*row*/, std::span<double> /*out*/) override {
    expects(false, "a run description has no spectra");
  }
  SingularVectors vectors(const StoredRow& /*row*/) override { return {}; }
  ArrayCell array(const StoredRow& /*row*/, std::size_t /*number*/) override { return {}; }
};

/// Rows that make no valid file came from one that is not valid, or this program made them so.
void blame_sources(const SourcePool& pool) {
  for (const std::string& path : pool.paths()) {
    if (ResultsReader(path, std::nullopt).header().part) {
      continue;  // its digest was compared
    }
    if (const std::vector<std::string> wrong = validate_file(path); !wrong.empty()) {
      throw FormatError("E-RESULTS-INVALID", printable(path),
                        "no valid results file, and its rows make none: " + wrong.front());
    }
  }
}

/// What is wrong with the file that `file` has written, which is written through to the device
/// meanwhile. Errors: those of AtomicFile::flush() before those of validate_file().
std::vector<std::string> flush_and_validate(AtomicFile& file) {
  // Where there is no thread to be had, one after the other.
  constexpr auto kWhereThereIsAThread = std::launch::async | std::launch::deferred;
  std::future<void> flushed = std::async(kWhereThereIsAThread, [&] { file.flush(); });
  std::vector<std::string> wrong;
  try {
    wrong = validate_file(file.temporary_path());
  } catch (...) {
    flushed.get();
    throw;
  }
  flushed.get();
  return wrong;
}

void write_valid(const AtomicFile& file, const FileDescription& description,
                 std::span<const StoredRow* const> rows, SourcePool& pool) {
  FileStorage storage = FileStorage::borrow(file.descriptor(), file.temporary_path());
  write_results(storage, file.temporary_path(), FileExtent::kWhole, description, rows, pool);
  storage.rethrow_failure();
}

}  // namespace

std::string publish_rows(const std::string& folder, const std::string& tag, std::int64_t& sequence,
                         const FileDescription& description, std::span<const StoredRow* const> rows,
                         BulkSource& bulk) {
  // Columns of a row, and what HDF5 adds to a file; spectra of a part are not compressed.
  constexpr std::uint64_t kRowBytes = 1024;
  constexpr std::uint64_t kFileBytes = 1U << 20U;
  MemoryStorage memory;
  memory.expect(2 * min_bytes(rows) + rows.size() * kRowBytes + kFileBytes);
  write_results(memory, "a part", FileExtent::kPart, description, rows, bulk);
  const std::string digest = part_digest(memory.bytes());
  std::string path = fmt::format("{}/part-{}-{:06}-{}.h5", folder, tag, sequence, digest);
  publish_image(path, memory, digest);
  ++sequence;
  return path;
}

void publish_run(const std::string& folder, const std::string& tag,
                 const FileDescription& description, std::span<const StoredRow* const> rows) {
  NoBulk none;
  MemoryStorage memory;
  write_results(memory, "a run description", FileExtent::kDescription, description, rows, none);
  publish_image(folder + "/run-" + tag + ".h5", memory, part_digest(memory.bytes()));
}

void publish_results(const std::string& path, const FileDescription& description,
                     std::span<const StoredRow* const> rows, SourcePool& pool) {
  require_free_space(path, min_bytes(rows));
  AtomicFile file(path);
  try {
    write_valid(file, description, rows, pool);
    const std::vector<std::string> wrong = flush_and_validate(file);
    if (!wrong.empty()) {
      throw Error(ExitCode::kInternal, "E-RESULTS-WRITTEN",
                  "the file just written is not valid: " + wrong.front());
    }
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    if (error.exit_code() == ExitCode::kInternal) {
      blame_sources(pool);
    }
    throw;
  }
  file.publish();
}

}  // namespace vindex::results
