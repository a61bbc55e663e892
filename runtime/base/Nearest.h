//===- Nearest.h - similar names for messages -------------------*- C++ -*-===//
#pragma once

#include <string>
#include <vector>

namespace dpc {

/// Returns how many letters to insert, delete or change to turn one word into
/// the other (Levenshtein, Soviet Physics Doklady 10, 1966).
size_t editDistance(const std::string &from, const std::string &to);

/// Returns the name that is most similar to `word`, or "" if more than a third
/// of the letters of `word` differ in all names.
std::string nearest(const std::string &word,
                    const std::vector<std::string> &names);

} // namespace dpc
