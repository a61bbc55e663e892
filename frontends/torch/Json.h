//===- Json.h - Untrusted JSON ----------------------------------*- C++ -*-===//
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace dpc::frontend::pt2 {

/// A value of a document and its path in the document. Reading a value of the
/// wrong kind notes an error and returns a default, so that readers need no
/// checks in between. Only the first error is kept.
class Json {
public:
  /// `error` receives the first error in the document `root`.
  Json(const nlohmann::json &root, std::string &error)
      : value(&root), error(&error) {}

  /// Returns the member `key`, which must exist.
  Json operator[](const char *key) const {
    Json found = maybe(key);
    if (!found.value)
      return found.wrong("is missing");
    return found;
  }
  /// Returns the member `key`, or a null view.
  Json maybe(const char *key) const {
    const nlohmann::json *member = nullptr;
    if (value && value->is_object())
      if (auto at = value->find(key); at != value->end() && !at->is_null())
        member = &*at;
    return Json(member, *error, path + (path.empty() ? "" : ".") + key);
  }
  explicit operator bool() const { return value; }

  std::string text() const {
    const auto *s = get<nlohmann::json::string_t>();
    return s ? *s : (wrong("is not a string"), std::string());
  }
  int64_t integer() const {
    const auto *u = get<nlohmann::json::number_unsigned_t>();
    const auto *i = get<nlohmann::json::number_integer_t>();
    if (!i || (u && *u > INT64_MAX)) {
      wrong("is not a 64-bit integer");
      return 0;
    }
    return *i;
  }
  /// Returns a number; accepts "Infinity", "-Infinity" and "NaN".
  double number() const;
  bool boolean() const {
    const auto *b = get<nlohmann::json::boolean_t>();
    return b ? *b : (wrong("is not a boolean"), false);
  }
  std::vector<Json> elements() const;
  /// Returns the members in the order of the document.
  std::vector<std::pair<std::string, Json>> members() const;
  /// Returns the only member of a union, for example {"as_int": 3}.
  std::pair<std::string, Json> choice() const;

  Json wrong(const char *why) const {
    if (error->empty())
      *error = (path.empty() ? std::string("the document") : path) + " " + why;
    return Json(nullptr, *error, path);
  }

private:
  Json(const nlohmann::json *value, std::string &error, std::string path)
      : value(value), error(&error), path(std::move(path)) {}
  template <typename T> const T *get() const {
    return value ? value->get_ptr<const T *>() : nullptr;
  }

  const nlohmann::json *value;
  std::string *error;
  std::string path;
};

} // namespace dpc::frontend::pt2
