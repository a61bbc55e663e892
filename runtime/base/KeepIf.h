//===- KeepIf.h - vectors that lose elements --------------------*- C++ -*-===//
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace dpc {

/// Erases the elements for which `keeps` returns false. Calls it once for each
/// element, in order. Unlike the predicate of std::erase_if, it may change the
/// element.
template <typename T, typename Keeps>
void keepIf(std::vector<T> &elements, Keeps keeps) {
  size_t kept = 0;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (!keeps(elements[i]))
      continue;
    if (kept != i)
      elements[kept] = std::move(elements[i]);
    ++kept;
  }
  elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(kept),
                 elements.end());
}

} // namespace dpc
