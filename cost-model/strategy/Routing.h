//===- Routing.h - How tokens spread over experts ---------------*- C++ -*-===//
//
// A router sends each token to k of E experts. Some experts are chosen more
// often, so the ranks that share the experts get different numbers of rows, and
// a layer takes as long as its fullest rank.
//
// Under zipf:S, the i-th most popular expert is drawn with a probability
// proportional to i^-S. A token draws k different experts, one after the other.
// This is the order of independent exponential times with the rates p_e (Rosen,
// Asymptotic theory for order sampling, 1997): expert e is chosen if fewer than
// k others come before it, which is integrated over its time. Popular experts
// lie on random ranks: values are means over fixed draws of the order.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dpc::cost {

class Routing {
public:
  /// All experts are chosen equally often.
  Routing() = default;
  static Routing zipf(double exponent);
  /// Returns the routing of the layers that `counts` describe: tokens that each
  /// expert got. `name` is shown.
  static Routing measured(std::string name,
                          std::vector<std::vector<double>> counts);

  /// Parses "balanced", "zipf:S" with S from 0 to 10, or the name of a JSON
  /// file with a list of layers, each a list of the tokens that each expert
  /// got.
  static Expected<Routing> parse(const std::string &text);

  /// "balanced", "zipf:1.2", or the name of the file.
  const std::string &name() const { return text; }
  bool isBalanced() const { return exponent == 0 && counts.empty(); }
  /// Returns what is wrong for a model with `experts` experts, or "".
  std::string whyNotFor(int64_t experts) const;

  /// Returns for n = 1 to `experts` the rows of the fullest rank relative to
  /// those of n average experts, if each rank has n neighbouring experts, the
  /// last one maybe fewer.
  std::vector<double> loads(int64_t experts, int64_t perToken) const;
  /// Returns the share of all choices that exceed the slots of their experts,
  /// if each expert has `slots` times the mean number of choices.
  double dropped(int64_t experts, int64_t perToken, double slots) const;

private:
  std::string text = "balanced";
  double exponent = 0;
  std::vector<std::vector<double>> counts; ///< by layer and expert

  /// Returns, for several layers, how often each expert is chosen, relative to
  /// the mean.
  std::vector<std::vector<double>> popularity(int64_t experts,
                                              int64_t perToken) const;
};

} // namespace dpc::cost
