// Owns s3:// as a store: what lies below one prefix of a bucket, in Amazon S3 and in what speaks as
// it does. Pages of ListObjectsV2 list it once; objects are read by ranges, each request signed.
#include "s3_store.hpp"

#include "aws_signature.hpp"
#include "s3_environment.hpp"
#include "s3_listing.hpp"

#include "input/http/http_source.hpp"
#include "input/model_store.hpp"
#include "input/remote/remote_address.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <ctime>
#include <mutex>
#include <utility>

namespace vindex::input {

namespace {

constexpr std::size_t kLargestPage = std::size_t{8} << 20U;  ///< 1000 keys of 1024 letters at most
constexpr std::size_t kMostMembers = 1'000'000;

/// Signs what goes to the endpoint, or to another host of Amazon's where the endpoint is one.
HttpCredential signing(const S3Environment& s3) {
  if (!s3.credentials) {
    return {};
  }
  return [keys = *s3.credentials, region = s3.region, own = origin_of(s3.endpoint)](
             const std::string& url, const std::vector<std::string>& fields) {
    const std::string origin = origin_of(url);
    const bool is_amazons =
        own.empty() && origin.starts_with("https://") && origin.ends_with(".amazonaws.com:443");
    return is_amazons || (!own.empty() && origin == own)
               ? aws_signature(keys, region, url, fields, std::time(nullptr))
               : std::vector<std::string>();
  };
}

class S3Store final : public ModelStore {
 public:
  S3Store(std::string address, S3Address parts, const S3Environment& s3,
          const std::stop_token& stop)
      : address_(std::move(address)),
        parts_(std::move(parts)),
        url_(s3.bucket_url(parts_.bucket)),
        hint_(s3.credentials ? ""
                             : "; the request was not signed: AWS_ACCESS_KEY_ID with "
                               "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, name keys"),
        client_(std::make_shared<HttpClient>(http_settings(), signing(s3), stop)) {}

  const std::string& address() const override { return address_; }
  const std::string& file() const override { return parts_.file; }
  std::string location(std::string_view name) const override {
    std::string key = parts_.folder + std::string(name);
    if (name.empty() && !key.empty()) {
      key.pop_back();
    }
    return fmt::format("s3://{}/{}", parts_.bucket, key);
  }

  std::vector<StoreMember> list() override {
    const std::lock_guard lock(mutex_);
    if (!is_listed_) {
      read_listing();
    }
    if (members_.empty()) {
      throw MissingInputError("E-FOLDER-EMPTY",
                              printable(location({})) + ": nothing in the bucket begins with that");
    }
    return members_;
  }

  MemberState state(std::string_view name) override { return http_state(*client_, named(name)); }

 private:
  std::unique_ptr<ByteSource> open_member(std::string_view name) override {
    return open_http_source(client_, named(name));
  }

  HttpFile named(std::string_view name) const {
    return {.url = url_ + percent_encoded_path(parts_.folder + std::string(name)),
            .name = printable(location(name)),
            .revision = {},
            .hint = hint_};
  }

  /// Under the mutex.
  void read_listing() {
    const std::string where = printable(location({}));
    std::vector<StoreMember> members;
    std::string next;
    do {
      const std::string url =
          fmt::format("{}?{}delimiter=%2F&encoding-type=url&list-type=2&prefix={}", url_,
                      next.empty() ? "" : "continuation-token=" + percent_encoded(next) + "&",
                      percent_encoded(parts_.folder));
      const std::string text = http_text(
          *client_, {.url = url, .name = where, .revision = {}, .hint = hint_}, kLargestPage);
      const S3Listing page = read_s3_listing(text, where);
      for (const auto& [list, is_folder] :
           {std::pair{&page.keys, false}, std::pair{&page.prefixes, true}}) {
        for (const std::string& key : *list) {
          add_member(members, key, is_folder);
        }
      }
      if (members.size() > kMostMembers || (!page.next.empty() && page.next == next)) {
        throw RemoteError("E-REMOTE-ANSWER", where + ": the list of files has no end", false);
      }
      next = page.next;
    } while (!next.empty());
    members_ = std::move(members);
    is_listed_ = true;
  }

  /// An object whose key is the prefix itself stands for a folder in some tools: it is no member.
  void add_member(std::vector<StoreMember>& members, std::string_view key, bool is_folder) const {
    if (!key.starts_with(parts_.folder)) {
      return;
    }
    key.remove_prefix(parts_.folder.size());
    if (is_folder && key.ends_with('/')) {
      key.remove_suffix(1);
    }
    if (!key.empty()) {
      members.push_back({std::string(key), is_folder});
    }
  }

  std::string address_;
  S3Address parts_;
  std::string url_;   ///< of the bucket, with a slash at its end
  std::string hint_;  ///< what a denied request may lack
  std::shared_ptr<HttpClient> client_;
  std::mutex mutex_;
  bool is_listed_ = false;
  std::vector<StoreMember> members_;
};

}  // namespace

std::shared_ptr<ModelStore> open_s3_store(const std::string& address, const std::stop_token& stop) {
  S3Address parts = s3_address(address);
  return std::make_shared<S3Store>(address, std::move(parts), s3_environment(), stop);
}

}  // namespace vindex::input
