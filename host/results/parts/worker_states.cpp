// Owns the rules by which files become states of workers.
#include "worker_states.hpp"

#include "output_path.hpp"
#include "parts_folder.hpp"
#include "run_lock.hpp"
#include "share_record.hpp"

#include "core/files/file_clock.hpp"
#include "core/files/path_kind.hpp"
#include "core/text/text_parts.hpp"

#include <algorithm>
#include <set>

namespace vindex::results {

namespace {

/// A worker without a sign for so long is called slow: heartbeats are written every second, and a
/// network file system shows them to others within a minute.
constexpr double kSilentSeconds = 60.0;
/// Beyond so many, shares that nobody has begun are not listed one by one.
constexpr std::int32_t kMostListed = 4096;

/// The tags of the workers that have left anything but a record.
std::set<std::string> tags_in(const std::string& folder, const Heartbeats& heartbeats) {
  std::set<std::string> tags;
  const std::string prefix = "run-";
  for (const std::string& path : list_parts(folder).runs) {
    const std::string name = file_name_of(path);
    tags.insert(name.substr(prefix.size(), name.rfind('.') - prefix.size()));
  }
  for (const std::string& tag : locked_tags(folder)) {
    tags.insert(tag);
  }
  for (const auto& [tag, heartbeat] : heartbeats.all) {
    tags.insert(tag);
  }
  std::erase_if(tags, [](const std::string& tag) { return count_of_tag(tag) <= 1; });
  return tags;
}

/// "HOST PID START" of a heartbeat.
void set_owner(WorkerStatus& worker, const std::string& owner) {
  const std::vector<std::string_view> words = split(owner, ' ');
  if (words.size() >= 2) {
    worker.host = words[0];
    worker.pid = whole_number<std::int64_t>(words[1]).value_or(0);
  }
}

/// Worker `tag` by its lock and its heartbeat.
WorkerStatus look_at(const std::string& folder, const std::string& tag,
                     const Heartbeats& heartbeats, const FileClock& clock) {
  WorkerStatus worker;
  worker.tag = tag;
  // In this order: who ends properly meanwhile removes the heartbeat first and then the lock.
  const std::string lock = lock_path(folder, tag);
  const bool is_alive = file_exists(lock) && !is_stale_lock(lock, clock);
  const auto found = heartbeats.all.find(tag);
  if (found != heartbeats.all.end()) {
    const Heartbeat& heartbeat = found->second;
    set_owner(worker, heartbeat.owner);
    worker.own_total = heartbeat.progress.own_total;
    worker.own_done = heartbeat.progress.own_done;
    worker.rate_per_second = heartbeat.progress.rate_per_second;
    worker.pace = heartbeat.progress.pace;
    worker.seen_seconds = heartbeat_age(folder, tag, clock.now());
  }
  worker.state = is_alive                                          ? WorkerState::kAlive
                 : worker.seen_seconds >= 0.0 || file_exists(lock) ? WorkerState::kDead
                                                                   : WorkerState::kStopped;
  return worker;
}

}  // namespace

const char* worker_state_name(WorkerState state) {
  switch (state) {
    case WorkerState::kAlive:
      return "alive";
    case WorkerState::kSlow:
      return "slow";
    case WorkerState::kDead:
      return "dead";
    case WorkerState::kStopped:
      return "stopped";
    case WorkerState::kDone:
      return "done";
    case WorkerState::kAbsent:
      break;
  }
  return "not begun";
}

bool Heartbeats::is_alive(const std::string& tag) const {
  return std::find(alive.begin(), alive.end(), tag) != alive.end();
}

Heartbeats read_heartbeats(const std::string& folder) {
  Heartbeats found;
  for (const std::string& tag : heartbeat_tags(folder)) {
    Heartbeat heartbeat = read_heartbeat(folder, tag);
    if (is_held(folder, tag, heartbeat.owner)) {
      found.alive.push_back(tag);
    }
    found.all.emplace(tag, std::move(heartbeat));
  }
  return found;
}

void mark_slow(std::vector<WorkerStatus>& workers) {
  std::vector<double> paces;
  for (const WorkerStatus& worker : workers) {
    if (worker.state == WorkerState::kAlive && worker.pace > 0.0) {
      paces.push_back(worker.pace);
    }
  }
  std::sort(paces.begin(), paces.end());
  const std::size_t middle = paces.size() / 2;
  const double median = paces.empty()           ? 0.0
                        : paces.size() % 2 == 1 ? paces[middle]
                                                : (paces[middle - 1] + paces[middle]) / 2;
  for (WorkerStatus& worker : workers) {
    const bool is_behind = worker.pace > 0.0 && worker.pace < median / 2;
    if (worker.state == WorkerState::kAlive &&
        (is_behind || worker.seen_seconds > kSilentSeconds)) {
      worker.state = WorkerState::kSlow;
    }
  }
}

std::vector<WorkerStatus> list_workers(const std::string& folder, const Heartbeats& heartbeats) {
  const std::set<std::string> tags = tags_in(folder, heartbeats);
  const std::vector<std::string> listed = record_tags(folder);
  const std::set<std::string> records(listed.begin(), listed.end());
  const FileClock clock(folder);
  std::vector<WorkerStatus> shares;
  std::vector<WorkerStatus> claimers;
  std::int32_t count = 0;
  for (const std::string& tag : tags) {
    WorkerStatus worker = look_at(folder, tag, heartbeats, clock);
    if (share_of_tag(tag, count_of_tag(tag))) {
      const bool is_done = worker.state != WorkerState::kAlive && records.contains(tag);
      worker.state = is_done ? WorkerState::kDone : worker.state;
      count = std::max(count, count_of_tag(tag));
      shares.push_back(std::move(worker));
    } else if (worker.state != WorkerState::kStopped) {  // else it has left its shares to others
      claimers.push_back(std::move(worker));
    }
  }
  for (std::int32_t share = 0; share < std::min(count, kMostListed); ++share) {
    const std::string tag = worker_tag(share, count);
    if (!tags.contains(tag)) {
      WorkerStatus& worker = shares.emplace_back();
      worker.tag = tag;
      worker.state = records.contains(tag) ? WorkerState::kDone : WorkerState::kAbsent;
    }
  }
  for (WorkerStatus& worker : shares) {
    if (worker.state == WorkerState::kDone) {
      const std::int64_t rows = read_record(folder, worker.tag).value_or(ShareRecord()).rows;
      worker.own_total = worker.own_done = rows;
    }
  }
  const auto number = [](const WorkerStatus& worker) {
    return std::pair(count_of_tag(worker.tag),
                     share_of_tag(worker.tag, count_of_tag(worker.tag)).value_or(-1));
  };
  std::sort(shares.begin(), shares.end(),
            [&](const WorkerStatus& a, const WorkerStatus& b) { return number(a) < number(b); });
  shares.insert(shares.end(), claimers.begin(), claimers.end());
  mark_slow(shares);
  return shares;
}

}  // namespace vindex::results
