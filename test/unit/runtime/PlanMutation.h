//===- PlanMutation.h - changes that make a plan invalid --------*- C++ -*-===//
#ifndef DPC_TEST_UNIT_RUNTIME_PLANMUTATION_H
#define DPC_TEST_UNIT_RUNTIME_PLANMUTATION_H

#include "runtime/plan/Plan.h"

#include <functional>
#include <ostream>

namespace dpc::rt::test {

struct Mutation {
  const char *name;
  std::function<void(Plan &)> change;
  const char *message; ///< a part of the expected message
};
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for it.
inline void PrintTo(const Mutation &mutation, std::ostream *out) {
  *out << mutation.name;
}

inline Instruction &at(Plan &p, const char *phase, size_t index) {
  return p.phases[phase][index];
}
template <typename Op> Op &op(Plan &p, const char *phase, size_t index) {
  return std::get<Op>(at(p, phase, index).op);
}

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_RUNTIME_PLANMUTATION_H
