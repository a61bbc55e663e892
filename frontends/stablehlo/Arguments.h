//===- Arguments.h - Roles of the arguments of a function -------*- C++ -*-===//
//
// StableHLO does not distinguish parameters from other arguments. Their roles
// follow from names and donations, which JAX writes.
//
// Names. The location of an argument is its Python expression if the module was
// printed with enable_debug_info=True: loc("params['w']") becomes "params.w".
// Otherwise an argument that is tied to a result gets the path of the result
// ("result[0]['w']") if the result has one. All other arguments are numbered
// ("arg3").
//
// Donations. tf.aliasing_output and jax.buffer_donor mark donated arguments. A
// function with donated arguments is a training step. Each donated argument is
// tied to its next value, a result of the same type, by the first of these
// rules that applies:
//   1. The result has the same path ("[0].mu['w']"). If several results have
//      this path, tf.aliasing_output or otherwise the order decides.
//   2. tf.aliasing_output names the result. Paths take precedence, because JAX
//      chooses which values share memory by their type and order only.
//   3. The remaining arguments of a type are tied to the remaining results of
//      this type in order, and a remark says so. The import fails if there are
//      more results than arguments.
//
// In a training step, the parameters are the floats in the container of the
// first donated argument, and all other donated arguments are states. A state
// such as "opt[0].mu['w']" belongs to the parameter of the same shape whose
// path is its suffix ("params['w']"). In any other function, the parameters are
// the floats in the first argument if it is a container; --trainable and
// --frozen change the parameters. All other arguments are inputs.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/Forward.h"

namespace dpc::frontend::hlo {

struct Argument {
  enum class Role { parameter, buffer, state, input };
  std::string name; ///< unique
  mlir::RankedTensorType type;
  Role role = Role::input;
  std::string of; ///< the parameter to which a state belongs, or ""
  std::optional<unsigned> next; ///< result that is its next value
};

struct Signature {
  std::vector<Argument> arguments;
  std::vector<std::string> results; ///< names, unique
  bool isStep = false;              ///< whether arguments are donated
  std::vector<std::string> remarks; ///< guesses, to be reported

  bool isTied(unsigned result) const {
    return llvm::any_of(arguments, [&](const Argument &argument) {
      return argument.next == result;
    });
  }
};

/// Reads the signature of `function`, which must have one block.
llvm::Expected<Signature> readSignature(mlir::func::FuncOp function,
                                        llvm::StringRef file,
                                        const ImportOptions &options);

/// Converts `@forward` of `module`, whose arguments and results are those of
/// `signature` (with tied results last), to `@train_step`. Sets the roles of
/// the states, the ties, and the phase of every op: `update` for elementwise
/// ops that only serve to compute next values, `forward` for all other ops.
/// Drops results that are neither tied nor scalars, with a remark.
void makeTrainStep(mlir::ModuleOp module, const Signature &signature);

} // namespace dpc::frontend::hlo
