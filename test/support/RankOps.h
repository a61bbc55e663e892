//===- RankOps.h - Ops on host tensors for one rank -------------*- C++ -*-===//
#pragma once

#include "ir/Sharding.h"
#include "test/support/HostArray.h"

#include <functional>
#include <map>
#include <string>

namespace dpc::test {

/// The coordinates of a rank on every mesh axis, including the axis `mb` of
/// micro-batches. Empty for a program on global tensors.
using Coordinates = std::vector<int64_t>;

/// One evaluation of an op.
struct Evaluation {
  mlir::Operation *op;
  std::vector<const HostArray *> operands;
  Coordinates coordinates;
  std::vector<HostArray> results;
};
using Handler = std::function<void(Evaluation &)>;

/// Returns the handlers by op name. Tests can add and replace handlers. An op
/// without a handler aborts the test with a message.
std::map<std::string, Handler> &handlers();

/// Evaluates any op that is not a collective. Rounds bf16 and f16 results.
void evaluate(Evaluation &evaluation);

/// Evaluates the ops of a body and adds their results to `values`, which has
/// those of its arguments.
void evaluateBody(mlir::Block &body, const Coordinates &coordinates,
                  llvm::DenseMap<mlir::Value, HostArray> &values);

/// Rounds the elements if `type` is bf16 or f16.
void roundTo(mlir::Type type, HostArray &array);

/// Returns the global position of every local index in dimension `dim` of a
/// tensor with `spec`, or -1 for padding.
std::vector<int64_t> globalPositions(const ShardingSpec &spec, int64_t dim,
                                     const Coordinates &coordinates);

} // namespace dpc::test
