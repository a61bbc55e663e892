//===- FileSettings.h - The settings in a configuration file ----*- C++ -*-===//
//
// JSON, YAML, TOML, Python and the flags of commands become one list of
// settings, so that readers of configurations do not depend on the syntax.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dpc::exports {

enum class Syntax { Json, Yaml, Toml, Python, Flags };

/// One setting, such as zero_optimization.stage=3. The name of a flag has no
/// leading dashes, and '-' stands for '_'.
struct FileSetting {
  std::string key; ///< The names of the sections and of the setting, with dots.
  /// A number, a boolean, a string or null; an array of them, if the file has
  /// several values. A flag without a value is true.
  nlohmann::json value;
  int64_t line = 0; ///< From 1.
};

struct FileSettings {
  Syntax syntax = Syntax::Flags;
  std::vector<FileSetting> settings; ///< In the order of the file.
  std::vector<std::string> words;    ///< All words of commands, or empty.

  /// Returns the last setting with this key, or null.
  const FileSetting *find(std::string_view key) const;
  /// Whether the key, or a key in the section of this name, is set.
  bool has(std::string_view key) const;
};

/// Returns the value that `text` denotes in YAML, Python or a command: null, a
/// boolean, a number or else a string.
nlohmann::json scalarOf(const std::string &text);

/// Reads the keyword arguments, the dictionary entries and the assignments of a
/// Python file, without running it. The key of an argument starts with the key
/// to which its call is assigned: a.b for a=f(b=1). The value of `a` is then
/// "f". Other expressions are strings.
std::vector<FileSetting> pythonSettings(const std::string &text);

/// Reads the settings in `text`. The ending of `path` decides the syntax, or
/// `text` if the ending is unknown. Fails if `text` has no settings in the
/// syntax; the error has one line.
Expected<FileSettings> readSettings(const std::string &text,
                                    const std::string &path);

} // namespace dpc::exports
