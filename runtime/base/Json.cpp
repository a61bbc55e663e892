//===- Json.cpp - reading JSON objects with clear messages ----------------===//

#include "runtime/base/Json.h"

#include <algorithm>
#include <cmath>

namespace dpc {

using nlohmann::json;

void JsonErrors::report(const std::string &where, const std::string &found,
                        const std::string &expected) {
  if (message.empty())
    message = where + ": " + found + "; expected " + expected;
}

JsonErrors JsonErrors::of(std::string message) {
  JsonErrors errors;
  errors.message = std::move(message);
  return errors;
}

Status JsonErrors::status() const {
  if (message.empty())
    return Status();
  // A damaged file may contain line ends, but a message must be one line.
  std::string line = message;
  for (char &c : line)
    if (static_cast<unsigned char>(c) < ' ')
      c = '?';
  return Error{line};
}

bool NumberRange::contains(double value) const {
  if (!std::isfinite(value) || value > high)
    return false;
  return lowIncluded ? value >= low : value > low;
}

std::string showJson(const json &value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 40)
    text = text.substr(0, 37) + "...";
  return text;
}

/// Returns "LINE:COLUMN" of a byte offset; both count from 1.
static std::string position(const std::string &text, size_t offset) {
  offset = std::min(offset, text.size());
  size_t line = 1 + std::count(text.begin(), text.begin() + offset, '\n');
  size_t begin = text.rfind('\n', offset == 0 ? 0 : offset - 1);
  size_t column = begin == std::string::npos || begin >= offset
                      ? offset
                      : offset - begin - 1;
  return concat(line, ":", std::max<size_t>(column, 1));
}

/// Returns what nlohmann's message says about a syntax error: "unexpected '}';
/// expected string literal".
static std::string causeOf(std::string message) {
  for (const char *before : {"syntax error ", " - "})
    if (size_t at = message.find(before); at != std::string::npos)
      message.erase(0, at + std::string_view(before).size());
  return message;
}

Expected<json> parseJson(const std::string &text, const std::string &file) {
  try {
    return json::parse(text);
  } catch (const json::parse_error &error) {
    return Error{file + ":" + position(text, error.byte) +
                 ": not valid JSON: " + causeOf(error.what())};
  } catch (const json::exception &) {
    // A number does not fit a double, such as 1e999.
    return Error{file + ": a number is out of range; expected JSON whose "
                        "numbers fit a double"};
  }
}

JsonFields::JsonFields(const json &json, std::string where, JsonErrors &errors)
    : where(std::move(where)), errors(errors) {
  if (json.is_object())
    object = &json;
  else
    errors.report(this->where, "value " + showJson(json), "an object");
}

std::string JsonFields::path(const std::string &key) const {
  bool hasPath = where.find(": ") != std::string::npos;
  return where + (hasPath ? "." : ": ") + key;
}

bool JsonFields::has(const std::string &key) const {
  return object && object->contains(key);
}

const json *JsonFields::optional(const std::string &key) {
  if (std::find(known.begin(), known.end(), key) == known.end())
    known.push_back(key);
  if (!has(key))
    return nullptr;
  return &(*object)[key];
}

const json *JsonFields::required(const std::string &key,
                                 const std::string &expected) {
  const json *value = optional(key);
  if (!value && object)
    errors.report(path(key), "missing", expected);
  return value;
}

bool JsonFields::expect(bool isValid, const std::string &key, const json &value,
                        const std::string &expected) {
  if (!isValid)
    errors.report(path(key), "value " + showJson(value), expected);
  return isValid;
}

const json *JsonFields::array(const std::string &key,
                              const std::string &expected) {
  const json *value = required(key, expected);
  return value && expect(value->is_array() && !value->empty(), key, *value,
                         expected)
             ? value
             : nullptr;
}

void JsonFields::number(const std::string &key, double &out,
                        const NumberRange &range, double scale) {
  const json *value = required(key, range.text);
  if (value &&
      expect(value->is_number() && range.contains(value->get<double>()), key,
             *value, range.text))
    out = value->get<double>() * scale;
}

void JsonFields::optionalNumber(const std::string &key, double &out,
                                const NumberRange &range, double scale) {
  if (optional(key))
    number(key, out, range, scale);
}

void JsonFields::integer(const std::string &key, int64_t &out, int64_t low,
                         int64_t high) {
  std::string expected = concat("a whole number from ", low, " to ", high);
  const json *value = required(key, expected);
  if (!value)
    return;
  double number = value->is_number() ? value->get<double>() : NAN;
  bool fits = std::isfinite(number) && number == std::floor(number) &&
              number >= static_cast<double>(low) &&
              number <= static_cast<double>(high);
  if (expect(fits, key, *value, expected))
    out = static_cast<int64_t>(number);
}

void JsonFields::string(const std::string &key, std::string &out) {
  const json *value = required(key, "a string");
  if (value && expect(value->is_string() &&
                          !value->get_ref<const std::string &>().empty(),
                      key, *value, "a string"))
    out = value->get<std::string>();
}

void JsonFields::optionalBoolean(const std::string &key, bool &out) {
  const json *value = optional(key);
  if (value && expect(value->is_boolean(), key, *value, "true or false"))
    out = value->get<bool>();
}

void JsonFields::finish() {
  if (!object || errors)
    return;
  for (const auto &[key, value] : object->items()) {
    if (std::find(known.begin(), known.end(), key) != known.end())
      continue;
    std::string expected = "one of";
    for (const std::string &name : known)
      expected += " " + name;
    errors.report(path(key), "unknown field", expected);
    return;
  }
}

static constexpr int kDeepest = 64;

bool nestsTooDeep(std::string_view json) {
  int depth = 0;
  bool isText = false;
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (isText) {
      i += c == '\\' ? 1 : 0;
      isText = c != '"';
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest)
        return true;
    } else if (c == ']' || c == '}') {
      --depth;
    } else {
      isText = c == '"';
    }
  }
  return false;
}

} // namespace dpc
