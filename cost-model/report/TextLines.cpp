//===- TextLines.cpp - Lines of a report for a terminal -------------------===//
#include "cost-model/report/TextLines.h"

#include <algorithm>

namespace dpc::cost {

/// Returns how many characters of `text` fit in a line of `room` columns. If a
/// phrase ends near the end of the line, the line is cut there.
static size_t breakOf(const std::string &text, size_t room) {
  constexpr size_t kNear = 36;
  if (text.size() <= room)
    return text.size();
  size_t space = text.rfind(' ', room);
  for (size_t at = space;
       at != std::string::npos && at > 0 && at + kNear > room;
       at = text.rfind(' ', at - 1))
    if (text.find_first_of(",;:)", at - 1) == at - 1)
      return at;
  if (space != std::string::npos && space > 0)
    return space;
  size_t comma = text.rfind(',', room - 1);
  return comma == std::string::npos ? room : comma + 1;
}

std::vector<std::string> wrapText(const std::string &text, size_t width,
                                  size_t indent) {
  std::vector<std::string> lines;
  std::string rest = text;
  while (!rest.empty() || lines.empty()) {
    std::string space(lines.empty() ? 0 : indent, ' ');
    size_t room = std::max<size_t>(width, space.size() + 20) - space.size();
    size_t length = breakOf(rest, room);
    std::string line = rest.substr(0, length);
    lines.push_back(space + line.substr(0, line.find_last_not_of(' ') + 1));
    size_t next = rest.find_first_not_of(' ', length);
    rest = next == std::string::npos ? "" : rest.substr(next);
  }
  return lines;
}

Lines wrapLines(const std::string &text, const TextForm &form, size_t indent,
                LineStyle style) {
  Lines lines;
  for (std::string &line : wrapText(text, form.width, indent))
    lines.push_back({std::move(line), style});
  return lines;
}

void append(Lines &lines, const Lines &more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

size_t Block::lines() const {
  size_t count = items.empty() ? 0 : title.size();
  for (const Lines &item : items)
    count += item.size();
  return count;
}

Lines Block::fit(size_t most) const {
  bool hasAll = lines() <= most;
  Lines taken = title;
  size_t count = 0;
  for (const Lines &item : items) {
    // The last line says how many items are left out.
    if (taken.size() + item.size() + (hasAll ? 0 : 1) > most)
      break;
    taken.insert(taken.end(), item.begin(), item.end());
    ++count;
  }
  if (count == 0)
    taken.clear();
  if (items.empty() || most == 0 || (count == 0 && more.empty()))
    return {};
  if (!hasAll)
    taken.push_back({"    and " + std::to_string(items.size() - count) + more,
                     LineStyle::faint});
  return taken;
}

std::string joinLines(const Lines &lines, const TextForm &form) {
  std::string text;
  for (const Line &line : lines) {
    const char *begin = line.style == LineStyle::strong  ? "\x1b[1m"
                        : line.style == LineStyle::faint ? "\x1b[2m"
                                                         : "";
    bool isStyled = form.hasColors && *begin != 0;
    text += isStyled ? begin + line.text + "\x1b[0m\n" : line.text + "\n";
  }
  return text;
}

} // namespace dpc::cost
