//===- ShellWords.h - The words of a script's commands ----------*- C++ -*-===//
#ifndef DPC_CODEGEN_EXPORT_SHELLWORDS_H
#define DPC_CODEGEN_EXPORT_SHELLWORDS_H

#include <string>
#include <vector>

namespace dpc::exports {

/// What the commands of a script of bash are made of, as far as that can be
/// told without running it: comments, quotes, lines continued by a backslash,
/// arrays, variables set to words or to several flags, ${NAME:-default}, which
/// may hold others, and $((sums of whole numbers)). What a variable is that
/// comes from elsewhere stays as it is written, and a word in quotes that holds
/// flags is taken apart.
std::vector<std::string> shellWords(const std::string &script);

} // namespace dpc::exports

#endif // DPC_CODEGEN_EXPORT_SHELLWORDS_H
