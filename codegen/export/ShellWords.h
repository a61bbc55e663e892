//===- ShellWords.h - The words of commands in a script ---------*- C++ -*-===//
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dpc::exports {

struct ShellWord {
  std::string text;
  int64_t line = 0; ///< Where the word begins, from 1.
};

/// Returns the words of all commands in a bash script, without running the
/// script. Understands comments, quotes, continued lines, arrays, assignments,
/// ${NAME:-default} (also nested) and integer arithmetic in $((...)). Variables
/// without a known value are left unchanged. A quoted word that contains flags
/// is split.
std::vector<ShellWord> shellWords(const std::string &script);

} // namespace dpc::exports
