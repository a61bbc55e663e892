//===- CopyAttributes.h - Attributes of many ops ----------------*- C++ -*-===//
#ifndef DPC_PASSES_LOCAL_COPYATTRIBUTES_H
#define DPC_PASSES_LOCAL_COPYATTRIBUTES_H

#include "ir/Attributes.h"

#include "mlir/IR/Builders.h"

namespace dpc {

/// Gives new ops the discardable attributes of `like`: all, or those of
/// `names`. They say when and where an op runs.
class AttributeListener : public mlir::OpBuilder::Listener {
public:
  explicit AttributeListener(mlir::Operation *like)
      : attributes(like->getDiscardableAttrDictionary()) {}
  AttributeListener(mlir::Operation *like,
                    llvm::ArrayRef<llvm::StringLiteral> names) {
    mlir::NamedAttrList list;
    copyAttributes(like, list, names);
    attributes = list.getDictionary(like->getContext());
  }
  void notifyOperationInserted(mlir::Operation *op,
                               mlir::OpBuilder::InsertPoint) override {
    op->setDiscardableAttrs(attributes);
  }

private:
  mlir::DictionaryAttr attributes;
};

/// Changes the discardable attributes of many ops in the same way. Ops have few
/// different dictionaries, and each is changed once.
class AttributeEdits {
public:
  /// What `change` depends on, besides the attributes themselves.
  using Values = std::array<mlir::Attribute, 3>;

  /// All calls pass the same `change`.
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

#endif // DPC_PASSES_LOCAL_COPYATTRIBUTES_H
