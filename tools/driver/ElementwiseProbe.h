//===- ElementwiseProbe.h - A generated kernel to measure -------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_ELEMENTWISEPROBE_H
#define DPC_TOOLS_DRIVER_ELEMENTWISEPROBE_H

#include "runtime/kernels/KernelLibrary.h"

#include <optional>
#include <string>
#include <vector>

namespace dpc {

/// gelu and its gradient, each a kernel as plans have them, compiled for this
/// machine: elementwise work that is bound by arithmetic. One thread a copy:
/// each has its own arrays, which stay in its core's caches.
class ElementwiseProbe {
public:
  /// Nothing, with a line of text in `error`, where no kernel can be compiled.
  static std::optional<ElementwiseProbe> compile(std::string &error);

  /// Runs both once.
  void run();
  /// Scalar operations of one run, as the cost model counts them.
  double operations() const { return flops; }

private:
  rt::KernelLibrary loaded;
  std::vector<rt::KernelFunction> kernels;
  std::vector<float> x, y;
  double flops = 0;
};

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_ELEMENTWISEPROBE_H
