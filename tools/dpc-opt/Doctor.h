//===- Doctor.h - --version and --doctor ------------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DPC_OPT_DOCTOR_H
#define DPC_TOOLS_DPC_OPT_DOCTOR_H

#include <string>

namespace dpc {

/// Names and versions of what this program is made of, a line each, and of what
/// dpc-run beside it has.
std::string versionText();

/// Prints what is there, what is missing and what that costs. Returns 1 when
/// something is missing without which no plan can be written, else 0.
int runDoctor();

} // namespace dpc

#endif // DPC_TOOLS_DPC_OPT_DOCTOR_H
