//===- DataFolder.h - Data files of devices and software --------*- C++ -*-===//
#pragma once

#include "runtime/base/EnumNames.h"
#include "runtime/base/Json.h"

#include <string>
#include <vector>

namespace dpc::cost {

/// A folder with one file NAME.json per device or software profile.
struct DataFolder {
  const char *kind;     ///< "device" or "software", for messages.
  const char *variable; ///< The environment variable that replaces the folder.
  /// The folder at the time of the build. Installed programs use the folder
  /// with the same name in ../share/dpc.
  const char *builtIn;
  const char *always = ""; ///< A name that needs no file, or "".

  /// Returns the names of the files and `always`, sorted.
  std::vector<std::string> names() const;
  /// Returns the path and the content of NAME.json. `name` must not be
  /// `always`. Fails unless the folder has this file, so that a path to a file
  /// outside the folder is never read. The error lists the names.
  Expected<std::pair<std::string, nlohmann::json>>
  read(const std::string &name) const;

private:
  std::string path() const;
};

/// Reads entries {"value": .., "source": string} of a JSON object.
class SourcedFields {
public:
  SourcedFields(JsonFields &fields, JsonErrors &errors)
      : fields(fields), errors(errors) {}

  void number(const std::string &key, double &out, const NumberRange &range,
              double scale = 1.0) {
    read(fields.required(key, form), key,
         [&](JsonFields &entry) { entry.number("value", out, range, scale); });
  }
  void integer(const std::string &key, int64_t &out) {
    read(fields.required(key, form), key,
         [&](JsonFields &entry) { entry.integer("value", out, 1, 1 << 24); });
  }
  void optionalNumber(const std::string &key, double &out,
                      const NumberRange &range, double scale = 1.0) {
    read(fields.optional(key), key,
         [&](JsonFields &entry) { entry.number("value", out, range, scale); });
  }
  void optionalFlag(const std::string &key, bool &out) {
    read(fields.optional(key), key, [&](JsonFields &entry) {
      entry.required("value", "true or false");
      entry.optionalBoolean("value", out);
    });
  }
  void optionalText(const std::string &key, std::string &out) {
    read(fields.optional(key), key,
         [&](JsonFields &entry) { entry.string("value", out); });
  }

private:
  static constexpr const char *form =
      "an object {\"value\": number, \"source\": string}";
  JsonFields &fields;
  JsonErrors &errors;

  template <typename ReadValue>
  void read(const nlohmann::json *entry, const std::string &key,
            ReadValue readValue) {
    if (!entry)
      return;
    JsonFields inner(*entry, fields.path(key), errors);
    std::string source;
    readValue(inner);
    inner.string("source", source);
    inner.finish();
  }
};

/// Parses the name of an enum's value. Errors begin with `where`.
template <NamedEnum E>
void readName(const std::string &text, const std::string &where, E &out,
              JsonErrors &errors) {
  std::string expected = "one of";
  for (std::string_view name : kNamesOf<E>)
    expected += " " + std::string(name);
  if (std::optional<E> value = symbolize<E>(text))
    out = *value;
  else
    errors.report(where, "value \"" + text + "\"", expected);
}

} // namespace dpc::cost
