//===- StatedSizes.cpp - The sizes of the model that a file states --------===//
#include "codegen/export/Import.h"

#include <algorithm>

namespace dpc::exports {

/// Returns text such as "24 layers" or "a hidden size of 1024".
static std::string described(int64_t ModelShape::*size, int64_t value) {
  if (size == &ModelShape::experts && value == 1)
    return "no experts";
  struct Text {
    int64_t ModelShape::*size;
    const char *before, *after;
  };
  const Text texts[] = {
      {&ModelShape::layers, "", " layers"},
      {&ModelShape::heads, "", " attention heads"},
      {&ModelShape::kvHeads, "", " heads of keys and values"},
      {&ModelShape::experts, "", " experts"},
      {&ModelShape::hidden, "a hidden size of ", ""},
      {&ModelShape::feedForward, "a feed-forward size of ", ""},
      {&ModelShape::headSize, "a head size of ", ""},
      {&ModelShape::sequence, "a sequence length of ", ""},
      {&ModelShape::vocabulary, "a vocabulary of ", ""}};
  const Text &text = *std::ranges::find(texts, size, &Text::size);
  return text.before + std::to_string(value) + text.after;
}

static bool agrees(const StatedSize &stated, const ModelShape &model) {
  int64_t actual = model.*stated.size;
  if (actual <= 0 || (stated.isOfTokens && model.kind == ModelKind::other))
    return true; // the size cannot be compared
  return actual == stated.value ||
         (actual > stated.value && actual <= stated.most);
}

std::string whyOtherModel(const std::vector<StatedSize> &sizes,
                          const ModelShape &model) {
  for (const StatedSize &stated : sizes)
    if (!agrees(stated, model))
      return stated.flag + (stated.flag.starts_with("--") ? " " : "=") +
             std::to_string(stated.value) + ", but the model has " +
             described(stated.size, model.*stated.size);
  return "";
}

} // namespace dpc::exports
