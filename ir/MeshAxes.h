//===- MeshAxes.h - What the ranks of a mesh axis share ---------*- C++ -*-===//
//
// Local programs refer to mesh axes by name. LoweringSpec.h makes the names and
// has their roles; these functions and isTensorAxis (Sharding.h) derive the
// roles from the names. rt::isDataAxis repeats isDataAxis, because neither ir
// nor the runtime may include the other.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

namespace dpc {

/// Returns true for axes that only data parallelism splits: `dp`, and `dpi` of
/// the ranks of a group of hybrid ZeRO.
inline bool isDataAxis(llvm::StringRef name) {
  return name == "dp" || name == "dpi";
}

/// Returns true for axes along which ranks process different samples.
inline bool splitsBatch(llvm::StringRef name) {
  return isDataAxis(name) || name == "ep";
}

/// Returns true for axes along which the gradients of a parameter are summed if
/// the parameter is replicated: ranks process different samples or positions.
inline bool sumsGradients(llvm::StringRef name) {
  return splitsBatch(name) || name == "cp";
}

} // namespace dpc
