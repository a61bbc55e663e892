//===- ReportTable.h - Rows of the strategy table ---------------*- C++ -*-===//
#pragma once

#include "cost-model/report/TextLines.h"
#include "cost-model/search/Search.h"

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

/// The widths of the columns of numbers; the first column has the marks.
using TableWidths = std::array<size_t, 4>;

/// Returns the rows of the candidates, the best first; the winner is marked.
std::vector<TableRow> candidateRows(const SearchResult &result);

/// Returns the rows of the baselines. A baseline that does not fit has a reason
/// instead of a time and a strategy.
std::vector<TableRow> baselineRows(const SearchResult &result);

TableWidths widthsOf(const std::vector<TableRow> &candidates,
                     const std::vector<TableRow> &baselines,
                     const TableRow &header);

/// Formats the numbers, the strategy and the reason in one or more lines.
Lines linesOf(const TableRow &row, const TableWidths &widths,
              const TextForm &form);

Block blockOf(const std::vector<TableRow> &rows, const TableWidths &widths,
              const TextForm &form, const char *more);

/// Pads `text` with spaces to `width` characters, on the left if `toRight`,
/// else on the right.
std::string pad(const std::string &text, size_t width, bool toRight);

} // namespace dpc::cost
