//===- TextLines.h - Lines of a report for a terminal -----------*- C++ -*-===//
//
// A report fits on a screen: a block shows as many of its items as fit, and the
// number of items that it leaves out.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_REPORT_TEXTLINES_H
#define DPC_COST_MODEL_REPORT_TEXTLINES_H

#include <string>
#include <vector>

namespace dpc::cost {

/// The style of a line on a terminal with colors.
enum class LineStyle { plain, strong, faint };

struct Line {
  std::string text;
  LineStyle style = LineStyle::plain;
};

using Lines = std::vector<Line>;

/// The columns and colors of the output.
struct TextForm {
  size_t width = 100;
  bool hasColors = false;
};

/// Breaks `text` into lines of at most `width` columns, at spaces, or at commas
/// inside a word that is too long. The lines after the first start with
/// `indent` spaces.
std::vector<std::string> wrapText(const std::string &text, size_t width,
                                  size_t indent);

/// Wraps `text` to the width of `form`, as wrapText does; every line has the
/// given style.
Lines wrapLines(const std::string &text, const TextForm &form,
                size_t indent = 4, LineStyle style = LineStyle::plain);

/// A list of items, each of one or more lines.
struct Block {
  Lines title;              ///< Shown if there is an item.
  std::vector<Lines> items; ///< The most important first.
  std::string more;         ///< Text after "and N", where N items are left out.

  size_t lines() const;
  /// The block in at most `most` lines. If no item fits, only the line with
  /// `more` is shown.
  Lines fit(size_t most) const;
};

/// The text, with escape sequences for styles if `form` has colors.
std::string joinLines(const Lines &lines, const TextForm &form);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_REPORT_TEXTLINES_H
