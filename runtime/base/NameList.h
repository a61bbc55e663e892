//===- NameList.h - lists of names in messages ------------------*- C++ -*-===//
#pragma once

#include "runtime/base/OneLine.h"

#include <string>
#include <vector>

namespace dpc::rt {

inline std::vector<std::string> quoted(std::vector<std::string> names) {
  for (std::string &name : names)
    name = "'" + name + "'";
  return names;
}

/// Returns the first `most` of `texts`, such as "'a', 'b' and 2 more", as one
/// line.
inline std::string listed(const std::vector<std::string> &texts,
                          size_t most = 5) {
  std::string list;
  for (size_t i = 0; i < std::min(most, texts.size()); ++i)
    list += (i > 0 ? ", " : "") + texts[i];
  if (texts.size() > most)
    list += " and " + std::to_string(texts.size() - most) + " more";
  return oneLine(list);
}

} // namespace dpc::rt
