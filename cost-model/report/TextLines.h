//===- TextLines.h - Lines of a report for a terminal -----------*- C++ -*-===//
//
// A report is as long as a screen: blocks of items are cut to the lines that
// are left for them, and say how much they leave out.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_REPORT_TEXTLINES_H
#define DPC_COST_MODEL_REPORT_TEXTLINES_H

#include <string>
#include <vector>

namespace dpc::cost {

/// How a line is shown where colors are.
enum class LineStyle { plain, strong, faint };

struct Line {
  std::string text;
  LineStyle style = LineStyle::plain;
};

using Lines = std::vector<Line>;

/// Columns and colors of what is written to.
struct TextForm {
  size_t width = 100;
  bool hasColors = false;
};

/// `text` in lines of at most `width` columns, broken at spaces, or at commas
/// inside of a word that is too long; those behind the first start with
/// `indent` spaces.
std::vector<std::string> wrapText(const std::string &text, size_t width,
                                  size_t indent);

/// The same as lines of one style.
Lines wrapLines(const std::string &text, const TextForm &form,
                size_t indent = 4, LineStyle style = LineStyle::plain);

/// Things told one below the other, each in one or more lines.
struct Block {
  Lines title;              ///< Shown where an item is.
  std::vector<Lines> items; ///< The first ones matter most.
  std::string more;         ///< "and N" + this: what the rest is.

  size_t lines() const;
  /// At most `most` lines; only what the rest is where not one item has room.
  Lines fit(size_t most) const;
};

/// With escape sequences for the styles where `form` has colors.
std::string joinLines(const Lines &lines, const TextForm &form);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_REPORT_TEXTLINES_H
