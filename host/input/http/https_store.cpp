// Owns https:// and http:// as a store: one file at an address, and those beside it by their names.
// No server lists a folder in a way that others share, so what lies there is asked for one by one.
#include "https_store.hpp"

#include "http_source.hpp"

#include "input/model_store.hpp"
#include "input/remote/remote_address.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace vindex::input {

namespace {

class HttpsStore final : public ModelStore {
 public:
  HttpsStore(std::string address, const std::stop_token& stop)
      : address_(std::move(address)),
        client_(std::make_shared<HttpClient>(http_settings(), HttpCredential{}, stop)) {
    const std::string path = address_.substr(0, address_.find('?'));
    query_ = address_.substr(path.size());
    const std::size_t slash = path.rfind('/');
    folder_ = path.substr(0, slash + 1);
    file_ = percent_decoded(path.substr(slash + 1));
  }

  const std::string& address() const override { return address_; }
  const std::string& file() const override { return file_; }
  std::string location(std::string_view name) const override {
    if (name == file_) {
      return address_;
    }
    return name.empty() ? folder_ : folder_ + percent_encoded(name) + query_;
  }
  std::vector<StoreMember> list() override {
    throw RemoteError("E-REMOTE-LIST",
                      fmt::format("{}: what lies on a server of https cannot be listed: name its "
                                  "files one by one",
                                  printable(folder_)),
                      false);
  }
  MemberState state(std::string_view name) override { return http_state(*client_, named(name)); }

 private:
  std::unique_ptr<ByteSource> open_member(std::string_view name) override {
    return open_http_source(client_, named(name));
  }
  HttpFile named(std::string_view name) const {
    // What stands behind ? may be a secret: it is in no message.
    const std::string shown = folder_ + percent_encoded(name.empty() ? file_ : name);
    return {.url = location(name), .name = printable(shown), .revision = {}};
  }

  std::string address_;
  std::string folder_;  ///< with the slash at its end
  std::string file_;
  std::string query_;  ///< with its question mark
  std::shared_ptr<HttpClient> client_;
};

}  // namespace

std::shared_ptr<ModelStore> open_https_store(const std::string& address,
                                             const std::stop_token& stop) {
  check_remote_address(address);
  return std::make_shared<HttpsStore>(address, stop);
}

}  // namespace vindex::input
