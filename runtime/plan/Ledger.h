//===- Ledger.h - the communication of a rank in one step -------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_LEDGER_H
#define DPC_RUNTIME_PLAN_LEDGER_H

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// Whether `rank` communicates in `op`: `op` is a collective, or a message
/// whose other end is in the group. Such instructions are numbered from 0 in
/// every step.
bool meetsOthers(const Plan &plan, const OpVariant &op, int rank);

/// The ranks that `rank` communicates with in `op`: "group dp ranks=0,2", or
/// "group pp to=1" for a message. "" if there are none.
std::string meetingText(const Plan &plan, const OpVariant &op, int rank);

/// One line for every communication that `rank` issues in a step, in order:
/// number, phase and instruction, micro-batch, op, group, peers, tag, bytes,
/// buffers, name. For a group of more than 8 ranks, the line gives the first
/// rank, the last rank and the stride; where that is not enough, the top of the
/// text lists the ranks of the group once. The text is the same for every step
/// of every run, so it can be compared with the message of a hang, which gives
/// the number.
std::string ledgerText(const Plan &plan, int rank);

/// Writes DIR/rank-N.txt for every rank; creates DIR.
Status writeLedgers(const Plan &plan, const std::string &dir);

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_LEDGER_H
