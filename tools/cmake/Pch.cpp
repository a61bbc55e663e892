// A source for the target whose precompiled header all libraries with MLIR
// reuse.
