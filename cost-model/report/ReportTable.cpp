//===- ReportTable.cpp - Rows of the strategy table -----------------------===//
#include "cost-model/report/ReportTable.h"

#include "cost-model/report/Report.h"

#include <algorithm>

namespace dpc::cost {

static TableRow rowOf(const Candidate &candidate, std::string mark) {
  const Evaluation &evaluation = candidate.evaluation;
  TableRow row{std::move(mark),
               stringifyStrategy(
                   placedStrategy(candidate.strategy, evaluation.decisions)),
               "-",
               "-",
               "-",
               candidate.why};
  // Pruned and rejected candidates have no evaluation.
  if (evaluation.stepSeconds > 0 && evaluation.rejected.empty() &&
      candidate.skipped.empty()) {
    // "~" marks composed evaluations.
    row.step = (evaluation.isComposed ? "~" : "") +
               formatSeconds(evaluation.stepSeconds);
    row.exposed = formatSeconds(evaluation.exposedCommunicationSeconds);
    row.memory = formatBytes(evaluation.memory.total());
  }
  if (row.why.empty())
    row.why = evaluation.rejected;
  if (!candidate.fits && !row.why.empty() && candidate.skipped.empty())
    row.why = "rejected: " + row.why;
  if (!candidate.fits)
    row.style = LineStyle::faint;
  return row;
}

std::vector<TableRow> candidateRows(const SearchResult &result) {
  std::vector<TableRow> rows;
  for (const Candidate &candidate : result.candidates) {
    bool isWinner = rows.empty() && result.hasWinner();
    rows.push_back(rowOf(candidate, isWinner ? "*" : ""));
    if (isWinner)
      rows.back().style = LineStyle::strong;
  }
  return rows;
}

/// True for equal strategies, or if both do not fit for the same reason.
static bool isSame(const Candidate &a, const Candidate &b) {
  bool hasSameReason =
      a.why == b.why && a.evaluation.rejected == b.evaluation.rejected;
  bool hasReason = !a.why.empty() || !a.evaluation.rejected.empty();
  bool areOut = !a.fits && !b.fits && hasReason;
  return hasSameReason && (areOut || a.strategy == b.strategy);
}

std::vector<TableRow> baselineRows(const SearchResult &result) {
  std::vector<TableRow> rows;
  const std::vector<Baseline> &all = result.baselines;
  for (const Baseline &baseline : all) {
    TableRow row = rowOf(baseline.candidate, baseline.name);
    bool isWinner =
        result.hasWinner() && baseline.candidate.method != "formula" &&
        baseline.candidate.strategy == result.candidates[0].strategy;
    if (!baseline.candidate.fits && !row.why.empty()) {
      // A rejected baseline has no time. Its strategy is in report.html.
      row.step = row.exposed = "-";
      row.strategy.clear();
    }
    auto same = std::ranges::find_if(all, [&](const auto &other) {
      return isSame(other.candidate, baseline.candidate);
    });
    if (isWinner) {
      row.strategy.clear();
      row.why = "the winner";
    } else if (&*same != &baseline)
      row.why = "as " + same->name;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string pad(const std::string &text, size_t width, bool toRight) {
  std::string space(width > text.size() ? width - text.size() : 0, ' ');
  return toRight ? space + text : text + space;
}

TableWidths widthsOf(const std::vector<TableRow> &candidates,
                     const std::vector<TableRow> &baselines,
                     const TableRow &header) {
  TableWidths widths{};
  auto widen = [&](const TableRow &row) {
    size_t i = 0;
    for (const std::string *text :
         {&row.mark, &row.step, &row.memory, &row.exposed}) {
      widths[i] = std::max(widths[i], text->size());
      ++i;
    }
  };
  widen(header);
  std::ranges::for_each(candidates, widen);
  std::ranges::for_each(baselines, widen);
  return widths;
}

Lines linesOf(const TableRow &row, const TableWidths &widths,
              const TextForm &form) {
  std::string text = "  " + pad(row.mark, widths[0], false) + " " +
                     pad(row.step, widths[1], true) + "  " +
                     pad(row.memory, widths[2], true) + "  " +
                     pad(row.exposed, widths[3], true) + "  ";
  constexpr size_t kLeast = 24; // of a strategy
  size_t indent = text.size();
  if (indent + kLeast > form.width)
    return wrapLines(text + row.strategy + "  " + row.why, form, 4, row.style);
  size_t room = form.width - indent;
  bool isAlone = row.strategy.empty();
  std::vector<std::string> parts =
      wrapText(isAlone ? row.why : row.strategy, room, 0);
  bool fits = parts.back().size() + 2 + row.why.size() <= room;
  if (isAlone)
    ; // The column of the strategy has the reason.
  else if (fits && !row.why.empty())
    parts.back() += "  " + row.why;
  else if (!row.why.empty())
    for (std::string &line : wrapText(row.why, room - 2, 0))
      parts.push_back("  " + line);
  Lines lines;
  for (const std::string &line : parts) {
    lines.push_back({text + line, row.style});
    text.assign(indent, ' ');
  }
  return lines;
}

Block blockOf(const std::vector<TableRow> &rows, const TableWidths &widths,
              const TextForm &form, const char *more) {
  Block block{{}, {}, more};
  for (const TableRow &row : rows)
    block.items.push_back(linesOf(row, widths, form));
  return block;
}

} // namespace dpc::cost
