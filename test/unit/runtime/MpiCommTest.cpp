//===- MpiCommTest.cpp - the conformance suite under mpirun ---------------===//
#include "runtime/exec/Launch.h"
#include "test/unit/runtime/CommConformance.h"

#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <unistd.h>

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
  int failed = RUN_ALL_TESTS();
  // A collective that timed out can never be completed, and MPI_Finalize
  // would wait for it: leave without.
  std::fflush(nullptr);
  if (failed)
    std::abort();
  _exit(0);
}
