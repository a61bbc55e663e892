//===- Ledger.h - what a rank communicates in a step ------------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_LEDGER_H
#define DPC_RUNTIME_PLAN_LEDGER_H

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// Whether `rank` meets others in `op`: a collective, or a message whose other
/// end is in the group. Such runs are numbered from 0 in every step.
bool meetsOthers(const Plan &plan, const OpVariant &op, int rank);

/// Whom `rank` meets in `op`: "group dp ranks=0,2", or "group pp to=1" of a
/// message. "" where it meets nobody.
std::string meetingText(const Plan &plan, const OpVariant &op, int rank);

/// One line for every communication that `rank` issues in a step, in their
/// order: number, phase and instruction, micro-batch, op, group, peers, tag,
/// bytes, buffers, name. Of more than 8 ranks that meet, a line says the first,
/// the last and the stride; where that is not all, they are listed once by
/// group at the top. It is the same in every step of every run, so it can be
/// laid beside a hang, whose message says the number.
std::string ledgerText(const Plan &plan, int rank);

/// Writes DIR/rank-N.txt for every rank; makes DIR.
Status writeLedgers(const Plan &plan, const std::string &dir);

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_LEDGER_H
