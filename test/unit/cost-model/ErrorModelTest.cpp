//===- ErrorModelTest.cpp - Errors of estimates, learned as a field -------===//
#include "cost-model/search/ErrorModel.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace dpc::cost;

namespace {

constexpr ErrorPrior kPrior = {0.3, 0.2, 0.1, 0.01};

Features at(double x, double y = 0) {
  Features features{};
  features[0] = x;
  features[1] = y;
  return features;
}

TEST(ErrorModel, ThePriorIsItsParts) {
  ErrorModel errors(kPrior);
  size_t place = errors.addPlace(at(3, 4));
  EXPECT_EQ(errors.mean(place), 0);
  EXPECT_NEAR(errors.deviation(place), std::sqrt(0.09 + 0.04 * 25 + 0.01),
              1e-12);
}

TEST(ErrorModel, AnObservationIsKnownWithinItsNoise) {
  ErrorModel errors(kPrior);
  size_t here = errors.addPlace(at(1)), far = errors.addPlace(at(-1, 5));
  double before = errors.deviation(far);
  errors.observe(at(1), 0.5);
  EXPECT_NEAR(errors.mean(here), 0.5, 0.005);
  EXPECT_LT(errors.deviation(here), 0.012);
  EXPECT_LT(errors.deviation(far), before);
  EXPECT_GT(errors.deviation(far), 0.4 * before);
}

// For two observations, the posterior follows from the inverse of their
// covariance by hand.
TEST(ErrorModel, TwoObservationsByHand) {
  auto covariance = [](double a, double b) {
    return 0.09 + 0.04 * a * b + 0.01 * std::exp(-std::abs(a - b));
  };
  ErrorModel errors(kPrior);
  size_t place = errors.addPlace(at(2));
  errors.observe(at(0), 0.1);
  errors.observe(at(1), 0.4);
  double a = covariance(0, 0) + 1e-4, b = covariance(0, 1),
         c = covariance(1, 1) + 1e-4, d = a * c - b * b;
  double k0 = covariance(0, 2), k1 = covariance(1, 2);
  double w0 = (c * k0 - b * k1) / d, w1 = (a * k1 - b * k0) / d;
  EXPECT_NEAR(errors.mean(place), w0 * 0.1 + w1 * 0.4, 1e-12);
  double variance = covariance(2, 2) - w0 * k0 - w1 * k1;
  EXPECT_NEAR(errors.deviation(place), std::sqrt(variance), 1e-12);
}

TEST(ErrorModel, SlopesAreExtrapolated) {
  ErrorModel errors({0.3, 0.2, 0.01, 0.01});
  for (int x = 0; x < 4; ++x)
    errors.observe(at(x), 0.1 - 0.2 * x);
  EXPECT_NEAR(errors.mean(errors.addPlace(at(6))), 0.1 - 0.2 * 6, 0.03);
}

// A place gives the same numbers whether it or the observations come first.
TEST(ErrorModel, PlacesMayBeAddedAtAnyTime) {
  ErrorModel errors(kPrior);
  size_t first = errors.addPlace(at(2, 1));
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 5; ++j)
      errors.observe(at(j, i), std::sin(5 * i + j));
  size_t last = errors.addPlace(at(2, 1));
  EXPECT_DOUBLE_EQ(errors.mean(first), errors.mean(last));
  EXPECT_DOUBLE_EQ(errors.deviation(first), errors.deviation(last));
}

// Equal observations make the covariance singular but for the noise.
TEST(ErrorModel, RepeatedObservationsAreStable) {
  ErrorModel errors({0.3, 0.2, 0.1, 1e-6});
  size_t place = errors.addPlace(at(1));
  for (int i = 0; i < 100; ++i)
    errors.observe(at(1), 0.25);
  EXPECT_NEAR(errors.mean(place), 0.25, 1e-6);
  EXPECT_GE(errors.deviation(place), 0);
  EXPECT_LT(errors.deviation(place), 1e-4);
}

} // namespace
