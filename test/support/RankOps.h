//===- RankOps.h - Ops on host tensors for one rank -------------*- C++ -*-===//
#ifndef DPC_TEST_SUPPORT_RANKOPS_H
#define DPC_TEST_SUPPORT_RANKOPS_H

#include "ir/Sharding.h"
#include "test/support/HostArray.h"

#include <functional>
#include <map>
#include <string>

namespace dpc::test {

/// The coordinates of a rank on every mesh axis, including the micro-batch axis
/// `mb`; empty for a program on global tensors.
using Coordinates = std::vector<int64_t>;

/// One evaluation of an op.
struct Evaluation {
  mlir::Operation *op;
  std::vector<const HostArray *> operands;
  Coordinates coordinates;
  std::vector<HostArray> results;
};
using Handler = std::function<void(Evaluation &)>;

/// Handlers by op name; tests can add or replace handlers. An op without a
/// handler aborts the test with a message.
std::map<std::string, Handler> &handlers();

/// Evaluates any op except collectives. Rounds bf16 and f16 results.
void evaluate(Evaluation &evaluation);

/// Rounds the elements if `type` is bf16 or f16; otherwise leaves `array`
/// unchanged.
void roundTo(mlir::Type type, HostArray &array);

/// The global position of every local index in dimension `dim` of a tensor with
/// `spec`; -1 for padding.
std::vector<int64_t> globalPositions(const ShardingSpec &spec, int64_t dim,
                                     const Coordinates &coordinates);

} // namespace dpc::test

#endif // DPC_TEST_SUPPORT_RANKOPS_H
