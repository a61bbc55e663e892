//===- dpc-opt.cpp - main() of dpc-opt ------------------------------------===//
#include "tools/cli/Spinning.h"
#include "tools/dpc-opt/Main.h"

#include <algorithm>
#include <string_view>

int main(int argc, char **argv) {
  // --calibrate must measure GEMMs under the same limit as in dpc-run.
  if (std::any_of(argv, argv + argc, [](std::string_view word) {
        return word.starts_with("--calibrate");
      }))
    dpc::limitSpinning(argv);
  return dpc::dpcOptMain(argc, argv);
}
