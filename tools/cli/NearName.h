//===- NearName.h - suggestions for misspelled options ----------*- C++ -*-===//
#ifndef DPC_TOOLS_CLI_NEARNAME_H
#define DPC_TOOLS_CLI_NEARNAME_H

#include <string>

namespace CLI {
class App;
class Error;
} // namespace CLI

namespace dpc {

/// The number of letters to insert, delete or change to turn one word into the
/// other (Levenshtein, Soviet Physics Doklady 10, 1966).
size_t editDistance(const std::string &from, const std::string &to);

/// The text of `error`. For an option that does not exist, suggests the option
/// of `app` or its subcommands with a similar name, if there is one.
std::string errorText(const CLI::App &app, const CLI::Error &error, int argc,
                      const char *const *argv);

/// Throws a CLI::Error for a word "--name=". CLI11 would use the next word,
/// which may be an option, as its value.
void refuseEmptyValues(int argc, const char *const *argv);

} // namespace dpc

#endif // DPC_TOOLS_CLI_NEARNAME_H
