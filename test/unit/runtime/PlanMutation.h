//===- PlanMutation.h - expectations about plans ----------------*- C++ -*-===//
#pragma once

#include "runtime/plan/PlanJson.h"
#include "runtime/plan/PlanValidate.h"
#include "test/unit/runtime/Expect.h"

#include <functional>
#include <ostream>

namespace dpc::rt::test {

struct Mutation {
  const char *name;
  std::function<void(Plan &)> change;
  const char *message;
};
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for it.
inline void PrintTo(const Mutation &mutation, std::ostream *out) {
  *out << mutation.name;
}

/// Expects that `plan` is valid, and that after the mutation the error has the
/// message and `place`.
inline void expectRefused(Plan plan, const Mutation &mutation,
                          const char *place) {
  ASSERT_EQ(validatePlan(plan, "plan.json").message(), "");
  mutation.change(plan);
  std::string message = validatePlan(plan, "plan.json").message();
  EXPECT_EQ(message.rfind("plan.json: ", 0), 0u) << message;
  EXPECT_HAS(message, place);
  EXPECT_HAS(message, mutation.message);
}

/// Calls expectRefused() for VALID and each of the MUTATIONS.
// NOLINTBEGIN(bugprone-macro-parentheses): a class is declared
#define DPC_TEST_MUTATIONS(SUITE, VALID, PLACE, MUTATIONS)                     \
  class SUITE : public testing::TestWithParam<test::Mutation> {};              \
  TEST_P(SUITE, IsRefused) { test::expectRefused(VALID, GetParam(), PLACE); }  \
  INSTANTIATE_TEST_SUITE_P(All, SUITE, testing::ValuesIn(MUTATIONS),           \
                           [](const auto &info) { return info.param.name; })
// NOLINTEND(bugprone-macro-parentheses)

/// Expects that a plan is equal after it is written and read.
inline void expectRoundTrip(const Plan &plan) {
  ASSERT_EQ(validatePlan(plan, "p").message(), "");
  std::string text = planToJson(plan);
  Expected<Plan> read = planFromJson(text, "p");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(planToJson(*read), text);
}

inline Instruction &at(Plan &p, const char *phase, size_t index) {
  return p.phases[phase][index];
}
template <typename Op> Op &op(Plan &p, const char *phase, size_t index) {
  return std::get<Op>(at(p, phase, index).op);
}

} // namespace dpc::rt::test
