//===- RankRowOps.h - Handlers of row ops (private to RankOps) --*- C++ -*-===//
#pragma once

#include "test/support/RankOps.h"

namespace dpc::test {

/// Registers norms, attention, embeddings, cross entropy and optimizers.
void addRowOps(std::map<std::string, Handler> &table);

/// Registers convolution, pooling and batch norm.
void addSpatialOps(std::map<std::string, Handler> &table);

/// Returns the global positions along dimension `dim` of the tensor described
/// by the op's attribute `global`. Without this attribute, returns 0, 1, ..,
/// `extent` - 1.
std::vector<int64_t> positionsFor(Evaluation &e, int64_t dim, int64_t extent);

/// Combines a and b by `kind`. The result is NaN if one of them is.
double combine(ReduceKind kind, double a, double b);

} // namespace dpc::test
