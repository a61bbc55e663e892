//===- Json.h - reading JSON objects with clear messages --------*- C++ -*-===//
//
// JsonErrors keeps the first error and ignores later ones, so a reader of a
// JSON file needs to check for an error only once, at its end.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/NumberRange.h"
#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dpc {

class JsonErrors {
public:
  /// Sets the message "WHERE: FOUND; expected EXPECTED", unless one is set.
  void report(const std::string &where, const std::string &found,
              const std::string &expected);
  static JsonErrors of(std::string message);
  /// Returns success, or the first error.
  Status status() const;
  explicit operator bool() const { return !message.empty(); }

private:
  std::string message;
};

/// Returns whether lists and objects are nested more than 64 deep. Call it
/// before parsing: parsed JSON of this depth could exhaust the stack.
bool nestsTooDeep(std::string_view json);

/// Parses `text`. An error contains file, line and column.
Expected<nlohmann::json> parseJson(const std::string &text,
                                   const std::string &file);

/// Returns the value as text for a message, cut to 40 characters.
std::string showJson(const nlohmann::json &json);

/// Reads the fields of one JSON object. `where` is "FILE" or "FILE: PATH".
class JsonFields {
public:
  JsonFields(const nlohmann::json &json, std::string where, JsonErrors &errors);

  /// Sets `out` to a required number, multiplied by `scale`.
  void number(const std::string &key, double &out, const NumberRange &range,
              double scale = 1.0);
  /// Like number(), but `out` stays unchanged if the key is absent.
  void optionalNumber(const std::string &key, double &out,
                      const NumberRange &range, double scale = 1.0);
  /// Reads a required integer in [low, high].
  void integer(const std::string &key, int64_t &out, int64_t low, int64_t high);
  /// Reads a required string.
  void string(const std::string &key, std::string &out);
  void optionalBoolean(const std::string &key, bool &out);
  bool has(const std::string &key) const;
  /// Returns the value of `key`, or null if the key is absent.
  const nlohmann::json *optional(const std::string &key);
  /// Returns the value of `key`. If the key is absent, reports an error and
  /// returns null.
  const nlohmann::json *required(const std::string &key,
                                 const std::string &expected);
  /// Returns the value of `key` if it is a non-empty array; otherwise reports
  /// an error and returns null.
  const nlohmann::json *array(const std::string &key,
                              const std::string &expected);
  /// Reports an error for the first unknown key. Known keys are those that were
  /// passed to a function above.
  void finish();

  /// "FILE: path.key".
  std::string path(const std::string &key) const;

private:
  /// Reports an error if `isValid` is false. Returns `isValid`.
  bool expect(bool isValid, const std::string &key, const nlohmann::json &value,
              const std::string &expected);

  const nlohmann::json *object = nullptr;
  std::string where;
  JsonErrors &errors;
  std::vector<std::string> known;
};

} // namespace dpc
