#include "runtime/base/Nearest.h"

#include <algorithm>
#include <numeric>

namespace dpc {

size_t editDistance(const std::string &from, const std::string &to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      size_t changed = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string nearest(const std::string &word,
                    const std::vector<std::string> &names) {
  // At most a third of the letters may be wrong.
  size_t least = word.size() / 3 + 1;
  std::string found;
  for (const std::string &name : names) {
    size_t distance = editDistance(word, name);
    if (distance < least) {
      least = distance;
      found = name;
    }
  }
  return found;
}

} // namespace dpc
