//===- WriteReport.cpp - report.json and report.html ----------------------===//
#include "tools/driver/WriteReport.h"

#include "codegen/report/Page.h"
#include "cost-model/strategy/Strategy.h"
#include "tools/driver/OutputFolder.h"

#include <nlohmann/json.hpp>

namespace dpc {

using nlohmann::ordered_json;

static std::string textOf(const ordered_json &json, int indent) {
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

std::string reportText(const ordered_json &report) {
  const std::string mark = "@detail@";
  ordered_json outline = report;
  ordered_json &chosen = outline["chosen"];
  if (!chosen.is_object() || !chosen.contains("detail"))
    return textOf(report, 2) + "\n";
  std::string detail = textOf(chosen["detail"], -1);
  chosen["detail"] = mark;
  std::string text = textOf(outline, 2);
  // The first match is the key: quotes inside texts are escaped.
  std::string quoted = "\"detail\": \"" + mark + "\"";
  text.replace(text.find(quoted), quoted.size(), "\"detail\": " + detail);
  return text + "\n";
}

/// Replaces the one `mark` in `page`.
static void fill(std::string &page, std::string_view mark,
                 std::string_view content) {
  size_t at = page.find(mark);
  if (at != std::string::npos)
    page.replace(at, mark.size(), content);
}

/// `json` without "<", so that no text ends the surrounding script element.
static std::string embeddable(std::string json) {
  for (size_t at = 0; (at = json.find('<', at)) != std::string::npos; at += 6)
    json.replace(at, 1, "\\u003c");
  return json;
}

static std::string reportPage(const ordered_json &report) {
  report::PageParts parts = report::pageParts();
  std::string page(parts.page);
  fill(page, "/*STYLE*/", parts.style);
  fill(page, "/*LIBRARY*/", parts.charts);
  fill(page, "/*SCRIPT*/", parts.script);
  fill(page, "@KEYS@", embeddable(cost::keysToJson().dump()));
  // Last, because the report may contain the other marks.
  fill(page, "@REPORT@", embeddable(textOf(report, -1)));
  return page;
}

std::string writeReportFiles(const ordered_json &report,
                             const std::filesystem::path &dir) {
  std::string error = writeText(dir / "report.json", reportText(report));
  return error.empty() ? writeText(dir / "report.html", reportPage(report))
                       : error;
}

} // namespace dpc
