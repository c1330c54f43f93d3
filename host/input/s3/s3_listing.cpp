// Owns a walk over the elements of the XML, with a stack of names, and what is taken from the
// elements of a listing.
#include "s3_listing.hpp"

#include "core/text/text_parts.hpp"
#include "input/remote/remote_address.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace vindex::input {

namespace {

constexpr std::size_t kDeepest = 16;

/// Walks through the elements of a document and keeps the text of the innermost one.
class XmlWalker {
 public:
  XmlWalker(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  /// The next end of an element: false at the end of the document. path() and text() are then the
  /// element's.
  bool next();
  /// "ListBucketResult/Contents/Key".
  const std::string& path() const { return closed_; }
  /// Between the last tag and the end of the element, entities replaced.
  const std::string& text() const { return text_; }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw RemoteError(
        "E-REMOTE-ANSWER",
        fmt::format("{}: the list of files is no ListObjectsV2 answer: {}", name_, why), false);
  }
  void open(std::string_view tag);
  void close(std::string_view tag);
  std::string_view take_until(std::string_view end);
  std::string plain(std::string_view raw) const;

  std::string_view rest_;
  const std::string& name_;
  std::vector<std::string> elements_;  ///< open ones
  std::string closed_, text_;
  bool had_root_ = false;
};

std::string_view XmlWalker::take_until(std::string_view end) {
  const std::size_t at = rest_.find(end);
  if (at == std::string_view::npos) {
    fail("it ends in the middle");
  }
  const std::string_view taken = rest_.substr(0, at);
  rest_.remove_prefix(at + end.size());
  return taken;
}

std::string XmlWalker::plain(std::string_view raw) const {
  static constexpr std::array<std::pair<std::string_view, char>, 5> kEntities = {
      {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};
  std::string out;
  while (!raw.empty()) {
    const std::size_t at = std::min(raw.find('&'), raw.size());
    out += raw.substr(0, at);
    raw.remove_prefix(at);
    if (raw.empty()) {
      break;
    }
    const std::size_t end = raw.find(';');
    const std::string_view entity = raw.substr(1, end == std::string_view::npos ? 0 : end - 1);
    const auto* const known =
        std::find_if(kEntities.begin(), kEntities.end(),
                     [&](const auto& candidate) { return candidate.first == entity; });
    if (known == kEntities.end()) {
      // Keys are percent-encoded, so that no letter of one needs a number.
      fail(fmt::format("unknown entity \"{}\"", excerpt(entity)));
    }
    out += known->second;
    raw.remove_prefix(end + 1);
  }
  return out;
}

void XmlWalker::open(std::string_view tag) {
  const std::string_view element = tag.substr(0, tag.find_first_of(" \t\r\n"));
  if (element.empty() || (elements_.empty() && had_root_)) {
    fail("two documents");
  }
  if (elements_.size() == kDeepest) {
    fail("too many elements inside each other");
  }
  had_root_ = true;
  elements_.emplace_back(element);
}

void XmlWalker::close(std::string_view tag) {
  const std::string_view element = tag.substr(0, tag.find_first_of(" \t\r\n"));
  if (elements_.empty() || elements_.back() != element) {
    fail(fmt::format("\"{}\" ends where it has not begun", excerpt(element)));
  }
  closed_ = fmt::format("{}", fmt::join(elements_, "/"));
  elements_.pop_back();
}

bool XmlWalker::next() {
  std::string_view text;
  while (true) {
    if (elements_.empty() && rest_.find_first_not_of(" \t\r\n") == std::string_view::npos) {
      if (!had_root_) {
        fail("it is empty");
      }
      return false;
    }
    text = take_until("<");
    if (elements_.empty() && text.find_first_not_of(" \t\r\n") != std::string_view::npos) {
      fail("text outside of all elements");
    }
    if (rest_.starts_with("?")) {
      take_until("?>");
    } else if (rest_.starts_with("!")) {
      fail("a document type, a comment or CDATA");
    } else if (rest_.starts_with("/")) {
      text_ = plain(text);
      close(take_until(">").substr(1));
      return true;
    } else {
      std::string_view tag = take_until(">");
      const bool is_empty = tag.ends_with('/');
      tag.remove_suffix(is_empty ? 1 : 0);
      open(tag);
      if (is_empty) {
        text_.clear();
        close(tag);
        return true;
      }
    }
  }
}

/// Of encoding-type=url, which writes a space as "+".
std::string decoded(std::string text) {
  std::replace(text.begin(), text.end(), '+', ' ');
  return percent_decoded(text);
}

}  // namespace

S3Listing read_s3_listing(std::string_view text, const std::string& name) {
  S3Listing listing;
  bool is_truncated = false;
  std::string root;
  XmlWalker walker(text, name);
  while (walker.next()) {
    const std::string& path = walker.path();
    if (path == "ListBucketResult/Contents/Key") {
      listing.keys.push_back(decoded(walker.text()));
    } else if (path == "ListBucketResult/CommonPrefixes/Prefix") {
      listing.prefixes.push_back(decoded(walker.text()));
    } else if (path == "ListBucketResult/IsTruncated") {
      is_truncated = walker.text() == "true";
    } else if (path == "ListBucketResult/NextContinuationToken") {
      listing.next = walker.text();
    }
    root = path.substr(0, path.find('/'));
  }
  if (root != "ListBucketResult" || is_truncated == listing.next.empty()) {
    throw RemoteError("E-REMOTE-ANSWER",
                      fmt::format("{}: the list of files is no ListObjectsV2 answer", name), false);
  }
  return listing;
}

}  // namespace vindex::input
