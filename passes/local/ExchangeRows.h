//===- ExchangeRows.h - Rows of experts travel to their ranks ---*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"

namespace dpc {

/// The seconds of a collective over the ranks of the experts: `start`, and
/// `perByte` for each byte of the whole value (all_gather, reduce_scatter) or
/// of what one rank sends (all_to_all).
struct MoveCost {
  double start = 0, perByte = 0;
  double of(double bytes) const { return start + perByte * bytes; }
};

struct ExchangeCosts {
  MoveCost gather, exchange;
};

/// If the ops of a mixture take rows from all_gathers over the ranks of its
/// experts, and reduce_scatters distribute its sums of rows, lets the ranks
/// exchange the rows instead if `costs` makes the all_to_alls faster than the
/// collectives that they replace. Collectives over other axes, which move more
/// without an exchange, do not count. Ops that share the gather of the ids are
/// of one mixture.
void exchangeRows(mlir::Block &block, const ExchangeCosts &costs);

} // namespace dpc
