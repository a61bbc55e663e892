//===- Json.h - reading JSON objects with clear messages --------*- C++ -*-===//
//
// Readers of JSON files share these classes. JsonErrors keeps the first error
// and ignores later ones, so a reader checks for an error once, at its end.
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
  /// Keeps "WHERE: FOUND; expected EXPECTED" if it is the first error.
  void report(const std::string &where, const std::string &found,
              const std::string &expected);
  /// A JsonErrors that holds `message`.
  static JsonErrors of(std::string message);
  /// Success, or the first error.
  Status status() const;
  explicit operator bool() const { return !message.empty(); }

private:
  std::string message;
};

/// Whether lists and objects are nested more than 64 deep. Parsed JSON of
/// greater depth could exhaust the stack when it is written or copied, so
/// readers refuse it before they parse.
bool nestsTooDeep(std::string_view json);

/// Parses `text`. For invalid syntax, the error is one line with file, line and
/// column.
Expected<nlohmann::json> parseJson(const std::string &text,
                                   const std::string &file);

/// Formats a value for a message, in at most 40 characters.
std::string showJson(const nlohmann::json &json);

/// The fields of one JSON object. `where` is "FILE" or "FILE: PATH".
class JsonFields {
public:
  JsonFields(const nlohmann::json &json, std::string where, JsonErrors &errors);

  /// Sets `out` to a required number times `scale`.
  void number(const std::string &key, double &out, const NumberRange &range,
              double scale = 1.0);
  /// Like number(), but `out` stays unchanged if the key is absent.
  void optionalNumber(const std::string &key, double &out,
                      const NumberRange &range, double scale = 1.0);
  /// Reads a required whole number in [low, high].
  void integer(const std::string &key, int64_t &out, int64_t low, int64_t high);
  /// Reads a required string.
  void string(const std::string &key, std::string &out);
  /// Reads an optional boolean.
  void optionalBoolean(const std::string &key, bool &out);
  /// Whether the object has the key.
  bool has(const std::string &key) const;
  /// The value of an optional key; null if it is absent.
  const nlohmann::json *optional(const std::string &key);
  /// The value of a required key. If it is absent, reports an error and returns
  /// null.
  const nlohmann::json *required(const std::string &key,
                                 const std::string &expected);
  /// The value of a required key if it is an array with at least one element;
  /// otherwise reports an error and returns null.
  const nlohmann::json *array(const std::string &key,
                              const std::string &expected);
  /// Reports an error for the first key that none of the calls above has named.
  void finish();

  /// "FILE: path.key".
  std::string path(const std::string &key) const;

private:
  /// Reports an error unless `isValid`, which it returns.
  bool expect(bool isValid, const std::string &key, const nlohmann::json &value,
              const std::string &expected);

  const nlohmann::json *object = nullptr;
  std::string where;
  JsonErrors &errors;
  std::vector<std::string> known;
};

} // namespace dpc

#endif // DPC_RUNTIME_BASE_JSON_H
