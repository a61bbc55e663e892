//===- RankAgreement.h - processes that run different things ----*- C++ -*-===//
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/io/InputSource.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Returns what all processes of a job must have in common: the contents of
/// files, and the options that decide what each step computes and when the
/// processes communicate. `inputs` are those of `options`, `evalInputs` those
/// of --eval-data or null.
Expected<std::vector<rt::Setting>>
commonFacts(const RunOptions &options, const rt::InputSource &inputs,
            const rt::InputSource *evalInputs);

/// Fails in a process whose facts are not those of rank 0. All processes make
/// this call with facts of the same names in the same order.
Status compareWithRankZero(rt::Communicator &comm,
                           const std::vector<rt::Setting> &facts);

} // namespace dpc
