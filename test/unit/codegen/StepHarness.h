//===- StepHarness.h - Compile a @step and run its plan ---------*- C++ -*-===//
//
// The real path (buildPlan, LLVM, dlopen) with a simple serial executor of one
// rank, so that code generation is tested without the runtime. Compiled with
// DPC_TEST_GPU_EMULATION, kernels are those for GPUs, block by block and thread
// by thread on the CPU: the same tests hold for both.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TEST_UNIT_CODEGEN_STEPHARNESS_H
#define DPC_TEST_UNIT_CODEGEN_STEPHARNESS_H

#include "codegen/Codegen.h"

#include <map>
#include <string>
#include <vector>

namespace dpc::test {

using Array = std::vector<double>;

/// A compiled function @step.
class Step {
public:
  /// Parses, plans, validates and compiles; `error` is empty on success.
  explicit Step(const std::string &text);
  ~Step();

  /// Contents of an argument's local buffer.
  void set(const std::string &name, const Array &values);
  /// Runs all phases once per micro-batch as `rank`.
  void run(int64_t rank = 0);
  /// Contents of an output or argument.
  Array get(const std::string &name) const;

  rt::Plan plan;
  std::string error;
  /// What an instruction writes has no NaN then.
  bool checksNumbers = false;

private:
  void execute(const rt::Instruction &instruction, int64_t rank, int64_t mb);
  void expectNumbers(const rt::Instruction &instruction);
  int bufferOf(const std::string &name) const;
  char *at(int buffer);

  std::string folder;
  void *library = nullptr;
  std::vector<char> arena;
  std::map<std::string, Array> inputs;
};

/// The kernels of @step as PTX for `targetGpu`, or "" after a failure.
std::string ptxOf(const std::string &text, const std::string &targetGpu);

/// `count` values between low and high, the same for equal seeds.
Array randomArray(int64_t count, int seed, double low = -2, double high = 2);

/// AdamW (Loshchilov and Hutter, 2019) in double, of step 3: lr 0.01, betas 0.9
/// and 0.95, eps 1e-8, weight decay 0.1, gradients halved.
void adamwReference(Array &p, Array &m, Array &v, const Array &g);

/// EXPECTs |actual - expected| <= tolerance * (1 + |expected|), NaN = NaN.
void expectClose(const Array &actual, const Array &expected,
                 double tolerance = 2e-6);

} // namespace dpc::test

#endif // DPC_TEST_UNIT_CODEGEN_STEPHARNESS_H
