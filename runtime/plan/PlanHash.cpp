#define XXH_INLINE_ALL
#include "runtime/base/ReadFile.h"
#include "runtime/plan/PlanJson.h"

#include <cinttypes>
#include <cstdio>
#include <xxhash.h>

namespace dpc::rt {

/// The limit of hashed files; kernel files are smaller.
static constexpr int64_t kMaxBytes = int64_t(4) << 30;

std::string hashText(std::string_view text) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64,
                static_cast<uint64_t>(XXH3_64bits(text.data(), text.size())));
  return digits;
}

Expected<std::string> hashFile(const std::string &path) {
  DPC_ASSIGN(std::string bytes, readFile(path, kMaxBytes));
  return hashText(bytes);
}

} // namespace dpc::rt
