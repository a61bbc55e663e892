//===- WeightMatch.h - do weight files fit a plan? --------------*- C++ -*-===//
#pragma once

#include "runtime/io/WeightFiles.h"
#include "runtime/plan/Plan.h"

#include <map>

namespace dpc::rt {

/// Returns the tensor of `files` that has the name or an alias of `tensor`, or
/// null.
const WeightFiles::Weight *findWeight(const WeightFiles &files,
                                      const Tensor &tensor);

/// A comparison of names and shapes. Every weight of the plan has its tensor in
/// the files or is in `missing`. Every tensor of the files fills a tensor of
/// the plan, belongs to a weight that the program does not read
/// (Plan::unreadWeights), or is in `unknown`.
struct WeightMatch {
  std::string path; ///< of the files
  std::vector<std::string> missing;
  /// The missing weights for which the plan has no value either.
  std::vector<std::string> valueless;
  std::vector<std::string> unknown;
  /// Tensors of another shape, or integers for floats or the reverse:
  /// "'w' (f32[2], expected f32[3])".
  std::vector<std::string> misfits;
  /// Tied weights whose names have different values: "'a' and 'b'".
  std::vector<std::string> untied;
  /// The number of weights whose type in the files is another one than in the
  /// plan, by both types: "f16 to f32".
  std::map<std::string, int64_t> conversions;
  /// Trained weights with equal values in the files, which may have been tied
  /// there: "'a' and 'b'".
  std::vector<std::string> equal;
  /// Trained weights of two or more dimensions that are all zeros in the files.
  std::vector<std::string> zeros;
  /// Buffers that hold the running variance of a batch normalization, under the
  /// name that PyTorch gives it, with a negative value in the files.
  std::vector<std::string> negativeVariances;
  /// The same with zeros only.
  std::vector<std::string> zeroVariances;
  std::vector<std::string> unreadFiles; ///< WeightFiles::unreadFiles()
  bool isForeign = false; ///< whether the files fill no tensor of the plan
  std::string example;    ///< the name of a parameter of the plan, or ""

  /// Refuses everything that does not fit, in one line. If `isPartial`, accepts
  /// unknown tensors, and missing weights that have a value in the plan.
  Status check(bool isPartial) const;
  /// Says that all names fit with or without one prefix, or "".
  std::string prefixText() const;
  /// Returns what a partial match leaves out, and what else the files change
  /// or share, one sentence each. Call it if check() has succeeded.
  std::vector<std::string> remarks() const;
};

WeightMatch matchWeights(const Plan &plan, const WeightFiles &files);

} // namespace dpc::rt
