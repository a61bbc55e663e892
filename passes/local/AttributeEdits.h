//===- AttributeEdits.h - Changes to many ops' attributes -------*- C++ -*-===//
#ifndef DPC_PASSES_LOCAL_ATTRIBUTEEDITS_H
#define DPC_PASSES_LOCAL_ATTRIBUTEEDITS_H

#include "mlir/IR/Operation.h"

#include "llvm/ADT/DenseMap.h"

namespace dpc {

/// Changes the discardable attributes of ops in one way that depends on some
/// values only. Ops repeat the same few dictionaries: each is changed once.
class AttributeEdits {
public:
  /// What `change` depends on, besides the attributes themselves.
  using Values = std::array<mlir::Attribute, 3>;

  /// `change` is the same one in all calls.
  void apply(mlir::Operation *op, const Values &values,
             llvm::function_ref<void(mlir::NamedAttrList &)> change) {
    mlir::DictionaryAttr old = op->getRawDictionaryAttrs();
    mlir::DictionaryAttr &changed =
        known[{old, {values[0], {values[1], values[2]}}}];
    if (!changed) {
      mlir::NamedAttrList list(old);
      change(list);
      changed = list.getDictionary(op->getContext());
    }
    op->setDiscardableAttrs(changed);
  }

private:
  using Pair = std::pair<mlir::Attribute, mlir::Attribute>;
  llvm::DenseMap<std::pair<mlir::Attribute, std::pair<mlir::Attribute, Pair>>,
                 mlir::DictionaryAttr>
      known;
};

} // namespace dpc

#endif // DPC_PASSES_LOCAL_ATTRIBUTEEDITS_H
