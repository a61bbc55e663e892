//===- LabelTexts.h - classes that do not fit their loss --------*- C++ -*-===//
#pragma once

#include "runtime/facts/ArrayFacts.h"

namespace dpc::rt {

/// Says that labels of one class for each sample do not fit the classes of the
/// loss: they are counted from another number, or end at the largest number of
/// a small type. `firstIsPadding`: the first class is the padding of inputs, so
/// that no label has it.
std::vector<std::string> labelTexts(const ArrayFacts &facts,
                                    bool firstIsPadding = false);

} // namespace dpc::rt
