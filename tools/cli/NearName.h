//===- NearName.h - suggestions for misspelled options ----------*- C++ -*-===//
#ifndef DPC_TOOLS_CLI_NEARNAME_H
#define DPC_TOOLS_CLI_NEARNAME_H

#include <functional>
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

/// Prints "PROGRAM: error: MESSAGE" and returns 1.
int fail(const std::string &program, const std::string &message);

/// Runs a program whose options `app` has. Adds --version and --completion,
/// parses the command line, and calls `run`, which returns the exit status and
/// may throw CLI::Error.
int runProgram(CLI::App &app, int argc, const char *const *argv,
               const std::function<int()> &run);

/// Throws a CLI::Error for a word "--name=". CLI11 would use the next word,
/// which may be an option, as its value.
void refuseEmptyValues(int argc, const char *const *argv);

} // namespace dpc

#endif // DPC_TOOLS_CLI_NEARNAME_H
