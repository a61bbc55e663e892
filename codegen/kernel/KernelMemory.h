//===- KernelMemory.h - Elements in memory ----------------------*- C++ -*-===//
#pragma once

#include "codegen/kernel/KernelBuilder.h"

namespace dpc::codegen {

/// A value of a kernel's body that is in memory.
struct MemoryRef {
  Value pointer;
  StridedView view;
  /// The stored element type; null if it is the compute type.
  Type element;
};

/// The type in which the elements of a value are computed. For narrow floats it
/// is f32: loads widen them and stores round them. For integers it is a
/// signless type of at least 8 bits. Other types do not change.
Type computeTypeOf(Value value);

/// The type that loads and stores use for elements of `elementType`: bytes for
/// booleans, integers for bf16 and narrower floats.
Type storageTypeOf(Type elementType);

mlir::DenseElementsAttr computedElements(mlir::DenseElementsAttr value);

/// Emits the load or the store of an element. `elementType` and the type of
/// `scalar` are compute types.
Value loadElement(KernelBuilder &b, const MemoryRef &memory, Type elementType,
                  ArrayRef<Index> indices);
void storeElement(KernelBuilder &b, Value scalar, const MemoryRef &memory,
                  ArrayRef<Index> indices);

/// Converts an element from type `from` to type `to`; `x` and the result have
/// the compute types of `from` and `to`.
Value convertElement(KernelBuilder &b, Value x, Type from, Type to);

} // namespace dpc::codegen
