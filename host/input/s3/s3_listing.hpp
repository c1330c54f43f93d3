// Owns reading a page of ListObjectsV2 (Amazon S3 API Reference): the few elements of its XML that
// a store needs, and nothing that XML has beyond them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vindex::input {

struct S3Listing {
  std::vector<std::string> keys;      ///< Contents/Key
  std::vector<std::string> prefixes;  ///< CommonPrefixes/Prefix, with the slash at their end
  std::string next;  ///< NextContinuationToken where IsTruncated is true; empty: the last page
};

/// `text`: an answer to encoding-type=url, whose keys and prefixes are decoded here. `name`: of
/// messages. Errors: RemoteError E-REMOTE-ANSWER (final) for what is no such answer: other elements
/// at the top, elements that do not close as they opened, more than 16 inside each other, a
/// document type, CDATA, an entity that XML does not define itself, no end.
S3Listing read_s3_listing(std::string_view text, const std::string& name);

}  // namespace vindex::input
