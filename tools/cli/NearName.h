//===- NearName.h - What was probably meant ---------------------*- C++ -*-===//
#ifndef DPC_TOOLS_CLI_NEARNAME_H
#define DPC_TOOLS_CLI_NEARNAME_H

#include <string>

namespace CLI {
class App;
class Error;
} // namespace CLI

namespace dpc {

/// Letters that have to be put in, taken away or changed to make one word the
/// other (Levenshtein, Soviet Physics Doklady 10, 1966).
size_t editDistance(const std::string &from, const std::string &to);

/// What `error` says. Where that is of an option that does not exist, with the
/// option of `app` or its subcommands whose name is near, if one is.
std::string errorText(const CLI::App &app, const CLI::Error &error, int argc,
                      const char *const *argv);

/// Throws a CLI::Error for a word "--name=": CLI11 would take the next word,
/// which may be an option, for its value.
void refuseEmptyValues(int argc, const char *const *argv);

} // namespace dpc

#endif // DPC_TOOLS_CLI_NEARNAME_H
