//===- Handler.h - Converters of operators ----------------------*- C++ -*-===//
#pragma once

#include "frontends/emit/Emitter.h"

#include <array>
#include <functional>

namespace dpc::frontend {

/// Converts one node. `Context`, the frontend's view of a node, must have:
///   emit               the Emitter;
///   required<First>(i) returns operand i, or notes a failure and returns null;
///   out(i, value)      sets result i.
///
/// A handler wraps a function (First &, Val...), where First is Context or
/// Emitter. It calls the function only if the node has an operand for each Val.
/// The function returns the first result, or null if it failed or set results.
template <typename Context> class Handler {
public:
  Handler() = default;
  template <typename First, std::same_as<Val>... Operands>
  Handler(Val (*convert)(First &, Operands...))
      : run([convert](Context &c) {
          return apply(convert, c, std::index_sequence_for<Operands...>());
        }) {}

  void operator()(Context &c) const {
    if (Val result = run(c))
      c.out(0, std::move(result));
  }

private:
  template <typename First, std::same_as<Val>... Operands, size_t... I>
  static Val apply(Val (*convert)(First &, Operands...), Context &c,
                   std::index_sequence<I...>) {
    std::array<Val, sizeof...(I)> operands{c.template required<First>(I)...};
    if (!llvm::all_of(operands, [](const Val &v) { return bool(v); }))
      return {};
    if constexpr (std::is_same_v<First, Emitter>)
      return convert(c.emit, operands[I]...);
    else
      return convert(c, operands[I]...);
  }

  std::function<Val(Context &)> run;
};

} // namespace dpc::frontend
