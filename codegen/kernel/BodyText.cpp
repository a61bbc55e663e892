//===- BodyText.cpp - Compares the bodies of kernels ----------------------===//
#include "codegen/kernel/BodyText.h"

using namespace mlir;

namespace dpc::codegen {

std::string
bodyText(KernelOp op,
         llvm::function_ref<void(Value, llvm::raw_ostream &)> describe) {
  std::string text;
  llvm::raw_string_ostream out(text);
  DenseMap<Value, unsigned> numbers;
  auto add = [&](Value value) {
    unsigned number = numbers.size();
    numbers[value] = number;
    out << ' ';
    describe(value, out);
  };
  Block &body = op.getBody().front();
  llvm::for_each(body.getArguments(), add);
  for (Operation &inner : body) {
    out << '\n' << inner.getName().getStringRef();
    for (Value operand : inner.getOperands())
      out << " %" << numbers.lookup(operand);
    for (NamedAttribute attribute : inner.getAttrs())
      if (!attribute.getName().getValue().starts_with("dpc."))
        out << ' ' << attribute.getName().getValue() << '='
            << attribute.getValue();
    out << " ->";
    llvm::for_each(inner.getResults(), add);
  }
  return text;
}

} // namespace dpc::codegen
