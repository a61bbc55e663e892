//===- KernelMemory.h - Elements in memory ----------------------*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_KERNELMEMORY_H
#define DPC_CODEGEN_KERNEL_KERNELMEMORY_H

#include "codegen/kernel/KernelBuilder.h"

namespace dpc::codegen {

/// Elements of a value of the body in memory.
struct MemoryRef {
  mlir::Value pointer;
  StridedView view;
  /// As they are stored; null when they are stored as they are computed with.
  mlir::Type element;
};

/// What elements of a value are computed with: f32 for narrower floats, which
/// are widened on load and rounded on store; signless integers of 8 bits at
/// least; and else their own type.
mlir::Type computeTypeOf(mlir::Value value);

/// What elements of a type are loaded and stored as: booleans as bytes, bf16
/// and narrower floats as bits.
mlir::Type storageTypeOf(mlir::Type elementType);

/// A constant with elements as they are computed with.
mlir::DenseElementsAttr computedElements(mlir::DenseElementsAttr value);

/// Emits the load or store of an element; of `elementType`, or of the scalar's,
/// as it is computed with.
mlir::Value loadElement(KernelBuilder &b, const MemoryRef &memory,
                        mlir::Type elementType, llvm::ArrayRef<Index> indices);
void storeElement(KernelBuilder &b, mlir::Value scalar, const MemoryRef &memory,
                  llvm::ArrayRef<Index> indices);

/// Converts an element between types of values, as both are computed with.
mlir::Value convertElement(KernelBuilder &b, mlir::Value x, mlir::Type from,
                           mlir::Type to);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_KERNELMEMORY_H
