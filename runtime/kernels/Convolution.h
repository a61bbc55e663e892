//===- Convolution.h - convolutions on the CPU ------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_KERNELS_CONVOLUTION_H
#define DPC_RUNTIME_KERNELS_CONVOLUTION_H

#include "runtime/base/Status.h"
#include "runtime/plan/PlanConv.h"

namespace dpc::rt {

/// Computes `op` (see ConvOp) on the arrays that start at x, w and y; writes
/// the one that `op.kind` names. oneDNN computes f32 convolutions of one to
/// three spatial dimensions; plain loops compute the others. Wide convolutions
/// copy their arrays into the layouts that oneDNN prefers. This takes memory in
/// addition to the plan's arena: per thread, as much as the three largest
/// arrays, and oneDNN's workspace. A 16-bit convolution is computed on f32
/// copies of its arrays, which also take memory, and is rounded once. Fails
/// when oneDNN does.
Status runConv(const ConvOp &op, void *x, void *w, void *y);

} // namespace dpc::rt

#endif // DPC_RUNTIME_KERNELS_CONVOLUTION_H
