//===- StalePlan.h - The plan before a command with an error ----*- C++ -*-===//
#pragma once

#include <string>

namespace dpc {

/// Sets the plan of an earlier compile aside (OutputFolder::setPlanAside()),
/// for a command line that cannot be parsed as a whole but names a plan folder
/// to write. Returns what to add to the error: "", or "; " and a note.
std::string setPlanOfWordsAside(int argc, char **argv);

} // namespace dpc
