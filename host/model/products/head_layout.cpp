// Owns the cuts of separate and of fused projections.
#include "find_products.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vindex::model {

namespace {

HeadCut no_cut(std::string why) {
  HeadCut out;
  out.error = std::move(why);
  return out;
}

/// Heads side by side, `stride` apart.
HeadRows side_by_side(std::int64_t first, std::int64_t stride, std::int64_t count) {
  return {.count = count, .first = first, .group_stride = stride};
}

/// Why `kv_heads`, as the shapes have it, cannot be; empty if it can.
std::string kv_trouble(const HeadClaims& claims, std::int64_t kv_heads) {
  const std::vector<std::int64_t>& claimed = claims.kv_heads;
  if (!claimed.empty() && std::find(claimed.begin(), claimed.end(), kv_heads) == claimed.end()) {
    return fmt::format("the configuration gives {} key-value heads, the shapes {}", claimed.front(),
                       kv_heads);
  }
  if (claims.heads % kv_heads != 0) {
    return fmt::format("{} heads share {} key-value heads", claims.heads, kv_heads);
  }
  return "";
}

}  // namespace

HeadCut cut_separate(const HeadClaims& claims, MatrixSides q, MatrixSides k,
                     std::optional<MatrixSides> v, std::optional<MatrixSides> o) {
  HeadCut out;
  out.heads = claims.heads;
  if (claims.heads <= 0) {
    return no_cut("the configuration gives no number of heads");
  }
  if (q.rows < claims.heads || q.rows % claims.heads != 0 || q.cols != k.cols) {
    return no_cut(fmt::format("{} heads do not divide q of {} x {} beside k of {} x {}",
                              claims.heads, q.rows, q.cols, k.rows, k.cols));
  }
  const std::int64_t height = q.rows / claims.heads;
  const bool gated = claims.gated && height % 2 == 0 && (!o || o->cols == q.rows / 2);
  const std::int64_t width = gated ? height / 2 : height;
  if (k.rows < width || k.rows % width != 0) {
    return no_cut(
        fmt::format("a head has {} rows in q, which do not divide {} of k", width, k.rows));
  }
  out.kv_heads = k.rows / width;
  if (std::string why = kv_trouble(claims, out.kv_heads); !why.empty()) {
    return no_cut(std::move(why));
  }
  const std::int64_t values = v ? v->rows : k.rows;
  if (values < out.kv_heads || values % out.kv_heads != 0) {
    return no_cut(
        fmt::format("{} key-value heads do not divide {} rows of v", out.kv_heads, values));
  }
  const std::int64_t depth = values / out.kv_heads;
  if (o && (o->cols % claims.heads != 0 || o->cols / claims.heads != depth)) {
    return no_cut(fmt::format("o_proj has {} columns, its {} heads have values of {}", o->cols,
                              claims.heads, depth));
  }
  out.query = side_by_side(0, height, width);
  out.key = side_by_side(0, width, width);
  out.value = side_by_side(0, depth, depth);
  return out;
}

HeadCut cut_fused(const HeadClaims& claims, MatrixSides qkv, MatrixSides o, bool grouped) {
  HeadCut out;
  out.heads = claims.heads;
  if (claims.heads <= 0) {
    return no_cut("the configuration gives no number of heads");
  }
  if (o.cols < claims.heads || o.cols % claims.heads != 0) {
    return no_cut(fmt::format("{} heads do not divide {} columns of o_proj", claims.heads, o.cols));
  }
  const std::int64_t height = o.cols / claims.heads;
  const std::int64_t rest = qkv.rows / height - claims.heads;  // k and v
  if (qkv.rows % height != 0 || rest < 2 || rest % 2 != 0) {
    return no_cut(fmt::format("{} heads of {} rows, as o_proj has them, do not fit {} rows of qkv",
                              claims.heads, height, qkv.rows));
  }
  out.kv_heads = rest / 2;
  if (std::string why = kv_trouble(claims, out.kv_heads); !why.empty()) {
    return no_cut(std::move(why));
  }
  if (grouped) {
    const std::int64_t queries = out.group() * height;
    const std::int64_t group = queries + 2 * height;
    out.query = {.count = height,
                 .first = 0,
                 .stride = height,
                 .per_group = out.group(),
                 .group_stride = group};
    out.key = side_by_side(queries, group, height);
    out.value = side_by_side(queries + height, group, height);
  } else {
    out.query = side_by_side(0, height, height);
    out.key = side_by_side(out.heads * height, height, height);
    out.value = side_by_side((out.heads + out.kv_heads) * height, height, height);
  }
  return out;
}

}  // namespace vindex::model
