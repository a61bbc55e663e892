//===- OneLine.h - messages with names out of files -------------*- C++ -*-===//
#ifndef DPC_RUNTIME_BASE_ONELINE_H
#define DPC_RUNTIME_BASE_ONELINE_H

#include <algorithm>
#include <string>

namespace dpc::rt {

/// `text` with spaces for line ends and all else that moves a terminal's
/// cursor. A name in a file of others may hold anything; a message is one line.
inline std::string oneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text;
}

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_ONELINE_H
