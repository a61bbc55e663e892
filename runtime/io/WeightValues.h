//===- WeightValues.h - values that may be a mistake ------------*- C++ -*-===//
#pragma once

#include "runtime/io/WeightFiles.h"
#include "runtime/plan/Plan.h"

#include <string>
#include <utility>
#include <vector>

namespace dpc::rt {

/// The name of a trained weight and its place in a file.
using TrainedWeight = std::pair<std::string, WeightFiles::Weight>;

/// Returns the trained weights whose initial values are in the files that the
/// plan in `planDir` names.
std::vector<TrainedWeight> trainedSources(const Plan &plan,
                                          const std::string &planDir);

/// Returns the weights of two or more dimensions whose elements are all zero.
/// Those called "bias", as PyTorch calls them, usually begin as zeros, also
/// those of LayerNorm([T, D]).
std::vector<std::string>
zeroMatrices(const std::vector<TrainedWeight> &weights);

/// Returns the weights of two or more dimensions whose elements are all equal,
/// but neither 0 nor 1, as new scales are. Their units never become different.
std::vector<std::string>
constantMatrices(const std::vector<TrainedWeight> &weights);

/// Returns pairs of weights of two or more dimensions that are equal, as
/// "'a' and 'b'". Equal constants do not count. Only the first bytes of most
/// weights are read.
std::vector<std::string>
equalMatrices(const std::vector<TrainedWeight> &weights);

/// Returns the vectors called "weight", as PyTorch calls the scale of a norm,
/// that are near 0 in `files` although `sources`, the values of the model file,
/// are near 1. Some models add 1 to scales that begin as zeros.
std::vector<std::string> lostScales(const Plan &plan,
                                    const std::vector<TrainedWeight> &sources,
                                    const WeightFiles &files);

/// Whether `files` hold the values of every weight of `sources`, the values of
/// the model file. Only the first bytes of each weight are read.
bool haveValuesOf(const WeightFiles &files, const Plan &plan,
                  const std::vector<TrainedWeight> &sources);

/// "all values of 'norm.weight' are near 0 in FILE, but near 1 in the model
/// file: .."
std::string textOnScales(const std::vector<std::string> &names,
                         const std::string &file);
/// "all values of 1 trained weight are zero in FILE: 'a'"
std::string textOnZeros(const std::vector<std::string> &names,
                        const std::string &file);
/// "the values of 'a' and 'b' are equal in FILE, but the plan trains them
/// separately"
std::string textOnEqual(const std::vector<std::string> &pairs,
                        const std::string &file);

} // namespace dpc::rt
