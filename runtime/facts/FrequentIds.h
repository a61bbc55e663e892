//===- FrequentIds.h - the ids that are half of a text ----------*- C++ -*-===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

namespace dpc::rt {

/// The most frequent ids, which have half of the shares of all that are no
/// padding. Texts of one vocabulary share most of them.
class FrequentIds {
public:
  using Shares = std::map<int64_t, double>; ///< see InputProfile::shares

  /// An id with a larger share is that of padding.
  static constexpr double kPadding = 0.25;

  explicit FrequentIds(const Shares &shares);

  /// Their share, without padding.
  double share() const { return ownShare; }
  size_t count() const { return frequent.size(); }
  /// How many of these ids are also frequent in `others`.
  size_t countIn(const FrequentIds &others) const;
  /// Returns the share of these ids plus `shift` in `others`, as a part of
  /// share().
  double partIn(const Shares &others, int64_t shift = 0) const;

private:
  std::set<int64_t> frequent, padding;
  double ownShare = 0;
};

} // namespace dpc::rt
