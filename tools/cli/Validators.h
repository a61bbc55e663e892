//===- Validators.h - checks of values of options ---------------*- C++ -*-===//
#ifndef DPC_TOOLS_CLI_VALIDATORS_H
#define DPC_TOOLS_CLI_VALIDATORS_H

#include <CLI/CLI.hpp>

namespace dpc {

/// Accepts the words for which `accepts` is true. The message for any other
/// word is "'WORD' is not EXPECTED". Help shows `type`.
template <typename Accepts>
CLI::Validator words(const std::string &type, Accepts accepts,
                     const std::string &expected) {
  return CLI::Validator(
      [=](const std::string &word) {
        return accepts(word) ? "" : "'" + word + "' is not " + expected;
      },
      type);
}

/// The same for numbers.
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

/// Numbers above 0. The message of CLI::PositiveNumber contains the largest
/// double.
inline CLI::Validator positive() {
  return numbers<double>(
      "POSITIVE", [](double value) { return value > 0; }, "a number above 0");
}

} // namespace dpc

#endif // DPC_TOOLS_CLI_VALIDATORS_H
