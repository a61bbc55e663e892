//===- TextFile.h - Whole files -------------------------------*- C++ -*-===//
#ifndef DPC_COST_MODEL_TEXTFILE_H
#define DPC_COST_MODEL_TEXTFILE_H

#include "cost-model/Result.h"

namespace dpc::cost {

/// The bytes of a regular file of at most 64 MiB, which no description of a
/// machine has. Where there are none to be had, as of a folder, one line:
/// "PATH: cannot be read; expected EXPECTED".
Result<std::string> readTextFile(const std::string &path,
                                 const std::string &expected);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_TEXTFILE_H
