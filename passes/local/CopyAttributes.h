//===- CopyAttributes.h - Attributes of many ops ----------------*- C++ -*-===//
#pragma once

#include "ir/Attributes.h"

#include "mlir/IR/Builders.h"

namespace dpc {

/// Copies the discardable attributes of `like`, or only those in `names`, to
/// every new op. These attributes say when and where an op runs.
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

/// Applies one change to the discardable attributes of many ops. Each distinct
/// attribute dictionary is changed only once.
class AttributeEdits {
public:
  /// Values that `change` reads besides the dictionary.
  using Values = std::array<mlir::Attribute, 3>;

  /// Every call must pass the same `change`.
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
