//===- Ledger.h - the communication of a rank in one step -------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// Returns whether `op` is a collective, or a message with a peer.
bool meetsOthers(const Plan &plan, const OpVariant &op, int rank);

/// Returns the ranks that `rank` communicates with in `op`: "group dp
/// ranks=0,2", "group pp to=1" for a message, or "".
std::string meetingText(const Plan &plan, const OpVariant &op, int rank);

/// Returns the communication of `rank` in a step, one operation per line. A
/// line contains number (from 0), phase and instruction, micro-batch, op,
/// group, peers, tag, bytes, buffers and name. For more than 8 ranks, it
/// contains first rank, last rank and stride; if the stride varies, the ranks
/// are at the top of the text. The text is the same for all steps and runs, so
/// that a message about a hang can refer to an operation by its number.
std::string ledgerText(const Plan &plan, int rank);

/// Writes the text of each rank to DIR/rank-N.txt. Creates the folder.
Status writeLedgers(const Plan &plan, const std::string &dir);

} // namespace dpc::rt
