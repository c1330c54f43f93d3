// Owns listing a parts folder, verifying digests, and removing parts that a file has taken in.
#include "parts_folder.hpp"

#include "heartbeat.hpp"
#include "output_path.hpp"
#include "run_lock.hpp"
#include "share_record.hpp"

#include "core/digest.hpp"
#include "core/files/atomic_file.hpp"
#include "core/files/path_kind.hpp"
#include "core/files/process_name.hpp"
#include "core/text/text_parts.hpp"
#include "results/hdf5/storage.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <dirent.h>
#include <memory>
#include <unistd.h>

namespace vindex::results {

namespace {

constexpr std::size_t kDigestLength = 16;
constexpr const char* kExtension = ".h5";

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

std::string part_digest(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.update(bytes);
  return hex(sha.finish()).substr(0, kDigestLength);
}

std::string part_digest_of_file(const std::string& path) {
  FileStorage file = FileStorage::open(path);
  Sha256 sha;
  std::vector<std::byte> block(1U << 20U);
  for (std::uint64_t at = 0; at < file.size(); at += block.size()) {
    const std::size_t count = std::min<std::uint64_t>(block.size(), file.size() - at);
    const std::span<std::byte> rest = std::span(block).first(count);
    if (!file.read(at, rest)) {
      file.rethrow_failure();
    }
    sha.update(rest);
  }
  return hex(sha.finish()).substr(0, kDigestLength);
}

void verify_part(const std::string& path) {
  const std::string name = file_name_of(path);
  const std::size_t dash = name.rfind('-');
  const std::string promised =
      dash == std::string::npos ? "" : name.substr(dash + 1, name.size() - dash - 4);
  if (promised.size() != kDigestLength) {
    throw FormatError("E-PART-NAME", printable(path), "a part without a digest in its name");
  }
  if (part_digest_of_file(path) != promised) {
    throw FormatError("E-PART-DIGEST", printable(path),
                      "the part is damaged; remove it and its rows are measured again");
  }
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
