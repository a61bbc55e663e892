//===- ShellWords.h - The words of commands in a script ---------*- C++ -*-===//
#pragma once

#include <string>
#include <vector>

namespace dpc::exports {

/// Returns the words of all commands in a bash script, without running the
/// script. Understands comments, quotes, continued lines, arrays, assignments,
/// ${NAME:-default} (also nested) and integer arithmetic in $((...)). Variables
/// without a known value are left unchanged. A quoted word that contains flags
/// is split.
std::vector<std::string> shellWords(const std::string &script);

} // namespace dpc::exports
