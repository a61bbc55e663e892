#include "runtime/base/JsonDepth.h"

namespace dpc::rt {

static constexpr int kDeepest = 64;

bool nestsTooDeep(std::string_view json) {
  int depth = 0;
  bool isText = false;
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (isText) {
      i += c == '\\' ? 1 : 0;
      isText = c != '"';
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest)
        return true;
    } else if (c == ']' || c == '}') {
      --depth;
    } else {
      isText = c == '"';
    }
  }
  return false;
}

} // namespace dpc::rt
