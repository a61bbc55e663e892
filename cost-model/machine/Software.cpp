//===- Software.cpp - Software profiles -----------------------------------===//

#include "cost-model/machine/Software.h"
#include "cost-model/machine/DataFolder.h"

namespace dpc::cost {

using nlohmann::json;

Expected<Software> parseSoftware(const json &root, const std::string &where) {
  JsonErrors errors;
  Software software;
  int64_t version = 0;
  JsonFields fields(root, where, errors);
  SourcedFields reader(fields, errors);
  fields.integer("version", version, 1, 1);
  fields.string("name", software.name);
  software.keepsMemory = fields.has("reserved_gibibytes");
  visitEntries([&](const SoftwareEntry &key, auto member) {
    auto &out = software.*member;
    using T = std::decay_t<decltype(out)>;
    std::string name(key.name);
    if (key.isOfMemory && !software.keepsMemory)
      return;
    if constexpr (std::is_same_v<T, double>) {
      reader.optionalNumber(name, out, key.range, key.scale);
    } else if constexpr (std::is_same_v<T, bool>) {
      reader.optionalFlag(name, out);
    } else {
      std::string text(stringify(out));
      reader.optionalText(name, text);
      readName(text, fields.path(name) + ".value", out, errors);
    }
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
