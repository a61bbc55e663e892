//===- CommandLine.h - common parts of the command lines --------*- C++ -*-===//
#pragma once

#include <CLI/CLI.hpp>

#include <charconv>
#include <functional>
#include <string>
#include <vector>

namespace dpc {

/// Returns a completion script for `shell` ("bash" or "zsh"). It completes the
/// options of `program`, the values of options that have a list of values, and
/// subcommands with their options.
std::string completionScript(const CLI::App &app, const std::string &program,
                             const std::string &shell);

/// Options of another program.
struct OtherOptions {
  std::string program; ///< what an error says of it
  std::vector<std::string> names;
};

/// Returns the text of `error`. If an option does not exist, the text says that
/// it is one of `others`, or suggests a similar option of `app` or its
/// subcommands.
std::string errorText(const CLI::App &app, const CLI::Error &error, int argc,
                      const char *const *argv, const OtherOptions &others = {});

/// Prints "PROGRAM: error: MESSAGE" and returns 1.
int fail(const std::string &program, const std::string &message);

/// Runs a program with the options in `app`. Adds --version and --completion,
/// parses the command line, and calls `run`, which returns the exit status and
/// may throw CLI::Error.
int runProgram(CLI::App &app, int argc, const char *const *argv,
               const std::function<int()> &run);

/// Throws a CLI::Error if a word is "--name=". CLI11 would use the next word as
/// the value, even if that word is an option.
void refuseEmptyValues(int argc, const char *const *argv);

/// Returns a validator for words. If `accepts(word)` is false, the message is
/// "'WORD' is not EXPECTED". Help shows `type`.
template <typename Accepts>
CLI::Validator words(const std::string &type, Accepts accepts,
                     const std::string &expected) {
  return CLI::Validator(
      [=](const std::string &word) {
        return accepts(word) ? "" : "'" + word + "' is not " + expected;
      },
      type);
}

/// Returns a validator for numbers, with the same messages as `words`.
template <typename Number, typename Accepts>
CLI::Validator numbers(const std::string &type, Accepts accepts,
                       const std::string &expected) {
  return words(
      type,
      [=](const std::string &word) {
        Number value{};
        return CLI::detail::lexical_cast(word, value) && accepts(value);
      },
      expected);
}

/// Returns a validator for numbers above 0. The message of CLI::PositiveNumber
/// would contain the largest double.
inline CLI::Validator aboveZero() {
  return numbers<double>(
      "POSITIVE", [](double value) { return value > 0; }, "a number above 0");
}

/// Returns a validator for whole numbers. CLI11 would take "-1" for the largest
/// number.
inline CLI::Validator wholeNumber() {
  return words(
      "N",
      [](const std::string &word) {
        uint64_t value = 0;
        auto [end, error] =
            std::from_chars(word.data(), word.data() + word.size(), value);
        return error == std::errc() && end == word.data() + word.size();
      },
      "a whole number from 0 to 2^64 - 1");
}

} // namespace dpc
