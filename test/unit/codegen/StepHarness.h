//===- StepHarness.h - Compiles a @step and runs its plan -------*- C++ -*-===//
//
// The tests use the real compilation (buildPlan, LLVM, dlopen), but a simple
// serial executor of one rank, so that they do not depend on the runtime. With
// DPC_TEST_GPU_EMULATION, the kernels are those for GPUs, emulated on the CPU
// block by block and thread by thread. The same tests apply to both.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/Codegen.h"

#include <map>
#include <string>
#include <vector>

namespace dpc::test {

using Array = std::vector<double>;
/// Buffers by name.
using Values = std::vector<std::pair<std::string, Array>>;

/// A plan and its compiled kernels, in a folder that the destructor removes.
class BuiltPlan {
public:
  /// Parses `text`, applies `prepare`, and plans, validates and compiles all
  /// functions. `error` contains all diagnostics.
  explicit BuiltPlan(const std::string &text,
                     const codegen::CodegenOptions &options,
                     llvm::function_ref<void(mlir::func::FuncOp)> prepare = {});
  ~BuiltPlan();
  BuiltPlan(const BuiltPlan &) = delete;
  BuiltPlan &operator=(const BuiltPlan &) = delete;

  rt::Plan plan;
  std::string folder, error;
};

/// A compiled function @step.
class Step : public BuiltPlan {
public:
  explicit Step(const std::string &text);
  ~Step();

  void set(const std::string &name, const Array &values);
  /// Sets `arguments` and runs the schedule of `rank`.
  void run(const Values &arguments = {}, int64_t rank = 0);
  Array get(const std::string &name) const;
  /// Compares outputs and arguments with `values`; see expectClose().
  void expect(const Values &values, double tolerance = 2e-6) const;

  /// If true, a NaN that an instruction writes is a failure.
  bool checksNumbers = false;

private:
  void execute(const rt::Instruction &instruction, int64_t rank, int64_t mb);
  void runTiles(const rt::ExpertTilesOp &op, int64_t rank, int64_t mb);
  void expectNumbers(const rt::Instruction &instruction);
  int bufferOf(const std::string &name) const;
  char *at(int buffer);

  void *library = nullptr;
  std::vector<char> arena;
  std::map<std::string, Array> inputs;
};

/// Returns the kernels of @step as PTX for `targetGpu`, or "" on failure.
std::string ptxOf(const std::string &text, const std::string &targetGpu);

/// Returns the declaration of argument `name` of type tensor<`type`>, with the
/// attributes `more` appended.
std::string argument(const std::string &name, const std::string &type,
                     const std::string &role = "input",
                     const std::string &more = "");
/// Replaces each ${NAME} in `text` by words[NAME].
std::string substitute(std::string text,
                       const std::map<std::string, std::string> &words);
std::string replaceAll(std::string text, const std::string &from,
                       const std::string &to);
size_t countOf(const std::string &text, const std::string &what);
void expectSays(const std::string &text, const std::string &part);

/// Returns `count` values in [low, high) that depend only on the seed.
Array randomArray(int64_t count, int seed, double low = -2, double high = 2);

/// Updates p, m and v by AdamW (Loshchilov and Hutter, 2019) in double, at step
/// 3 with lr 0.01, betas 0.9 and 0.95, eps 1e-8 and weight decay 0.1. Gradients
/// are multiplied by 0.5.
void adamwReference(Array &p, Array &m, Array &v, const Array &g);

/// EXPECTs |actual - expected| <= tolerance * (1 + |expected|); NaN equals NaN.
void expectClose(const Array &actual, const Array &expected,
                 double tolerance = 2e-6);

} // namespace dpc::test
