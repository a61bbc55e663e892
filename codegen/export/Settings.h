//===- Settings.h - What a file says of the training, and what not -*- C++ -*-//
//
// Options that are of the training and not of the strategy. A target has keys
// for some; of the others a comment in its file, where it may have one, and a
// remark say that they are not expressed.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_EXPORT_SETTINGS_H
#define DPC_CODEGEN_EXPORT_SETTINGS_H

#include "codegen/export/Job.h"

#include <set>

namespace dpc::exports {

enum class Setting { optimizer, clipping, schedule, lossScale, frozen };

/// "not expressed: ...; ...": what was asked for and is not in `expressed`; ""
/// where that is all.
std::string notExpressed(const Job &job, const std::set<Setting> &expressed);

/// The same as a remark on the first file, and as a line of comment.
void remarkOnSettings(Exported &exported, const Job &job,
                      const std::set<Setting> &expressed);
std::string commentOnSettings(const Job &job,
                              const std::set<Setting> &expressed);

} // namespace dpc::exports

#endif // DPC_CODEGEN_EXPORT_SETTINGS_H
