#include "runtime/observe/Profile.h"

#include "runtime/base/Json.h"
#include "runtime/base/WriteFile.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>

namespace dpc::rt {

using Json = nlohmann::ordered_json;

namespace {

struct Event {
  int64_t rank = 0, queue = 0, step = 0;
  std::string name, op, phase;
  double begin = 0, seconds = 0;
};

struct Trace {
  std::vector<Event> events;
  std::map<int64_t, std::string> queues;
};

struct Sums {
  std::set<int64_t> ranks;
  double events = 0, seconds = 0;
};

/// Events summed by (name, op, queue, phase), and when each step runs.
struct Summary {
  std::map<std::vector<std::string>, Sums> rows;
  std::map<int64_t, std::pair<double, double>> steps;
  std::set<int64_t> ranks;
};

} // namespace

/// Replaces parts of a name that consist of digits by "*".
static std::string folded(const std::string &name) {
  auto ends = [](char c) { return c == '.' || c == '/'; };
  std::string result;
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && !ends(name[end]))
      ++end;
    std::string part = name.substr(i, end - i);
    bool isNumber = i > 0 && !part.empty() &&
                    std::all_of(part.begin(), part.end(), [](unsigned char c) {
                      return std::isdigit(c) != 0;
                    });
    result += isNumber ? "*" : part;
    if (end < name.size())
      result += name[end++];
    i = end;
  }
  return result;
}

static bool hasText(const Json &json, const char *key) {
  auto found = json.find(key);
  return found != json.end() && found->is_string();
}

static bool isEvent(const Json &json) {
  if (!json.is_object() || !hasText(json, "ph") || !hasText(json, "name") ||
      !json.contains("args") || !json["args"].is_object())
    return false;
  for (const char *key : {"pid", "tid"})
    if (!json.contains(key) || !json[key].is_number_integer())
      return false;
  const Json &args = json["args"];
  if (json["ph"] != "X")
    return hasText(args, "name");
  return hasText(json, "cat") && hasText(args, "phase") &&
         args.contains("step") && args["step"].is_number_integer() &&
         json.contains("ts") && json["ts"].is_number() &&
         json.contains("dur") && json["dur"].is_number();
}

static Event eventOf(const Json &json) {
  return {json["pid"].get<int64_t>(),
          json["tid"].get<int64_t>(),
          json["args"]["step"].get<int64_t>(),
          folded(json["name"].get<std::string>()),
          json["cat"].get<std::string>(),
          json["args"]["phase"].get<std::string>(),
          json["ts"].get<double>() * 1e-6,
          json["dur"].get<double>() * 1e-6};
}

static Expected<Trace> readTrace(const std::string &what,
                                 const std::string &text) {
  Json json = nestsTooDeep(text)
                  ? Json()
                  : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("traceEvents") ||
      !json["traceEvents"].is_array())
    return Status::invalid(what, " is not a trace: it has no traceEvents");
  Trace trace;
  const Json &events = json["traceEvents"];
  for (size_t i = 0; i < events.size(); ++i) {
    const Json &event = events[i];
    if (!isEvent(event))
      return Status::invalid(what, ": traceEvents[", i,
                             "] is not an event of dpc");
    if (event["ph"] == "X")
      trace.events.push_back(eventOf(event));
    else if (event["name"] == "thread_name")
      trace.queues[event["tid"].get<int64_t>()] =
          event["args"]["name"].get<std::string>();
  }
  return trace;
}

static Summary summarize(const Trace &trace, int64_t firstStep,
                         const std::set<int64_t> &ranks) {
  Summary summary;
  for (const Event &event : trace.events) {
    if (event.step < firstStep || ranks.count(event.rank) == 0)
      continue;
    auto queue = trace.queues.find(event.queue);
    Sums &sums =
        summary.rows[{event.name, event.op,
                      queue == trace.queues.end() ? std::to_string(event.queue)
                                                  : queue->second,
                      event.phase}];
    sums.ranks.insert(event.rank);
    sums.events += 1;
    sums.seconds += event.seconds;
    summary.ranks.insert(event.rank);
    double end = event.begin + event.seconds;
    auto [it, isNew] = summary.steps.try_emplace(event.step, event.begin, end);
    if (isNew)
      continue;
    it->second.first = std::min(it->second.first, event.begin);
    it->second.second = std::max(it->second.second, end);
  }
  return summary;
}

static std::set<int64_t> ranksOf(const Trace &trace) {
  std::set<int64_t> ranks;
  for (const Event &event : trace.events)
    ranks.insert(event.rank);
  return ranks;
}

static double stepSeconds(const Summary &summary) {
  double seconds = 0;
  for (const auto &[step, span] : summary.steps)
    seconds += span.second - span.first;
  return summary.steps.empty()
             ? 0
             : seconds / static_cast<double>(summary.steps.size());
}

/// Adds a row for each queue: the sums over the rows of the queue, per rank.
static void addQueues(Profile &profile, const Summary &measured,
                      const Summary &predicted) {
  std::map<std::string, ProfileRow> queues;
  auto ranks = static_cast<double>(measured.ranks.size());
  auto add = [&](const Summary &summary, bool isMeasured) {
    double share = 1 / ranks / static_cast<double>(summary.steps.size());
    for (const auto &[key, sums] : summary.rows) {
      // Skips predicted events that did not run.
      if (measured.rows.count(key) == 0)
        continue;
      ProfileRow &row = queues[key[2]];
      row.queue = row.name = key[2];
      if (isMeasured) {
        row.times += sums.events * share;
        row.measuredSeconds += sums.seconds * share;
      } else {
        row.predictedSeconds =
            row.predictedSeconds.value_or(0) + sums.seconds * share;
      }
    }
  };
  add(measured, true);
  if (profile.isPredicted)
    add(predicted, false);
  for (auto &[name, row] : queues)
    profile.queues.push_back(std::move(row));
}

static void addRows(Profile &profile, const Summary &measured,
                    const Summary &predicted) {
  auto meanOf = [](const Summary &summary, const Sums &sums, double value) {
    return value / static_cast<double>(sums.ranks.size()) /
           static_cast<double>(summary.steps.size());
  };
  for (const auto &[key, sums] : measured.rows) {
    ProfileRow row{key[0], key[1], key[2], key[3]};
    row.times = meanOf(measured, sums, sums.events);
    row.measuredSeconds = meanOf(measured, sums, sums.seconds);
    auto found = predicted.rows.find(key);
    if (found != predicted.rows.end())
      row.predictedSeconds =
          meanOf(predicted, found->second, found->second.seconds);
    profile.rows.push_back(std::move(row));
  }
  auto order = [](const ProfileRow &row) {
    return std::tuple(-std::abs(row.difference()), std::tie(row.name, row.op),
                      std::tie(row.queue, row.phase));
  };
  std::sort(profile.rows.begin(), profile.rows.end(),
            [&](const ProfileRow &a, const ProfileRow &b) {
              return order(a) < order(b);
            });
}

Expected<Profile> compareTraces(const std::string &predicted,
                                const std::string &measured) {
  DPC_ASSIGN(Trace ran, readTrace("the measured trace", measured));
  Expected<Trace> simulated = Trace();
  if (!predicted.empty())
    simulated = readTrace("trace.json", predicted);
  if (!simulated)
    return simulated.status();
  Profile profile;
  profile.isPredicted = !predicted.empty();
  // For a large plan, dpc-opt simulates only one rank per stage.
  std::set<int64_t> ranks = ranksOf(ran);
  if (profile.isPredicted) {
    std::set<int64_t> shown = ranksOf(*simulated), both;
    std::set_intersection(ranks.begin(), ranks.end(), shown.begin(),
                          shown.end(), std::inserter(both, both.begin()));
    ranks = both;
  }
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (const Event &event : ran.events) {
    first = std::min(first, event.step);
    last = std::max(last, event.step);
  }
  if (ranks.empty())
    return Status::invalid("no measured step has a prediction");
  Summary found = summarize(ran, last > first ? first + 1 : first, ranks);
  Summary expected = summarize(*simulated, 0, ranks);
  profile.steps = static_cast<int64_t>(found.steps.size());
  profile.ranks = static_cast<int64_t>(ranks.size());
  profile.step.name = "step";
  profile.step.times = 1;
  profile.step.measuredSeconds = stepSeconds(found);
  if (profile.isPredicted)
    profile.step.predictedSeconds = stepSeconds(expected);
  addQueues(profile, found, expected);
  addRows(profile, found, expected);
  return profile;
}

static Json rowJson(const ProfileRow &row, bool isTotal) {
  Json json = {{"name", row.name}};
  if (!isTotal) {
    json["op"] = row.op;
    json["queue"] = row.queue;
    json["phase"] = row.phase;
  }
  json["times"] = row.times;
  if (row.predictedSeconds)
    json["predicted_seconds"] = *row.predictedSeconds;
  json["measured_seconds"] = row.measuredSeconds;
  return json;
}

std::string profileJson(const Profile &profile) {
  Json queues = Json::array(), rows = Json::array();
  for (const ProfileRow &row : profile.queues)
    queues.push_back(rowJson(row, true));
  for (const ProfileRow &row : profile.rows)
    rows.push_back(rowJson(row, false));
  Json json = {{"version", 1},
               {"steps", profile.steps},
               {"ranks", profile.ranks},
               {"predicted", profile.isPredicted},
               {"step", rowJson(profile.step, true)},
               {"queues", queues},
               {"rows", rows}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// "1.23 ms", "-12.0 us"
static std::string timeText(double seconds, bool hasSign) {
  double size = std::abs(seconds);
  double scale = size >= 1 ? 1 : size >= 1e-3 ? 1e3 : 1e6;
  const char *unit = size >= 1 ? "s" : size >= 1e-3 ? "ms" : "us";
  double shown = seconds * scale;
  int digits = std::abs(shown) >= 99.95 ? 0 : std::abs(shown) >= 9.995 ? 1 : 2;
  char text[48];
  std::snprintf(text, sizeof text, hasSign ? "%+.*f %s" : "%.*f %s", digits,
                shown, unit);
  return text;
}

static std::string rowText(const ProfileRow &row, const std::string &label) {
  char text[160];
  std::snprintf(
      text, sizeof text, "  %10s  %10s  %10s  %6.0f  ",
      row.predictedSeconds ? timeText(*row.predictedSeconds, false).c_str()
                           : "-",
      timeText(row.measuredSeconds, false).c_str(),
      row.predictedSeconds ? timeText(row.difference(), true).c_str() : "-",
      row.times);
  return text + label + "\n";
}

std::string profileText(const Profile &profile, size_t mostRows) {
  std::string text = concat(
      "profile of ", profile.steps, (profile.steps == 1 ? " step" : " steps"),
      " on ", profile.ranks, (profile.ranks == 1 ? " rank" : " ranks"),
      ", means per step and rank; measured collectives wait "
      "for the slowest rank\n");
  text += "   predicted    measured  difference   times\n";
  text += rowText(profile.step, "step, from its first instruction to its last");
  for (const ProfileRow &row : profile.queues)
    text += rowText(row, "all of the " + row.name + " queue");
  for (size_t i = 0; i < std::min(mostRows, profile.rows.size()); ++i) {
    const ProfileRow &row = profile.rows[i];
    bool saysOp = row.name == row.op || row.name.rfind(row.op + " ", 0) == 0;
    std::string label = row.name + (saysOp ? "" : " (" + row.op + ")");
    text += rowText(row, label + ", " + row.phase);
  }
  if (profile.rows.size() > mostRows)
    text += concat("  and ", profile.rows.size() - mostRows,
                   " more with smaller differences: profile.json\n");
  return text;
}

static std::string fileText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return file ? text.str() : "";
}

/// Inserts `json` into a report page that has a place for it.
static Status addToPage(const std::string &path, std::string json) {
  const std::string begin =
      "<script type=\"application/json\" id=\"measured\">";
  const std::string end = "</script>";
  std::string page = fileText(path);
  size_t from = page.find(begin);
  size_t to = from == std::string::npos ? from : page.find(end, from);
  if (to == std::string::npos)
    return Status::success();
  // "</script>" in the JSON would end the element.
  for (size_t at = 0; (at = json.find('<', at)) != std::string::npos; at += 6)
    json.replace(at, 1, "\\u003c");
  from += begin.size();
  return replaceFile(path, page.replace(from, to - from, json));
}

Status writeProfile(const std::string &plan, const std::string &events) {
  constexpr size_t kRows = 24; // fits on a screen
  std::string predicted = fileText(plan + "/trace.json");
  Expected<Profile> profile =
      compareTraces(predicted, "{\"traceEvents\": [" + events + "]}");
  if (!profile)
    return profile.status().in("--profile: " + plan);
  std::printf("%s", profileText(*profile, kRows).c_str());
  if (!profile->isPredicted)
    std::printf("there is no prediction: %s has no trace.json; dpc-opt "
                "--emit=plan,report,trace writes it\n",
                plan.c_str());
  std::string json = profileJson(*profile);
  DPC_TRY(replaceFile(plan + "/profile.json", json).in("--profile"));
  return addToPage(plan + "/report.html", json).in("--profile");
}

} // namespace dpc::rt
