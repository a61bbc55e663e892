//===- Arguments.h - Roles of the arguments of a function -------*- C++ -*-===//
//
// StableHLO does not distinguish parameters from other arguments. The roles
// follow from what JAX leaves in the text:
//
//   names     The Python expression of each argument: loc("params['w']")
//             (printed with enable_debug_info=True) becomes "params.w". Without
//             it the name is "arg3".
//   donation  tf.aliasing_output and jax.buffer_donor mark a training step. A
//             donated argument is a state whose next value is a result of the
//             same type. Results with the same path ("[0].mu['w']") come
//             first; among several of them, the attribute chooses, or else the
//             order. Without a path, the attribute chooses. Without an
//             attribute, the order chooses if as many results as donated
//             arguments remain, and a remark says so. If more results remain,
//             the import fails because the choice is ambiguous.
//
// The attribute only says which values share memory, and JAX decides that by
// type and order; paths therefore take precedence. An argument without a name
// takes the path of its result ("result[0]['w']"), if the result has one.
//
// In a training step, the parameters are the floats in the container of the
// first donated argument; other donated arguments are states. A state belongs
// to the parameter whose path is a suffix of its own path ("opt[0].mu['w']"
// belongs to "params['w']") if their shapes agree. In a plain function, the
// parameters are the floats of the first argument if that is a container;
// --trainable and --frozen change this. All other arguments are inputs.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_STABLEHLO_ARGUMENTS_H
#define DPC_FRONTENDS_STABLEHLO_ARGUMENTS_H

#include "frontends/emit/Forward.h"

namespace dpc::frontend::hlo {

struct Argument {
  enum class Role { parameter, buffer, state, input };
  std::string name; ///< unique
  mlir::RankedTensorType type;
  Role role = Role::input;
  std::string of; ///< the parameter to which a state belongs, or ""
  std::optional<unsigned> next; ///< the result with its next value
};

struct Signature {
  std::vector<Argument> arguments;
  std::vector<std::string> results; ///< names, unique
  bool isStep = false;              ///< some arguments are donated
  std::vector<std::string> remarks; ///< what the reader guessed

  bool isTied(unsigned result) const {
    return llvm::any_of(arguments, [&](const Argument &argument) {
      return argument.next == result;
    });
  }
};

/// Reads the signature of the module's main function; `function` has one block.
llvm::Expected<Signature> readSignature(mlir::func::FuncOp function,
                                        llvm::StringRef file,
                                        const ImportOptions &options);

/// Converts a module with `@forward`, which takes the arguments of `signature`
/// and returns its results, the tied ones last, into a module with
/// `@train_step`. Sets the roles of the states, the ties and the phase of every
/// op. The phase is `update` for ops that only compute next values of
/// parameters and states element by element; all other ops are `forward`.
///
/// Drops results that are neither tied nor scalars, with a remark.
void makeTrainStep(mlir::ModuleOp module, const Signature &signature);

} // namespace dpc::frontend::hlo

#endif // DPC_FRONTENDS_STABLEHLO_ARGUMENTS_H
