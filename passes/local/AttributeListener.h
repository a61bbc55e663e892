//===- AttributeListener.h - New ops run where another did ------*- C++ -*-===//
#ifndef DPC_PASSES_LOCAL_ATTRIBUTELISTENER_H
#define DPC_PASSES_LOCAL_ATTRIBUTELISTENER_H

#include "mlir/IR/Builders.h"

namespace dpc {

/// Gives new ops the discardable attributes of `like`, which say where and when
/// it runs.
class AttributeListener : public mlir::OpBuilder::Listener {
public:
  explicit AttributeListener(mlir::Operation *like)
      : attributes(like->getDiscardableAttrDictionary()) {}
  void notifyOperationInserted(mlir::Operation *op,
                               mlir::OpBuilder::InsertPoint) override {
    op->setDiscardableAttrs(attributes);
  }

private:
  mlir::DictionaryAttr attributes;
};

} // namespace dpc

#endif // DPC_PASSES_LOCAL_ATTRIBUTELISTENER_H
