//===- StatedSizes.cpp - Whether a file is of the model that is read ------===//
#include "codegen/export/Import.h"

#include <utility>

namespace dpc::exports {

/// "24 layers", "a hidden size of 1024"
static std::string described(int64_t ModelShape::*size, int64_t value) {
  std::string number = std::to_string(value);
  if (size == &ModelShape::experts && value == 1)
    return "no experts";
  const std::pair<int64_t ModelShape::*, const char *> counted[] = {
      {&ModelShape::layers, " layers"},
      {&ModelShape::heads, " attention heads"},
      {&ModelShape::kvHeads, " heads of keys and values"},
      {&ModelShape::experts, " experts"}};
  for (auto [each, name] : counted)
    if (each == size)
      return number + name;
  const std::pair<int64_t ModelShape::*, const char *> measured[] = {
      {&ModelShape::hidden, "a hidden size"},
      {&ModelShape::feedForward, "a feed-forward size"},
      {&ModelShape::headSize, "a head size"},
      {&ModelShape::sequence, "a sequence length"},
      {&ModelShape::vocabulary, "a vocabulary"}};
  for (auto [each, name] : measured)
    if (each == size)
      return std::string(name) + " of " + number;
  return number;
}

/// Whether the model may be the one that `stated` is of.
static bool agrees(const StatedSize &stated, const ModelShape &model) {
  int64_t actual = model.*stated.size;
  if (actual <= 0 || (stated.isOfTokens && model.kind == ModelKind::other))
    return true; // it does not show
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
