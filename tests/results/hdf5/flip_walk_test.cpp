// One changed byte anywhere in a results file: whoever reads it gets what was written or an error
// (65), and validate calls it valid only where everything in it is what was written.
#include "robustness_fixture.hpp"

#include "results/hdf5/text_digest.hpp"
#include "results/reading/results_reader.hpp"
#include "results/reading/validate.hpp"
#include "tests/results/cell_run.hpp"
#include "tests/results/sample_run.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace vindex::results::testing::flip_walk_test {
namespace {

/// The digest of all that readers take from a file: every value and every text attribute.
class Contents {
 public:
  explicit Contents(const std::string& path) : reader_(path, std::nullopt) {
    const h5::File& file = reader_.file();
    for (const char* name : {"title", "model", "backend", "status", "schema_version"}) {
      add(name, file.text_attribute("/", name));
    }
    add("total", std::to_string(file.integer_attribute("/", "matrices_total")));
    below("");
  }
  std::string digest() { return digest_.finish(); }

 private:
  void add(const std::string& name, std::string_view text) {
    digest_.add(name);
    digest_.add(std::to_string(text.size()));
    digest_.add(hex(sha256(text)));
  }

  void below(const std::string& group) {
    const h5::File& file = reader_.file();
    for (const std::string& name : file.list(group.empty() ? "/" : group)) {
      const std::string path = group + "/" + name;
      file.check_attributes(path);
      for (const char* text : {"long_name", "units", "coordinates", "flag_meanings"}) {
        if (file.has_attribute(path, text)) {
          add(path + text, file.text_attribute(path, text));
        }
      }
      file.is_group(path) ? below(path) : values(path);
    }
  }

  void values(const std::string& path) {
    const h5::File& file = reader_.file();
    const h5::Dataset dataset = file.open_dataset(path);
    if (dataset.type() == h5::Type::kString) {
      for (const std::string& text : file.read_strings(path)) {
        add(path, text);
      }
      return;
    }
    std::uint64_t elements = h5::type_bytes(dataset.type());
    for (const std::uint64_t side : dataset.shape()) {
      elements *= side;
    }
    std::string bytes(elements, '\0');
    dataset.read_bytes(0, dataset.side(0), std::as_writable_bytes(std::span(bytes)));
    add(path, bytes);
  }

  ResultsReader reader_;
  TextDigest digest_;
};

/// What reading and validating `path` has against the promise of this file; nothing: it is kept.
std::string breach(const std::string& path, const std::string& wanted) {
  std::string read;
  const Outcome reading = outcome_of([&] { read = Contents(path).digest(); });
  if (reading.code == ExitCode::kOk && read != wanted) {
    return "other values without an error";
  }
  bool is_valid = false;
  const Outcome validating = outcome_of([&] { is_valid = validate_file(path).empty(); });
  for (const Outcome& outcome : {reading, validating}) {
    if (outcome.code != ExitCode::kOk && outcome.code != ExitCode::kMalformedInput) {
      return "exit code " + std::to_string(static_cast<int>(outcome.code)) + " " + outcome.id;
    }
  }
  return is_valid && reading.code != ExitCode::kOk ? "valid, and reading ends with " + reading.id
                                                   : "";
}

struct Kind {
  std::string name;
  std::string bytes;
};

std::vector<Kind> kinds(const TestFolder& folder) {
  std::vector<Kind> all;
  const std::string path = folder / "whole.h5";
  SampleOptions options;
  options.layers = 1;
  options.experts = 2;
  options.vectors = 2;
  write_sample(path, weighted_run(options));
  all.push_back({"results", read_file(path)});
  for (const FileSchema schema : cell_kinds()) {
    fs::remove(path);
    write_cells(path, cell_run(schema, 2));
    all.push_back({schema_of(schema).name, read_file(path)});
  }
  return all;
}

/// Bytes of the places that no checksum of the format covers: nodes of the indices of chunks
/// (signature, level, keys, addresses) and heaps of text; `few` of each.
std::vector<std::size_t> open_places(const std::string& bytes, std::size_t few) {
  std::vector<std::size_t> places;
  for (const auto& [signature, length] :
       {std::pair{std::string("TREE"), std::size_t{72}}, {std::string("GCOL"), std::size_t{96}}}) {
    std::size_t found = 0;
    for (std::size_t at = bytes.find(signature); at != std::string::npos && found < few;
         at = bytes.find(signature, at + 1), ++found) {
      for (std::size_t i = 0; i < length && at + i < bytes.size(); i += 7) {
        places.push_back(at + i);
      }
    }
  }
  return places;
}

TEST(FlipWalk, AChangedByteIsTheSameValuesOrAnError) {
  // All of them: VINDEX_FLIP_STRIDE=1. The library may crash on what it believes, so that flips
  // are tried in children.
  const char* const asked = std::getenv("VINDEX_FLIP_STRIDE");
  const TestFolder folder;
  for (const Kind& kind : kinds(folder)) {
    const std::string original = folder / "original.h5";
    write_file(original, kind.bytes);
    const std::string wanted = Contents(original).digest();
    std::vector<std::size_t> places;
    const std::size_t stride =
        asked == nullptr ? kind.bytes.size() / 12 : static_cast<std::size_t>(std::atoi(asked));
    for (std::size_t at = 1; at < kind.bytes.size(); at += stride) {
      places.push_back(at);
    }
    if (asked == nullptr) {
      const std::vector<std::size_t> more = open_places(kind.bytes, 1);
      places.insert(places.end(), more.begin(), more.end());
    }
    const std::string notes = folder / "notes";
    const int status = in_child([&] {
      for (std::size_t i = 0; i < places.size(); ++i) {
        std::string damaged = kind.bytes;
        constexpr char kMasks[] = {0x01, '\x80', 0x10, '\xFF', 0x02};
        damaged[places[i]] = static_cast<char>(damaged[places[i]] ^ kMasks[i % sizeof kMasks]);
        const std::string path = folder / "damaged.h5";
        std::ofstream(notes, std::ios::app) << "byte " << places[i];
        write_file(path, damaged);
        const std::string found = breach(path, wanted);
        std::ofstream(notes, std::ios::app) << (found.empty() ? ": ok\n" : ": " + found + "\n");
      }
    });
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << kind.name << ": " << status;
    std::ifstream lines(notes);
    std::size_t kept = 0;
    for (std::string line; std::getline(lines, line);) {
      kept += line.ends_with(": ok") ? 1 : 0;
      EXPECT_TRUE(line.ends_with(": ok"))
          << kind.name << " of " << kind.bytes.size() << ", " << line;
    }
    EXPECT_EQ(kept, places.size()) << kind.name;
    fs::remove(notes);
  }
}

}  // namespace
}  // namespace vindex::results::testing::flip_walk_test
