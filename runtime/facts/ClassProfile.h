//===- ClassProfile.h - what the classes of a run's data are like -*- C++
//-*-===//
#pragma once

#include "runtime/base/Json.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dpc::rt {

/// The mean numbers of the samples of each class, which are parts of a sample
/// along one dimension. Two datasets whose classes have other numbers, such as
/// folders in another order, have these means in another order.
struct ClassProfile {
  std::string labels, numbers; ///< names of inputs
  /// The deviation of each number from the mean of its class.
  std::vector<double> deviations;
  struct Class {
    int64_t samples = 0;
    std::vector<double> means;
  };
  std::map<int64_t, Class> classes; ///< by label

  /// Says that the classes are in another order than in `training`, or "".
  /// `where` names the latter.
  std::string difference(const ClassProfile &training,
                         const std::string &where) const;
  nlohmann::json json() const;
  static std::optional<ClassProfile> parse(const nlohmann::json &json);

private:
  double distance(const Class &own, const Class &other) const;
};

/// Collects the classes of samples with one label each.
class ClassProfileBuilder {
public:
  /// Returns the builder for the only input of few classes and the largest
  /// input of numbers, if there are such ones. A sample has `perSample[i]`
  /// elements of `ports[i]`.
  static std::optional<ClassProfileBuilder>
  of(const std::vector<Port> &ports, const std::vector<int64_t> &perSample);

  void add(const std::vector<const std::byte *> &arrays);
  /// Returns nothing if there are too few samples.
  std::optional<ClassProfile> finish() const;

private:
  struct Sums {
    int64_t samples = 0;
    std::vector<double> sums, squares;
  };
  std::vector<double> numbersOf(const std::byte *sample) const;

  std::vector<Port> ports;
  size_t labels = 0, numbers = 0;
  int64_t elements = 0; ///< of the numbers of a sample
  int64_t parts = 0;    ///< along the dimension, whose elements are
  int64_t inner = 0;    ///< followed by so many of the same part
  std::map<int64_t, Sums> classes;
};

} // namespace dpc::rt
