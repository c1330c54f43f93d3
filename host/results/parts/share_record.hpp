// Owns what says that a share of a run is finished: OUT.h5.parts/<share>of<n>.done, a small text
// that names the parts with its rows. Published after them, replaced as a whole. Parts alone hold
// results; a record says that they are complete, so that a part that is lost is missed by its name,
// and which parts count where two processes have measured the same share. Lines "name value":
//   division D   which rows of the run are whose (division_digest())
//   owner HOST PID START   who finished it
//   rows N       of the share
//   part NAME    a part with rows of the share, in the same folder; one line each
//   end          the text is whole
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::results {

struct ShareRecord {
  std::string division, owner;
  std::int64_t rows = 0;
  std::vector<std::string> parts;  ///< names, sorted
  bool operator==(const ShareRecord&) const = default;
};

/// Digest of a division: `owners[i]` has the row `keys[i]`.
std::string division_digest(const std::vector<std::string>& keys,
                            const std::vector<std::int32_t>& owners);

std::string record_text(const ShareRecord& record);
/// Nothing where the text is not whole or a name in it could lead out of the folder.
std::optional<ShareRecord> parse_record(std::string_view text);

/// Replaces the record of share `tag` ("2of16") in `folder`. Errors: SystemError, OutputError.
void write_record(const std::string& folder, const std::string& tag, const ShareRecord& record);
/// Nothing where there is none that can be believed.
std::optional<ShareRecord> read_record(const std::string& folder, const std::string& tag);
/// Shares with a record in `folder`, by name. Errors: SystemError E-PART-FOLDER.
std::vector<std::string> record_tags(const std::string& folder);
/// Errors: SystemError.
void remove_records(const std::string& folder);

}  // namespace vindex::results
