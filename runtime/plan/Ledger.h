//===- Ledger.h - the communication of a rank in one step -------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_LEDGER_H
#define DPC_RUNTIME_PLAN_LEDGER_H

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// Whether `rank` communicates in `op`, that is, `op` is a collective, or a
/// message whose peer is in the group. Instructions that communicate are
/// numbered from 0 in each step.
bool meetsOthers(const Plan &plan, const OpVariant &op, int rank);

/// The ranks that `rank` communicates with in `op`: "group dp ranks=0,2", or
/// "group pp to=1" for a message. "" if it does not communicate.
std::string meetingText(const Plan &plan, const OpVariant &op, int rank);

/// Lists the communication of `rank` in a step in order. Each line has number,
/// phase and instruction, micro-batch, op, group, peers, tag, bytes, buffers,
/// name. For a group of more than 8 ranks, the line has the first rank, the
/// last rank and the stride; the ranks of irregular groups are listed at the
/// top of the text. The text is the same for all steps and runs. The message
/// about a hang contains the number of a line.
std::string ledgerText(const Plan &plan, int rank);

/// Creates DIR and writes the text of each rank to DIR/rank-N.txt.
Status writeLedgers(const Plan &plan, const std::string &dir);

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_LEDGER_H
