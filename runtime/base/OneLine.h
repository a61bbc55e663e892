//===- OneLine.h - text from files, made safe for messages ------*- C++ -*-===//
#pragma once

#include <algorithm>
#include <string>

namespace dpc::rt {

/// Returns `text` with every control character replaced by a space. Names in
/// untrusted files may contain line ends or terminal escapes, but a message
/// must be one line.
inline std::string oneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text;
}

} // namespace dpc::rt
