//===- ShellWords.h - The words of commands in a script ---------*- C++ -*-===//
#ifndef DPC_CODEGEN_EXPORT_SHELLWORDS_H
#define DPC_CODEGEN_EXPORT_SHELLWORDS_H

#include <string>
#include <vector>

namespace dpc::exports {

/// The words of the commands in a bash script, which is not run. Understands
/// comments, quotes, continued lines, arrays, assignments, ${NAME:-default},
/// which can be nested, and $((sums of whole numbers)). Variables without a
/// known value stay as they are written. A quoted word that contains flags is
/// split.
std::vector<std::string> shellWords(const std::string &script);

} // namespace dpc::exports

#endif // DPC_CODEGEN_EXPORT_SHELLWORDS_H
