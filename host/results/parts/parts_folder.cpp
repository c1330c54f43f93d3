// Owns publishing a part, verifying its digest, and removing parts that a file has taken in.
#include "parts_folder.hpp"

#include "heartbeat.hpp"
#include "output_path.hpp"
#include "run_lock.hpp"
#include "share_record.hpp"

#include "core/digest.hpp"
#include "core/files/atomic_file.hpp"
#include "core/process/process_name.hpp"
#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <dirent.h>
#include <future>
#include <memory>
#include <unistd.h>

namespace vindex::results {

namespace {

constexpr std::size_t kDigestLength = 16;
constexpr const char* kExtension = ".h5";

/// The first digits of the SHA-256 of what `path` holds.
std::string digest_of_file(const std::string& path) {
  FileStorage file = FileStorage::open(path);
  Sha256 sha;
  std::vector<std::byte> block(1U << 20U);
  for (std::uint64_t at = 0; at < file.size(); at += block.size()) {
    const std::size_t count = std::min<std::uint64_t>(block.size(), file.size() - at);
    const std::span<std::byte> piece = std::span(block).first(count);
    if (!file.read(at, piece)) {
      file.rethrow_failure();
    }
    sha.update(piece);
  }
  return hex(sha.finish()).substr(0, kDigestLength);
}

/// Writes the image `memory` as `path` and checks that it is what the disk holds.
void publish_image(const std::string& path, const MemoryStorage& memory,
                   const std::string& digest) {
  AtomicFile file(path);
  file.write(0, memory.bytes());
  file.flush();
  if (digest_of_file(file.temporary_path()) != digest) {
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

}  // namespace

std::string parts_folder(const std::string& path) { return path + ".parts"; }

std::string worker_tag(std::int32_t index, std::int32_t count) {
  return fmt::format("{}of{}", index, count);
}

std::string claimer_tag(std::int32_t count) {
  return fmt::format("{}-{}of{}", host_name(), ::getpid(), count);
}

std::int32_t count_of_tag(const std::string& tag) {
  const std::size_t at = tag.rfind("of");
  return at == std::string::npos
             ? 0
             : whole_number<std::int32_t>(std::string_view(tag).substr(at + 2)).value_or(0);
}

std::optional<std::int32_t> share_of_tag(const std::string& tag, std::int32_t count) {
  const auto index = whole_number<std::int32_t>(std::string_view(tag).substr(0, tag.find("of")));
  const bool is_share = index && *index >= 0 && *index < count && tag == worker_tag(*index, count);
  return is_share ? index : std::nullopt;
}

std::string claims_folder(const std::string& folder) { return folder + "/claims"; }

PartFiles list_parts(const std::string& folder) {
  PartFiles files;
  const auto is_results = [](const std::string& name) { return name.ends_with(kExtension); };
  for (const std::string& name : names_in(folder, is_results)) {
    if (name.starts_with("run-")) {
      files.runs.push_back(folder + "/" + name);
    } else if (name.starts_with("part-")) {
      files.parts.push_back(folder + "/" + name);
    }
  }
  return files;
}

RunFiles list_run(const std::string& path) {
  RunFiles run{.files = list_parts(parts_folder(path)), .has_file = file_exists(path)};
  if (!run.has_file && run.files.runs.empty() && run.files.parts.empty()) {
    throw MissingInputError("E-RESULTS-MISSING",
                            printable(path) + " does not exist, and no run is writing it");
  }
  return run;
}

void verify_part(const std::string& path) {
  const std::string name = file_name_of(path);
  const std::size_t dash = name.rfind('-');
  const std::string promised =
      dash == std::string::npos ? "" : name.substr(dash + 1, name.size() - dash - 4);
  if (promised.size() != kDigestLength) {
    throw FormatError("E-PART-NAME", printable(path), "a part without a digest in its name");
  }
  if (digest_of_file(path) != promised) {
    throw FormatError("E-PART-DIGEST", printable(path),
                      "the part is damaged; remove it and its rows are measured again");
  }
}

std::string publish_rows(const std::string& folder, const std::string& tag, std::int64_t& sequence,
                         const FileDescription& description, std::span<const StoredRow* const> rows,
                         BulkSource& bulk) {
  // Columns of a row, and what HDF5 adds to a file; spectra of a part are not compressed.
  constexpr std::uint64_t kRowBytes = 1024;
  constexpr std::uint64_t kFileBytes = 1U << 20U;
  MemoryStorage memory;
  memory.expect(2 * min_bytes(rows) + rows.size() * kRowBytes + kFileBytes);
  write_results(memory, "a part", FileExtent::kPart, description, rows, bulk);
  Sha256 sha;
  sha.update(memory.bytes());
  const std::string digest = hex(sha.finish()).substr(0, kDigestLength);
  std::string path =
      fmt::format("{}/part-{}-{:06}-{}{}", folder, tag, sequence, digest, kExtension);
  publish_image(path, memory, digest);
  ++sequence;
  return path;
}

void publish_run(const std::string& folder, const std::string& tag,
                 const FileDescription& description, std::span<const StoredRow* const> rows) {
  NoBulk none;
  MemoryStorage memory;
  write_results(memory, "a run description", FileExtent::kDescription, description, rows, none);
  Sha256 sha;
  sha.update(memory.bytes());
  publish_image(folder + "/run-" + tag + kExtension, memory,
                hex(sha.finish()).substr(0, kDigestLength));
}

namespace {

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

namespace {
void remove_temporaries(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  while (const dirent* entry = listing ? readdir(listing.get()) : nullptr) {
    if (const std::string name = entry->d_name; name.find(".tmp.") != std::string::npos) {
      ::unlink((folder + "/" + name).c_str());
    }
  }
}
}  // namespace

std::optional<std::int64_t> part_sequence(const std::string& path, const std::string& tag) {
  const std::string name = file_name_of(path);
  const std::string prefix = "part-" + tag + "-";
  return name.starts_with(prefix) ? std::optional(number_after(name, prefix)) : std::nullopt;
}

void remove_parts(const std::string& folder) {
  const PartFiles files = list_parts(folder);
  // Records go first, so that none names what is gone; then parts: what is left after a kill in
  // between is a run without rows.
  remove_records(folder);
  for (const std::string& path : files.parts) {
    remove_file(path);
  }
  for (const std::string& path : files.runs) {
    remove_file(path);
  }
  for (const std::string& tag : heartbeat_tags(folder)) {
    remove_file(heartbeat_path(folder, tag));
  }
  // What killed workers left would keep the folder. Nobody works here any more, on no machine.
  remove_stale_locks(folder);
  remove_temporaries(folder);
  const std::string claims = claims_folder(folder);
  remove_stale_locks(claims);
  remove_temporaries(claims);
  ::rmdir(claims.c_str());
  ::rmdir(folder.c_str());
}

}  // namespace vindex::results
