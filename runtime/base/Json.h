//===- Json.h - reading JSON objects with clear messages --------*- C++ -*-===//
//
// Readers of JSON files share these classes. JsonErrors keeps the first error
// and later reads do nothing, so a reader tests once at its end.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_BASE_JSON_H
#define DPC_RUNTIME_BASE_JSON_H

#include "runtime/base/NumberRange.h"
#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dpc {

/// The first error of a document.
class JsonErrors {
public:
  /// Keeps "WHERE: found; expected EXPECTED" unless an error is held already.
  void report(const std::string &where, const std::string &found,
              const std::string &expected);
  /// A holder of an existing message.
  static JsonErrors of(std::string message);
  /// Success, or the first error.
  Status status() const;
  explicit operator bool() const { return !message.empty(); }

private:
  std::string message;
};

/// Whether lists and objects nest deeper than in any of our files. Writing or
/// copying such a text as parsed JSON would exhaust the stack, so readers
/// refuse it before they parse.
bool nestsTooDeep(std::string_view json);

/// Parses text; a syntax error becomes one line with file, line and column.
Expected<nlohmann::json> parseJson(const std::string &text,
                                   const std::string &file);

/// A short rendering of a value for messages.
std::string showJson(const nlohmann::json &json);

/// The fields of one JSON object. `where` is "FILE" or "FILE: PATH".
class JsonFields {
public:
  JsonFields(const nlohmann::json &json, std::string where, JsonErrors &errors);

  /// Reads a required number, times `scale`.
  void number(const std::string &key, double &out, const NumberRange &range,
              double scale = 1.0);
  /// The same; `out` keeps its value when the key is absent.
  void optionalNumber(const std::string &key, double &out,
                      const NumberRange &range, double scale = 1.0);
  /// Reads a required whole number in [low, high].
  void integer(const std::string &key, int64_t &out, int64_t low, int64_t high);
  /// Reads a required string.
  void string(const std::string &key, std::string &out);
  /// Reads an optional boolean.
  void optionalBoolean(const std::string &key, bool &out);
  /// True when the key is there.
  bool has(const std::string &key) const;
  /// Accepts the key and returns its value, or nullptr without an error.
  const nlohmann::json *optional(const std::string &key);
  /// Returns the value of a required key, or reports what was expected.
  const nlohmann::json *required(const std::string &key,
                                 const std::string &expected);
  /// A required array of at least one element.
  const nlohmann::json *array(const std::string &key,
                              const std::string &expected);
  /// Reports the first key that no call has asked for.
  void finish();

  /// "FILE: path.key".
  std::string path(const std::string &key) const;

private:
  const nlohmann::json *object = nullptr;
  std::string where;
  JsonErrors &errors;
  std::vector<std::string> known;
};

} // namespace dpc

#endif // DPC_RUNTIME_BASE_JSON_H
