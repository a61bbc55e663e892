//===- ProfileDifferences.h - data unlike that of training ------*- C++ -*-===//
#pragma once

#include "runtime/facts/DataProfile.h"

namespace dpc::rt {

/// Says how the data `here` differs from the data that trained the weights, one
/// sentence for each input that does: numbers in another range or scale,
/// permuted or reversed elements, indexes of another vocabulary, another
/// padding, classes in another order. `training` is named by `where`, such as
/// "in --data=train". Inputs are compared by name. Differences that chance
/// explains are not reported.
std::vector<std::string> differences(const DataProfile &here,
                                     const DataProfile &training,
                                     const std::string &where);

} // namespace dpc::rt
