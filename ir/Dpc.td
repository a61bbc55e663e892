//===- Dpc.td - The whole dialect for one mlir-tblgen run ------*- tablegen -*-===//
include "ir/DpcOps.td"
include "ir/DpcModelOps.td"
include "ir/DpcSpatialOps.td"
include "ir/DpcLocalOps.td"
