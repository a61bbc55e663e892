//===- RankRowOps.h - Handlers of row ops (private to RankOps) --*- C++ -*-===//
#ifndef DPC_TEST_SUPPORT_RANKROWOPS_H
#define DPC_TEST_SUPPORT_RANKROWOPS_H

#include "test/support/RankOps.h"

namespace dpc::test {

/// Norms, attention, embeddings, cross entropy, optimizers.
void addRowOps(std::map<std::string, Handler> &table);

/// Convolution, pooling, batch norm.
void addSpatialOps(std::map<std::string, Handler> &table);

/// Global positions along `dim` of the tensor that the op's `global` describes;
/// 0, 1, .. `extent` - 1 when it has none.
std::vector<int64_t> positionsFor(Evaluation &e, int64_t dim, int64_t extent);

/// a and b combined by `kind`; NaN spreads.
double combine(ReduceKind kind, double a, double b);

} // namespace dpc::test

#endif // DPC_TEST_SUPPORT_RANKROWOPS_H
