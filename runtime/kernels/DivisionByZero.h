//===- DivisionByZero.h - integer division in kernels -----------*- C++ -*-===//
#pragma once

#include <string>

namespace dpc::rt {

/// While one exists, an integer division by zero in its thread ends the process
/// with exit status 1 and one line on stderr that names `kernel`. Without one,
/// processors raise SIGFPE for it, which ends the process without a message.
/// The first object installs a handler of SIGFPE.
class DivisionGuard {
public:
  explicit DivisionGuard(const std::string &kernel);
  ~DivisionGuard();
  DivisionGuard(const DivisionGuard &) = delete;
  DivisionGuard &operator=(const DivisionGuard &) = delete;

private:
  const std::string *outer;
};

} // namespace dpc::rt
