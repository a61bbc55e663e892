#include "test/fuzz/Mutate.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace dpc::fuzz {

/// Overwrites one byte, or overwrites up to ten bytes with the encoding of a
/// number at the limit of its type (fixed or variable length).
void Mutator::changeBytes(std::string &data) {
  static const std::string edges[] = {
      std::string(1, '\0'),
      "\x7f",
      "\x80",
      std::string("\xff\xff\xff\x7f", 4),
      std::string("\0\0\0\x80", 4),
      std::string(8, '\xff'),
      std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8),
      std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10),
      std::string("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 10)};
  size_t at = below(data.size());
  switch (below(3)) {
  case 0:
    data[at] = static_cast<char>(data[at] ^ (1 << below(8)));
    break;
  case 1:
    data[at] = static_cast<char>(below(256));
    break;
  default: {
    const std::string &edge = edges[below(std::size(edges))];
    data.replace(at, std::min(edge.size(), data.size() - at), edge);
  }
  }
}

void Mutator::changeRange(std::string &data, const std::string &other) {
  size_t at = below(data.size()), size = 1 + below(32);
  switch (below(5)) {
  case 0:
    data.erase(at, size);
    break;
  case 1:
    data.insert(at, data.substr(at, size));
    break;
  case 2:
    data.replace(at, size, other.substr(below(other.size()), size));
    break;
  case 3:
    data.insert(at, std::string(size, static_cast<char>(below(256))));
    break;
  default:
    data.resize(at);
  }
}

void Mutator::changeToken(std::string &data) {
  static const char *tokens[] = {
      "0",    "-1",   "1",        "2147483648", "9223372036854775807",  "1e308",
      "1e9",  "-0.0", "{}",       "[]",         "18446744073709551616", "null",
      "\"\"", "true", "[[[[]]]]", "\"a\\nb\"",  "4611686018427387904"};
  auto starts = [&](size_t i) {
    return std::isdigit(static_cast<unsigned char>(data[i])) || data[i] == '"';
  };
  size_t at = below(data.size());
  while (at < data.size() && !starts(at))
    ++at;
  if (at == data.size())
    return changeBytes(data);
  size_t end = at + 1;
  if (data[at] == '"')
    end = std::min(data.find('"', end), data.size() - 1) + 1;
  else
    while (end < data.size() &&
           std::isdigit(static_cast<unsigned char>(data[end])))
      ++end;
  data.replace(at, end - at, tokens[below(std::size(tokens))]);
}

std::string Mutator::next(const std::vector<std::string> &seeds, bool isText) {
  std::string data = seeds[below(seeds.size())];
  const std::string &other = seeds[below(seeds.size())];
  for (uint64_t changes = 1 + below(4); changes > 0 && !data.empty(); --changes)
    switch (below(isText ? 4 : 2)) {
    case 0:
      changeBytes(data);
      break;
    case 1:
      changeRange(data, other);
      break;
    default:
      changeToken(data);
    }
  return data;
}

} // namespace dpc::fuzz
