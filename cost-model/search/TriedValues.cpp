//===- TriedValues.cpp - The values of keys that were tried ---------------===//
#include "cost-model/search/TriedValues.h"

namespace dpc::cost {

/// Returns a number for each value that a search tries. Orders of mesh axes and
/// shares of the batch are decided in each evaluation.
template <typename T> static int64_t numberOf(const T &value) {
  if constexpr (std::is_same_v<T, TensorDegree>) {
    int64_t number = value.ranks;
    for (int64_t factor : value.grid)
      number = number * (int64_t(1) << 20) + factor;
    return number;
  } else if constexpr (std::is_enum_v<T> || std::is_arithmetic_v<T>) {
    return static_cast<int64_t>(value);
  } else {
    return 0;
  }
}

bool TriedValues::add(const Strategy &strategy) {
  bool isNew = false;
  visitKeys([&](const KeyInfo &key, auto field) {
    bool isOfBlocks = key.isOfLayer || key.group == KeyGroup::MicroBatch;
    if ((keys == Keys::All || isOfBlocks) && hasEffect(key, strategy))
      isNew |= values.emplace(key.name, numberOf(field(strategy))).second;
  });
  return isNew;
}

} // namespace dpc::cost
