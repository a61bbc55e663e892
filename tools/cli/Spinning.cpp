//===- Spinning.cpp - limit of spinning in OpenMP threads -----------------===//
#include "tools/cli/Spinning.h"

#include <cstdlib>

#include <unistd.h>

void dpc::limitSpinning(char **argv) {
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY"))
    return;
  setenv("GOMP_SPINCOUNT", "10000", /*overwrite=*/1);
  execv("/proc/self/exe", argv);
  // If there is no /proc, continue: the limit only affects speed.
}
