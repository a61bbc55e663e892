#define XXH_INLINE_ALL
#include "runtime/base/ReadFile.h"
#include "runtime/base/WriteFile.h"
#include "runtime/plan/PlanFields.h"
#include "runtime/plan/PlanJson.h"

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <xxhash.h>

namespace dpc::rt {

namespace {

using Json = nlohmann::ordered_json;

Json toJson(const std::string &v) { return v; }
Json toJson(bool v) { return v; }
Json toJson(int v) { return v; }
Json toJson(int64_t v) { return v; }
/// JSON has no infinities, which fills may use.
Json toJson(double v) {
  if (std::isfinite(v))
    return v;
  return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
}
Json toJson(DType v) { return nameOf(v); }
template <typename T>
  requires std::is_enum_v<T>
Json toJson(T v) {
  return nameOf(v);
}
Json toJson(const Layout &v);
Json toJson(const Instruction &v);
template <typename T> Json toJson(const std::vector<T> &v);
template <typename T> Json toJson(const std::optional<T> &v);
template <typename T> Json toJson(const std::map<std::string, T> &v);
template <typename T>
  requires std::is_class_v<T>
Json toJson(const T &v);

struct WriteVisitor {
  Json &object;
  template <typename T> void operator()(const char *name, const T &value) {
    object[name] = toJson(value);
  }
};

template <typename T>
  requires std::is_class_v<T>
Json toJson(const T &v) {
  Json object = Json::object();
  WriteVisitor visit{object};
  fields(visit, v);
  return object;
}
template <typename T> Json toJson(const std::vector<T> &v) {
  Json array = Json::array();
  for (const T &element : v)
    array.push_back(toJson(element));
  return array;
}
template <typename T> Json toJson(const std::optional<T> &v) {
  return v ? toJson(*v) : Json(nullptr);
}
template <typename T> Json toJson(const std::map<std::string, T> &v) {
  Json object = Json::object();
  for (const auto &[key, value] : v)
    object[key] = toJson(value);
  return object;
}
Json toJson(const Layout &v) { return toJson(v.dims); }
Json toJson(const Instruction &v) {
  Json object = Json::object();
  object["op"] = opName(v.op);
  WriteVisitor visit{object};
  fields(visit, v);
  std::visit([&](const auto &op) { fields(visit, op); }, v.op);
  return object;
}

/// Replaces bytes that are not UTF-8 by U+FFFD. Paths may contain such bytes.
std::string dump(const Json &value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Returns whether each element is on a separate line.
bool isLong(const Json &value) {
  return value.is_structured() && !value.empty() &&
         value.begin()->is_structured();
}

void appendMembers(std::string &text, const Json &object, int depth) {
  std::string indent(2 * depth, ' ');
  bool first = true;
  for (auto it = object.begin(); it != object.end(); ++it) {
    text += (first ? "\n" : ",\n") + indent;
    first = false;
    if (object.is_object())
      text += dump(it.key()) + ": ";
    if (depth < 3 && isLong(*it)) {
      text += it->is_object() ? '{' : '[';
      appendMembers(text, *it, depth + 1);
      text += "\n" + indent + (it->is_object() ? '}' : ']');
    } else {
      text += dump(*it);
    }
  }
}

} // namespace

std::string planToJson(const Plan &plan) {
  Json body = Json::object();
  body["version"] = plan.version;
  WriteVisitor visit{body};
  fields(visit, plan);
  body["checksum"] = hashText(dump(body));
  std::string text = "{";
  appendMembers(text, body, 1);
  return text + "\n}\n";
}

Status writePlan(const Plan &plan, const std::string &dir) {
  return replaceFile(dir + "/plan.json", planToJson(plan));
}

/// Kernel files are smaller.
static constexpr int64_t kMaxHashedBytes = int64_t(4) << 30;

std::string hashDigits(uint64_t hash) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, hash);
  return digits;
}

bool isHash(const std::string &text) {
  return text.size() == 16 &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string hashText(std::string_view text) {
  return hashDigits(XXH3_64bits(text.data(), text.size()));
}

Expected<std::string> hashFile(const std::string &path) {
  DPC_ASSIGN(std::string bytes, readFile(path, kMaxHashedBytes));
  return hashText(bytes);
}

} // namespace dpc::rt
