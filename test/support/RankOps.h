//===- RankOps.h - Ops on host tensors, as one rank sees them ---*- C++ -*-===//
#ifndef DPC_TEST_SUPPORT_RANKOPS_H
#define DPC_TEST_SUPPORT_RANKOPS_H

#include "ir/Sharding.h"
#include "test/support/HostArray.h"

#include <functional>
#include <map>
#include <string>

namespace dpc::test {

/// Where an op runs: the coordinate on every mesh axis, `mb` included. Empty
/// for a program on global tensors.
using Coordinates = std::vector<int64_t>;

/// One evaluation of an op.
struct Evaluation {
  mlir::Operation *op;
  std::vector<const HostArray *> operands;
  Coordinates coordinates;
  std::vector<HostArray> results;
};
using Handler = std::function<void(Evaluation &)>;

/// Handlers by op name; tests may add or replace some. An op without one ends
/// the test with a message.
std::map<std::string, Handler> &handlers();

/// Evaluates any op but collectives. Results of bf16 and f16 are rounded.
void evaluate(Evaluation &evaluation);

/// Rounds what `type` cannot hold where it is bf16 or f16; all other elements
/// stay the doubles that they are.
void roundTo(mlir::Type type, HostArray &array);

/// The global position of every local index of dimension `dim` of a tensor of
/// `spec`, -1 where it is padding.
std::vector<int64_t> globalPositions(const ShardingSpec &spec, int64_t dim,
                                     const Coordinates &coordinates);

} // namespace dpc::test

#endif // DPC_TEST_SUPPORT_RANKOPS_H
