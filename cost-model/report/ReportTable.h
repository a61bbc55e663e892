//===- ReportTable.h - Rows of the strategy table ---------------*- C++ -*-===//
//
// Candidates and baselines in the columns of a terminal report. Private to
// ReportText.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_REPORT_REPORTTABLE_H
#define DPC_COST_MODEL_REPORT_REPORTTABLE_H

#include "cost-model/search/Search.h"
#include "cost-model/report/TextLines.h"

#include <array>
#include <string>
#include <vector>

namespace dpc::cost {

/// One line of the table.
struct TableRow {
  std::string mark;
  std::string strategy;
  std::string step;
  std::string memory;
  std::string exposed;
  std::string why;
  LineStyle style = LineStyle::plain;
};

/// How wide the columns of numbers are; the first is that of the marks.
using TableWidths = std::array<size_t, 4>;

/// The candidates, best first; the winner is marked.
std::vector<TableRow> candidateRows(const SearchResult &result);

/// What everybody knows. What does not fit has no time and no strategy: its
/// reason stands there.
std::vector<TableRow> baselineRows(const SearchResult &result);

TableWidths widthsOf(const std::vector<TableRow> &candidates,
                     const std::vector<TableRow> &baselines,
                     const TableRow &header);

/// Numbers, then the strategy and the reason, which are broken below each other
/// where they are long.
Lines linesOf(const TableRow &row, const TableWidths &widths,
              const TextForm &form);

/// The rows, where an item is one.
Block blockOf(const std::vector<TableRow> &rows, const TableWidths &widths,
              const TextForm &form, const char *more);

/// `text` with spaces before (`toRight`) or behind it, `width` characters.
std::string pad(const std::string &text, size_t width, bool toRight);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_REPORT_REPORTTABLE_H
