#include "runtime/base/Json.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/ReadFile.h"
#include "runtime/plan/PlanFields.h"
#include "runtime/plan/PlanJson.h"
#include "runtime/plan/PlanValidate.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace dpc::rt {

namespace {

using Json = nlohmann::ordered_json;

/// Plans for thousands of ranks are small, because they describe stages.
constexpr int64_t kMaxPlanBytes = int64_t(4) << 30;

/// `error` is the first error, with its place ("phases.forward[12].symbol").
class Reader {
public:
  std::string error;

  void fail(const std::string &message) {
    if (error.empty())
      error = oneLine((place.empty() ? "" : place + ": ") + message);
  }

  void read(const Json &j, std::string &v) {
    if (!j.is_string())
      return wrongType("a string", j);
    v = j.get<std::string>();
  }
  void read(const Json &j, bool &v) {
    if (!j.is_boolean())
      return wrongType("true or false", j);
    v = j.get<bool>();
  }
  void read(const Json &j, int64_t &v) {
    if (!j.is_number_integer() ||
        (j.is_number_unsigned() &&
         j.get<uint64_t>() > std::numeric_limits<int64_t>::max()))
      return wrongType("an integer", j);
    v = j.get<int64_t>();
  }
  void read(const Json &j, int &v) {
    int64_t wide = 0;
    read(j, wide);
    if (wide < std::numeric_limits<int>::min() ||
        wide > std::numeric_limits<int>::max())
      return wrongType("a 32-bit integer", j);
    v = static_cast<int>(wide);
  }
  void read(const Json &j, double &v) {
    if (j.is_number())
      v = j.get<double>();
    else if (j == "inf" || j == "-inf")
      v = (j == "inf" ? 1 : -1) * std::numeric_limits<double>::infinity();
    else if (j == "nan")
      v = std::numeric_limits<double>::quiet_NaN();
    else
      wrongType("a number", j);
  }
  void read(const Json &j, DType &v) {
    std::optional<DType> type;
    if (j.is_string())
      type = parseDType(j.get<std::string>());
    if (!type)
      return wrongType("f32, f64, bf16, f16, i64, i32, i16, i8, u8 or bool", j);
    v = *type;
  }
  template <typename T>
    requires std::is_enum_v<T>
  void read(const Json &j, T &v) {
    std::optional<T> value;
    if (j.is_string())
      value = symbolize<T>(j.get<std::string>());
    if (!value)
      return wrongType(acceptedNames<T>(), j);
    v = *value;
  }
  void read(const Json &j, Layout &v) { read(j, v.dims); }
  template <typename T> void read(const Json &j, std::optional<T> &v) {
    if (j.is_null())
      return v.reset();
    read(j, v.emplace());
  }
  template <typename T> void read(const Json &j, std::vector<T> &v) {
    if (!j.is_array())
      return wrongType("a list", j);
    v.resize(j.size());
    for (size_t i = 0; i < j.size() && error.empty(); ++i)
      within("[" + std::to_string(i) + "]", [&] { read(j[i], v[i]); });
  }
  template <typename T> void read(const Json &j, std::map<std::string, T> &v) {
    if (!j.is_object())
      return wrongType("an object", j);
    for (auto it = j.begin(); it != j.end() && error.empty(); ++it)
      within("." + it.key(), [&] { read(*it, v[it.key()]); });
  }
  template <typename T>
    requires std::is_class_v<T>
  void read(const Json &j, T &v) {
    readObject(j, {}, [&](auto &visit) { fields(visit, v); });
  }
  void read(const Json &j, Instruction &v) {
    std::string name;
    if (j.is_object() && j.contains("op"))
      within(".op", [&] { read(j["op"], name); });
    if (!makeOp(name, v.op))
      return fail("instruction \"" + name + "\" is not known to this build");
    bool hasBody = std::holds_alternative<ExpertTilesOp>(v.op);
    if (hasBody && inBody)
      return fail("instruction \"" + name + "\" is in the body of another one");
    inBody = hasBody;
    readObject(j, {"op"}, [&](auto &visit) {
      fields(visit, v);
      std::visit([&](auto &op) { fields(visit, op); }, v.op);
    });
    inBody &= !hasBody;
  }

  /// Refuses fields that `walk` does not visit, except those in `others`.
  template <typename Walk>
  void readObject(const Json &j, std::set<std::string> others, Walk &&walk) {
    if (!j.is_object())
      return wrongType("an object", j);
    auto visit = [&](const char *name, auto &member) {
      others.insert(name);
      auto it = j.find(name);
      if (it == j.end())
        return fail("field \"" + std::string(name) + "\" is missing");
      within(std::string(".") + name, [&] { read(*it, member); });
    };
    walk(visit);
    for (auto it = j.begin(); it != j.end() && error.empty(); ++it)
      if (!others.count(it.key()))
        fail("field \"" + it.key() + "\" is not known to this build");
  }

private:
  template <typename F> void within(const std::string &step, F &&body) {
    size_t length = place.size();
    place += place.empty() && step[0] == '.' ? step.substr(1) : step;
    body();
    place.resize(length);
  }

  void wrongType(const std::string &wanted, const Json &found) {
    std::string text = found.dump();
    if (text.size() > 40)
      text = text.substr(0, 37) + "...";
    fail("expected " + wanted + ", found " + text);
  }

  /// Returns false if no op has this name.
  template <size_t I = 0>
  static bool makeOp(const std::string &name, OpVariant &op) {
    if constexpr (I == std::variant_size_v<OpVariant>) {
      return false;
    } else {
      op.emplace<I>();
      return opName(op) == name || makeOp<I + 1>(name, op);
    }
  }

  std::string place;
  bool inBody = false; ///< in an instruction of the body of another one
};

Status checkVersion(const Json &body) {
  auto version = body.find("version");
  if (version == body.end())
    return Status::invalid("field \"version\" is missing: not a plan");
  if (*version != kPlanVersion)
    return Status::invalid("plan version ", version->dump(),
                           " is not supported, this build reads ", kPlanVersion,
                           "; compile again with this build's dpc-opt");
  return Status::success();
}

Status checkChecksum(Json &body) {
  auto found = body.find("checksum");
  if (found == body.end() || !found->is_string())
    return Status::invalid("field \"checksum\" is missing");
  std::string written = *found;
  body.erase("checksum");
  std::string actual = hashText(body.dump());
  if (actual != written)
    return Status::invalid("the contents have checksum ", actual,
                           ", the file says ", written,
                           ": it was changed after dpc-opt wrote it");
  return Status::success();
}

Expected<Plan> readBody(Json &body) {
  if (!body.is_object())
    return Status::invalid("expected an object: not a plan");
  DPC_TRY(checkVersion(body));
  DPC_TRY(checkChecksum(body));
  Plan plan;
  Reader reader;
  reader.readObject(body, {"version"},
                    [&](auto &visit) { fields(visit, plan); });
  if (!reader.error.empty())
    return Status::invalid(reader.error);
  return plan;
}

} // namespace

Expected<Plan> planFromJson(const std::string &text, const std::string &file) {
  if (nestsTooDeep(text))
    return Status::invalid(file, ": lists are nested too deeply for a plan");
  Json body;
  try {
    body = Json::parse(text);
  } catch (const Json::exception &error) {
    // Removes the prefix "[json.exception.parse_error.101] ".
    std::string why = error.what();
    size_t prefix = why.find("] ");
    return Status::invalid(
        file, ": not JSON: ",
        (prefix == std::string::npos ? why : why.substr(prefix + 2)));
  }
  DPC_ASSIGN(Plan plan, readBody(body).in(file));
  return plan;
}

Expected<Plan> readPlan(const std::string &dir) {
  std::string path = dir + "/plan.json";
  Expected<std::string> text = readFile(path, kMaxPlanBytes);
  std::string previous = dir + "/" + kPreviousPlan;
  if (std::error_code code; !text && std::filesystem::exists(previous, code))
    return Status::invalid(
        path,
        ": is missing, because the last dpc-opt into this folder has "
        "failed or still runs; compile again, or restore the plan "
        "before it with: mv ",
        previous, " ", path);
  if (!text)
    return Status(text.status().code(),
                  text.status().message() +
                      "; a plan folder written by dpc-opt is accepted");
  Expected<Plan> plan = planFromJson(*text, path);
  if (!plan)
    return plan;
  DPC_TRY(validatePlan(*plan, path));
  return plan;
}

} // namespace dpc::rt
