//===- Convolution.h - convolutions on the CPU ------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_KERNELS_CONVOLUTION_H
#define DPC_RUNTIME_KERNELS_CONVOLUTION_H

#include "runtime/base/Status.h"
#include "runtime/plan/PlanConv.h"

namespace dpc::rt {

/// Computes `op` (see ConvOp) on the arrays that start at x, w and y; the one
/// that `op.kind` names is written. f32 of one to three spatial dimensions uses
/// oneDNN; the rest plain loops. Wide ones copy their arrays into the layouts
/// that oneDNN prefers: that memory, kept per thread and as large as the
/// largest three arrays, and oneDNN's workspace come on top of the plan's
/// arena; so do f32 copies of the arrays of a 16-bit one, which is computed as
/// f32 and rounded once. Fails when oneDNN does.
Status runConv(const ConvOp &op, void *x, void *w, void *y);

} // namespace dpc::rt

#endif // DPC_RUNTIME_KERNELS_CONVOLUTION_H
