//===- Software.cpp - Software profiles -----------------------------------===//

#include "cost-model/machine/Software.h"
#include "cost-model/machine/DataFolder.h"

#include "runtime/base/Json.h"

namespace dpc::cost {

using nlohmann::json;

template <typename T>
static void readValue(JsonFields &entry, const SoftwareEntry &key, T &out,
                      JsonErrors &errors) {
  if constexpr (std::is_same_v<T, double>) {
    entry.number("value", out, key.range, key.scale);
  } else if constexpr (std::is_same_v<T, bool>) {
    entry.required("value", "true or false");
    entry.optionalBoolean("value", out);
  } else {
    std::string text;
    entry.string("value", text);
    std::optional<T> value = symbolize<T>(text);
    std::string expected = "one of";
    for (std::string_view name : kNamesOf<T>)
      expected += " " + std::string(name);
    if (!value)
      errors.report(entry.path("value"), "value \"" + text + "\"", expected);
    out = value.value_or(out);
  }
}

Expected<Software> parseSoftware(const json &root, const std::string &where) {
  JsonErrors errors;
  Software software;
  int64_t version = 0;
  JsonFields fields(root, where, errors);
  fields.integer("version", version, 1, 1);
  fields.string("name", software.name);
  software.keepsMemory = fields.has("reserved_gibibytes");
  visitEntries([&](const SoftwareEntry &key, auto member) {
    std::string name(key.name);
    const json *entry = key.isOfMemory && !software.keepsMemory
                            ? nullptr
                            : fields.optional(name);
    if (!entry)
      return;
    JsonFields inner(*entry, fields.path(name), errors);
    std::string source;
    readValue(inner, key, software.*member, errors);
    inner.string("source", source);
    inner.finish();
  });
  fields.finish();
  if (errors)
    return Error{errors.status().message()};
  return software;
}

static constexpr const char *ownName = "dpc";
static constexpr DataFolder profiles{"software", "DPC_SOFTWARE_DIR",
                                     DPC_SOFTWARE_DIR, ownName};

std::vector<std::string> knownSoftware() { return profiles.names(); }

Expected<Software> loadSoftware(const std::string &name) {
  if (name == ownName)
    return Software();
  auto file = profiles.read(name);
  if (!file)
    return Error{file.message()};
  return parseSoftware(file->second, file->first);
}

} // namespace dpc::cost
