//===- PlanDiff.cpp - Differences between two plans -----------------------===//
#include "tools/driver/PlanDiff.h"

#include "cost-model/report/Report.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

namespace dpc {

using nlohmann::ordered_json;

namespace {

class Section {
public:
  explicit Section(std::string title) : title(std::move(title)) {}
  void add(const std::string &name, const std::string &before,
           const std::string &after, const std::string &more = "") {
    if (before != after)
      lines.push_back("  " + name + ": " + before + arrow + after +
                      (more.empty() ? "" : ", " + more));
  }
  void breakLines() { arrow = "\n    -> "; }
  std::string str() const {
    std::string text;
    for (const std::string &line : lines)
      text += line + "\n";
    return lines.empty() ? "" : title + "\n" + text;
  }

private:
  std::string title, arrow = " -> ";
  std::vector<std::string> lines;
};

/// One kind of traffic, on the stage that sends the most.
struct Sent {
  double times = 0, bytes = 0, seconds = 0;
};

} // namespace

static Expected<ordered_json> readChosen(std::filesystem::path path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code))
    path /= "report.json";
  std::ifstream in(path);
  if (!in)
    return Error{path.string() + ": cannot be read; expected a folder "
                                 "that dpc-opt wrote a report into"};
  auto json = ordered_json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("chosen") ||
      !json["chosen"].is_object() || !json["chosen"].contains("predicted"))
    return Error{path.string() + ": no report.json with a chosen plan"};
  json["chosen"]["model"] = json.value("model", "");
  json["chosen"]["cluster"] = json["cluster"].value("name", "");
  return std::move(json["chosen"]);
}

static std::string textOf(const ordered_json &value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

static double numberOf(const ordered_json &json, const char *key) {
  return json.contains(key) && json[key].is_number() ? json[key].get<double>()
                                                     : 0;
}

static std::string changeOf(double before, double after) {
  if (before <= 0 || after <= 0)
    return "";
  double ratio = after / before;
  char text[64];
  if (ratio >= 2)
    std::snprintf(text, sizeof(text), "%.3g times as much", ratio);
  else
    std::snprintf(text, sizeof(text), "%.3g %% %s", std::abs(ratio - 1) * 100,
                  ratio > 1 ? "more" : "less");
  return text;
}

static std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", share * 100);
  return text;
}

static std::string strategyChanges(const ordered_json &a,
                                   const ordered_json &b) {
  Section section("strategy");
  section.add("model", textOf(a["model"]), textOf(b["model"]));
  section.add("cluster", textOf(a["cluster"]), textOf(b["cluster"]));
  for (const auto &[key, value] : b["strategy"].items())
    section.add(key,
                a["strategy"].contains(key) ? textOf(a["strategy"][key]) : "-",
                textOf(value));
  return section.str();
}

static std::string predictionChanges(const ordered_json &a,
                                     const ordered_json &b) {
  Section section("predicted");
  auto seconds = [&](const char *name, const char *key) {
    double before = numberOf(a, key), after = numberOf(b, key);
    section.add(name, cost::formatSeconds(before), cost::formatSeconds(after),
                changeOf(before, after));
  };
  seconds("step", "step_seconds");
  seconds("computation", "compute_seconds");
  seconds("exposed communication", "exposed_communication_seconds");
  for (auto [name, key] :
       {std::pair("MFU", "mfu"), std::pair("bubble", "bubble_fraction")})
    section.add(name, percent(numberOf(a, key)), percent(numberOf(b, key)));
  return section.str();
}

static std::string byteChanges(const std::string &title, const ordered_json &a,
                               const ordered_json &b) {
  Section section(title);
  for (const auto &[key, value] : b.items()) {
    double before = numberOf(a, key.c_str()), after = value.get<double>();
    section.add(key, cost::formatBytes(before), cost::formatBytes(after),
                changeOf(before, after));
  }
  for (const auto &[key, value] : a.items())
    if (!b.contains(key))
      section.add(key, cost::formatBytes(value.get<double>()), "-");
  return section.str();
}

static std::map<std::string, Sent> sentIn(const ordered_json &chosen) {
  std::map<std::string, Sent> most;
  if (!chosen.contains("detail"))
    return most;
  std::map<std::pair<std::string, int64_t>, Sent> byStage;
  for (const ordered_json &row : chosen["detail"]["traffic"]) {
    Sent &sent = byStage[{row["what"], row["stage"]}];
    sent.times += row["times"].get<double>();
    sent.seconds += row["seconds"].get<double>();
    for (const auto &[level, bytes] : row["bytes_per_level"].items())
      sent.bytes += bytes.get<double>();
  }
  for (const auto &[key, sent] : byStage)
    if (Sent &so = most[key.first]; sent.bytes >= so.bytes)
      so = sent;
  return most;
}

static std::string trafficChanges(const ordered_json &a,
                                  const ordered_json &b) {
  Section section("collectives of a rank in a step");
  std::map<std::string, Sent> before = sentIn(a), after = sentIn(b);
  auto said = [](const std::map<std::string, Sent> &all,
                 const std::string &what) -> std::string {
    auto it = all.find(what);
    if (it == all.end())
      return "none";
    return std::to_string(std::llround(it->second.times)) + " x, " +
           cost::formatBytes(it->second.bytes) + ", " +
           cost::formatSeconds(it->second.seconds);
  };
  std::map<std::string, Sent> all = before;
  all.insert(after.begin(), after.end());
  for (const auto &[what, sent] : all)
    section.add(what, said(before, what), said(after, what));
  return section.str();
}

static std::map<std::string, std::string>
operatorsOf(const ordered_json &chosen) {
  std::map<std::string, std::string> operators;
  if (!chosen.contains("detail"))
    return operators;
  for (const ordered_json &row : chosen["detail"]["operators"])
    operators[textOf(row["name"]) + " (" + textOf(row["op"]) + ", " +
              textOf(row["count"]) + " x)"] =
        textOf(row["kind"]) +
        (textOf(row["stored"]).empty() ? ""
                                       : ", stored " + textOf(row["stored"])) +
        (textOf(row["result"]).empty() ? ""
                                       : ", result " + textOf(row["result"]));
  return operators;
}

static std::string operatorChanges(const ordered_json &a,
                                   const ordered_json &b) {
  Section section("operators");
  section.breakLines();
  std::map<std::string, std::string> before = operatorsOf(a);
  for (const auto &[name, split] : operatorsOf(b)) {
    auto it = before.find(name);
    section.add(name, it == before.end() ? "not there" : it->second, split);
  }
  return section.str();
}

Expected<std::string> diffOfPlans(const std::filesystem::path &before,
                                  const std::filesystem::path &after) {
  auto a = readChosen(before), b = readChosen(after);
  if (!a || !b)
    return Error{(a ? b : a).message()};
  const ordered_json &p = (*a)["predicted"], &q = (*b)["predicted"];
  std::string text = strategyChanges(*a, *b) + predictionChanges(p, q) +
                     byteChanges("memory of the fullest rank",
                                 p["memory_bytes"], q["memory_bytes"]) +
                     byteChanges("bytes that a rank sends, by level",
                                 p["bytes_per_level"], q["bytes_per_level"]) +
                     trafficChanges(*a, *b) + operatorChanges(*a, *b);
  return text.empty() ? "no difference\n" : text;
}

} // namespace dpc
