//===- Convolution.h - convolutions on the CPU ------------------*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/plan/PlanConv.h"

namespace dpc::rt {

/// Computes `op` (see ConvOp) on the arrays at x, w and y. Uses oneDNN for f32
/// with one to three spatial dimensions, otherwise plain loops. 16-bit arrays
/// are copied as f32, and the result is rounded once. Copies and oneDNN's
/// workspace need memory in addition to the plan's arena: up to three arrays of
/// the largest size per thread. Fails if oneDNN fails.
Status runConv(const ConvOp &op, void *x, void *w, void *y);

} // namespace dpc::rt
