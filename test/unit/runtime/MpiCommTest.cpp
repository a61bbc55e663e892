//===- MpiCommTest.cpp - the conformance suite under mpirun ---------------===//
#include "runtime/exec/Launch.h"
#include "test/unit/runtime/CommConformance.h"

#include <gtest/gtest.h>

namespace dpc::rt::test {

std::vector<int> worldSizes() { return {detectLaunch().size}; }

void onRanks(int ranks, double timeoutSeconds,
             const std::function<void(Communicator &)> &body) {
  Expected<std::unique_ptr<Communicator>> comm = makeMpiComm({timeoutSeconds});
  ASSERT_TRUE(comm.ok()) << comm.status().message();
  ASSERT_EQ((*comm)->size(), ranks);
  body(**comm);
}

} // namespace dpc::rt::test

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
