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
std::string commentOnSettings(const Job &job,
                              const std::set<Setting> &expressed);

} // namespace dpc::exports
