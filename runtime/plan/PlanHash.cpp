#define XXH_INLINE_ALL
#include "runtime/plan/PlanJson.h"

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <xxhash.h>

namespace dpc::rt {

std::string hashText(std::string_view text) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64,
                static_cast<uint64_t>(XXH3_64bits(text.data(), text.size())));
  return digits;
}

Expected<std::string> hashFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return Status::notFound(path + ": cannot be opened");
  std::string bytes((std::istreambuf_iterator<char>(in)),
                    std::istreambuf_iterator<char>());
  return hashText(bytes);
}

} // namespace dpc::rt
