//===- MixingOps.h - Ops that let positions read later ones ----*- C++ -*-===//
#pragma once

#include "tools/driver/SmallModel.h"

#include <string>

namespace dpc {

/// Says which op lets positions of `tokens` read later ones, or "". Compiles
/// `model` for the values of its ops, and runs it with `inputs` and with other
/// tokens at the end.
std::string mixingText(SmallModel &model, const rt::Port &tokens,
                       const NamedTensors &inputs);

} // namespace dpc
