//===- Settings.h - Training options that a target lacks --------*- C++ -*-===//
#pragma once

#include "codegen/export/Job.h"

#include <set>

namespace dpc::exports {

enum class Setting { optimizer, clipping, schedule, lossScale, frozen };

/// Returns "not expressed: ...; ...", which lists the options of `job` that are
/// not in `expressed`, or "" if there are none.
std::string notExpressed(const Job &job, const std::set<Setting> &expressed);

/// Adds the text of notExpressed as a remark on the first file.
void remarkOnSettings(Exported &exported, const Job &job,
                      const std::set<Setting> &expressed);
/// If the schedule has a warmup, adds the remark that the learning rates of
/// `whose` are up to one step early or late in the first `steps` steps.
void remarkOnWarmup(Exported &exported, const Job &job,
                    const std::string &whose, int64_t steps);
std::string commentOnSettings(const Job &job,
                              const std::set<Setting> &expressed);

} // namespace dpc::exports
