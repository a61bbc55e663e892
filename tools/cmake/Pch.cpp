// Carries the precompiled header that all MLIR-using libraries reuse.
