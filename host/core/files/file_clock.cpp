// Owns asking a file system for its time: a file without a name is made there and its stamp is
// read.
#include "file_clock.hpp"

#include "atomic_file.hpp"
#include "temporary_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vindex {

namespace {

std::time_t time_in(const std::string& folder) {
  // Without a name where that is to be had: nobody who empties the folder meets it.
  int descriptor = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    const std::string name = temporary_name(folder + "/clock");
    descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor >= 0) {
      ::unlink(name.c_str());
    }
  }
  struct stat status = {};
  const bool is_stamped = descriptor >= 0 && ::fstat(descriptor, &status) == 0;
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  return is_stamped ? status.st_mtime : std::time(nullptr);
}

}  // namespace

FileClock::FileClock(std::string folder) : folder_(std::move(folder)) {}

std::time_t FileClock::now() const {
  if (!now_) {
    now_ = time_in(folder_);
  }
  return *now_;
}

}  // namespace vindex
