//===- Arguments.h - What the arguments of a function are ------*- C++ -*-===//
//
// StableHLO says nothing of parameters. What JAX leaves in the text decides:
//
//   names     where each argument comes from in Python: loc("params['w']")
//             (printed with enable_debug_info=True) becomes "params.w", without
//             it "arg3"
//   donation  tf.aliasing_output, jax.buffer_donor: a training step. A donated
//             argument is a state whose next value is a result of the same
//             type: one with the same path ("[0].mu['w']"); of several, those
//             that the attributes name, or else the next in order. Where no
//             path is left: the one that the attribute names; else, if there
//             are as many as donated arguments are left, the next in order,
//             which a remark says. More of them are refused: one may be as good
//             as another.
//
// The attribute tells what shares memory, which JAX decides by type and order;
// so paths come first. An argument without a name has the path of its result
// ("result[0]['w']"), if that has one.
//
// Of a training step, the floats of the container that the first donated
// argument is of are parameters, other donated arguments states. A state
// belongs to the parameter whose path its own ends with ("opt[0].mu['w']" to
// "params['w']") if they agree in shape. Of a plain function, the floats of the
// first argument are parameters if that is a container; --trainable and
// --frozen change this. What is neither is an input.
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
  std::string of;               ///< of a state: its parameter, or ""
  std::optional<unsigned> next; ///< the result that is its next value
};

struct Signature {
  std::vector<Argument> arguments;
  std::vector<std::string> results; ///< names, unique
  bool isStep = false;              ///< some arguments are donated
  std::vector<std::string> remarks; ///< what was guessed

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

} // namespace dpc::frontend::hlo

#endif // DPC_FRONTENDS_STABLEHLO_ARGUMENTS_H
