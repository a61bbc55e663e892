//===- Doctor.h - --version and --doctor ------------------------*- C++ -*-===//
#pragma once

#include <string>

namespace dpc {

/// Returns the versions of this program, its components and the dpc-run next to
/// it, one per line.
std::string versionText();

/// Prints which components exist, and what is not possible without the missing
/// ones. Returns 1 if a component that every plan needs is missing, else 0.
int runDoctor();

} // namespace dpc
