#include "runtime/observe/WriteProfile.h"

#include "runtime/base/WriteFile.h"
#include "runtime/observe/Profile.h"

#include <cstdio>
#include <fstream>
#include <sstream>

namespace dpc {

using namespace rt;

/// The text of a file; "" if it does not exist.
static std::string textOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return file ? text.str() : "";
}

/// Inserts `json` at the placeholder in page.html of dpc-opt. Leaves a page
/// without a placeholder unchanged.
static Status addToPage(const std::string &path, std::string json) {
  const std::string begin =
      "<script type=\"application/json\" id=\"measured\">";
  const std::string end = "</script>";
  std::string page = textOf(path);
  size_t from = page.find(begin);
  size_t to = from == std::string::npos ? from : page.find(end, from);
  if (to == std::string::npos)
    return Status::success();
  // No text in the JSON may end the script element.
  for (size_t at = 0; (at = json.find('<', at)) != std::string::npos; at += 6)
    json.replace(at, 1, "\\u003c");
  from += begin.size();
  return replaceFile(path, page.replace(from, to - from, json));
}

Status writeProfile(const std::string &plan, const std::string &events) {
  constexpr size_t kRows = 24; // fits on a screen with the rest
  std::string predicted = textOf(plan + "/trace.json");
  Expected<Profile> profile =
      compareTraces(predicted, "{\"traceEvents\": [" + events + "]}");
  if (!profile)
    return profile.status().in("--profile: " + plan);
  std::printf("%s", profileText(*profile, kRows).c_str());
  if (!profile->isPredicted)
    std::printf("nothing to compare with: %s has no trace.json, which dpc-opt "
                "writes with --emit=plan,report,trace\n",
                plan.c_str());
  std::string json = profileJson(*profile);
  DPC_TRY(replaceFile(plan + "/profile.json", json).in("--profile"));
  return addToPage(plan + "/report.html", json).in("--profile");
}

} // namespace dpc
