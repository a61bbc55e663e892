//===- Json.cpp - Untrusted JSON ------------------------------------------===//
#include "frontends/torch/Json.h"

#include <cmath>
#include <limits>

namespace dpc::frontend::pt2 {

double Json::number() const {
  if (const auto *f = get<nlohmann::json::number_float_t>())
    return *f;
  if (const auto *s = get<nlohmann::json::string_t>()) {
    if (*s == "Infinity")
      return std::numeric_limits<double>::infinity();
    if (*s == "-Infinity")
      return -std::numeric_limits<double>::infinity();
    if (*s == "NaN")
      return std::nan("");
  }
  if (get<nlohmann::json::number_integer_t>())
    return static_cast<double>(integer());
  wrong("is not a number");
  return 0;
}

std::vector<Json> Json::elements() const {
  std::vector<Json> list;
  if (!value || !value->is_array()) {
    wrong("is not a list");
    return list;
  }
  for (const nlohmann::json &element : *value)
    list.push_back(
        Json(&element, *error, path + "[" + std::to_string(list.size()) + "]"));
  return list;
}

std::vector<std::pair<std::string, Json>> Json::members() const {
  std::vector<std::pair<std::string, Json>> list;
  if (!value || !value->is_object()) {
    wrong("is not an object");
    return list;
  }
  for (const auto &[key, member] : value->items())
    list.emplace_back(key, Json(&member, *error, path + "." + key));
  return list;
}

std::pair<std::string, Json> Json::choice() const {
  if (value && value->is_object() && value->size() == 1)
    return members().front();
  return {"", wrong("is not an object with one member")};
}

} // namespace dpc::frontend::pt2
