//===- Convolution.h - convolutions on the CPU ------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_KERNELS_CONVOLUTION_H
#define DPC_RUNTIME_KERNELS_CONVOLUTION_H

#include "runtime/base/Status.h"
#include "runtime/plan/PlanConv.h"

namespace dpc::rt {

/// Computes `op` (see ConvOp) on the arrays that start at x, w and y. oneDNN
/// computes f32 convolutions with one to three spatial dimensions; plain loops
/// compute the others. 16-bit convolutions use f32 copies of their arrays and
/// round once. Convolutions with many channels use copies in the layouts that
/// oneDNN prefers. The copies and oneDNN's workspace use memory in addition to
/// the plan's arena: per thread, up to three arrays of the largest size. Fails
/// if oneDNN fails.
Status runConv(const ConvOp &op, void *x, void *w, void *y);

} // namespace dpc::rt

#endif // DPC_RUNTIME_KERNELS_CONVOLUTION_H
