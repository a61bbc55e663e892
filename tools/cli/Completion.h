//===- Completion.h - shell completion of options ---------------*- C++ -*-===//
#ifndef DPC_TOOLS_CLI_COMPLETION_H
#define DPC_TOOLS_CLI_COMPLETION_H

#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace dpc {

/// A script with which `shell` ("bash" or "zsh") completes the options of
/// `program`, the values of options with a list of values, and subcommands with
/// their options.
std::string completionScript(const CLI::App &app, const std::string &program,
                             const std::string &shell);

} // namespace dpc

#endif // DPC_TOOLS_CLI_COMPLETION_H
