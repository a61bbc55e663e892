//===- Enums.h - Enumerations of the dpc dialect ----------------*- C++ -*-===//
#ifndef DPC_IR_ENUMS_H
#define DPC_IR_ENUMS_H

#include "mlir/IR/OpImplementation.h"

#include "ir/DpcEnums.h.inc"

#endif // DPC_IR_ENUMS_H
