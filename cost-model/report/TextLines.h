//===- TextLines.h - Lines of a report for a terminal -----------*- C++ -*-===//
#pragma once

#include <string>
#include <vector>

namespace dpc::cost {

enum class LineStyle { plain, strong, faint };

struct Line {
  std::string text;
  LineStyle style = LineStyle::plain;
};

using Lines = std::vector<Line>;

struct TextForm {
  size_t width = 100;
  bool hasColors = false;
};

/// Breaks `text` into lines of at most `width` columns. Lines break at spaces,
/// or at commas inside a word that is too long. All lines except the first
/// start with `indent` spaces.
std::vector<std::string> wrapText(const std::string &text, size_t width,
                                  size_t indent);

/// Wraps `text` to the width of `form` with wrapText. All lines have one style.
Lines wrapLines(const std::string &text, const TextForm &form,
                size_t indent = 4, LineStyle style = LineStyle::plain);

void append(Lines &lines, const Lines &more);

struct Block {
  Lines title;              ///< Shown if the block has items.
  std::vector<Lines> items; ///< The most important item is first.
  std::string more;         ///< Text after "and N", where N items are left out.

  size_t lines() const;
  /// Returns at most `most` lines of the block. If no item fits, only the line
  /// with `more` is returned.
  Lines fit(size_t most) const;
};

/// Returns the text, with escape sequences for the styles if `form` has colors.
std::string joinLines(const Lines &lines, const TextForm &form);

} // namespace dpc::cost
