//===- Convolution.h - convolutions on the CPU ------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_KERNELS_CONVOLUTION_H
#define DPC_RUNTIME_KERNELS_CONVOLUTION_H

#include "runtime/base/Status.h"
#include "runtime/plan/PlanConv.h"

namespace dpc::rt {

/// Computes `op` (see ConvOp) on the arrays that start at x, w and y; the one
/// that `op.kind` names is written. f32 of one to three spatial dimensions uses
/// oneDNN, whose workspace comes on top of the plan's arena; the rest plain
/// loops. Fails when oneDNN does.
Status runConv(const ConvOp &op, void *x, void *w, void *y);

} // namespace dpc::rt

#endif // DPC_RUNTIME_KERNELS_CONVOLUTION_H
