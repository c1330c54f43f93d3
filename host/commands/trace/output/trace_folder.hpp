// Owns what of a trace is on disk while it runs, and how its dump appears. Beside OUTPUT lies
//   OUTPUT.parts/run.json    what is run (the fingerprint); a rerun goes on where that is the same
//   OUTPUT.parts/state.json  how many layers are finished
//   OUTPUT.parts/stream.N    the residual stream behind N layers, raw float32 [tokens, hidden]
//   OUTPUT.parts/dump/       arrays, whole where their layer is finished
//   OUTPUT.parts/run.lock    of the process that works
// and other files of observers. state.json is replaced as a whole once stream.N and everything that
// observers keep of the layers before are durable, and the state before it is removed only then: a
// process that is killed at any moment loses the layer under way.
#pragma once

#include "trace_dump.hpp"

#include "commands/trace/tokens/token_rows.hpp"
#include "results/parts/lock_file.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vindex::commands {

/// "name\nvalue" lines, as RunDescription::fingerprint.
using TraceFingerprint = std::vector<std::pair<std::string, std::string>>;

/// Judges `output` before anything is opened or written: absent, or an empty folder, or (`replace`)
/// a folder of arrays of a dump and of nothing else, or such a file where is_one_file(). Errors:
/// OutputError (73) E-OUTPUT-EXISTS (what a run left beside its finished
/// dump is then removed), E-OUTPUT-NOT-A-FOLDER, E-OUTPUT-NOT-A-DUMP, E-OUTPUT-CREATE
/// where its parent is no folder.
void require_free_dump(const std::string& output, bool replace);

class TraceFolder {
 public:
  /// Takes OUTPUT.parts, which is made where it is absent; `restart` removes what lies there. What
  /// an earlier run left is kept where `fingerprint` is the same. Errors: those of
  /// require_free_dump(); ConfigurationError (78) E-RESUME-FINGERPRINT, E-RUN-LOCKED; OutputError
  /// (73) E-OUT-FOREIGN where OUTPUT.parts is of somebody else; those of writing there.
  TraceFolder(std::string output, bool replace, bool restart, const TraceFingerprint& fingerprint);
  /// Where no layer was finished, nothing is left.
  ~TraceFolder();
  TraceFolder(const TraceFolder&) = delete;
  TraceFolder& operator=(const TraceFolder&) = delete;

  const std::string& output() const { return output_; }
  const std::string& folder() const { return folder_; }
  std::string dump_folder() const { return folder_ + "/dump"; }
  /// Layers whose stream is kept; 0: none is.
  std::int32_t layers_done() const { return layers_; }
  /// Everything is in dump_folder(): only publish() is left.
  bool is_complete() const { return complete_; }

  /// The stream behind `layers` layers: of layers_done() the one that is kept, else where the next
  /// one may grow.
  std::string stream_path(std::int32_t layers) const;
  /// Says that the stream behind `layers` layers is kept under its name, durable.
  void finish_layers(std::int32_t layers);
  /// Writes `rows` to stream_path(layers), and finish_layers().
  void keep(const TokenRows& rows, std::int32_t layers);
  /// Shows that somebody works here; cheap.
  void refresh();

  /// Everything in dump_folder() is durable: gives it the name OUTPUT, or of the arrays `joined`
  /// one file (join_dump()), and removes OUTPUT.parts.
  void publish(std::span<const DumpArrayPlan> joined = {});

 private:
  void take_folder(bool restart, const TraceFingerprint& fingerprint);
  void clear() const;
  void read_state();
  void write_state() const;
  void remove_others() const;
  void remove_everything() noexcept;

  std::string output_, folder_;
  bool replace_;
  std::int32_t layers_ = 0;
  bool complete_ = false, published_ = false;
  std::unique_ptr<results::LockFile> lock_;
};

}  // namespace vindex::commands
