//===- TestPlans.h - small plans written by hand ----------------*- C++ -*-===//
#ifndef DPC_TEST_UNIT_RUNTIME_TESTPLANS_H
#define DPC_TEST_UNIT_RUNTIME_TESTPLANS_H

#include "runtime/base/HostTensor.h"
#include "runtime/plan/Plan.h"

namespace dpc::rt::test {

/// Gradient descent on loss = |x w|^2 with x [rows, 4] and w [4, 2], without
/// any kernel: rows are split over "dp" and micro-batches, the gradient
/// 2 x' (x w) and the loss are accumulated, then all-reduced, and the update
/// w -= 1/64 g is a product with the identity parameter "eye".
Plan leastSquares(int64_t dp, int64_t microBatches, int64_t rows = 8);

/// What it computes: one step on `x`, changing `w`; returns the loss.
double leastSquaresStep(const HostTensor &x, HostTensor &w);

/// Appends a buffer behind the arena's end and returns its id.
int addBuffer(Plan &plan, const std::string &name, BufferKind kind,
              std::vector<int64_t> shape, DType dtype = DType::F32);

/// Values 0, 1, 2, ... times `scale`, minus `shift`.
HostTensor ramp(std::vector<int64_t> shape, double scale = 1, double shift = 0);

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_RUNTIME_TESTPLANS_H
