//===- Passes.td - Passes that make a program smaller ----------*- tablegen -*-===//
#ifndef DPC_PASSES_SHRINK_TD
#define DPC_PASSES_SHRINK_TD

include "mlir/Pass/PassBase.td"

def DpcShrink : Pass<"dpc-shrink", "::mlir::func::FuncOp"> {
  let summary = "Cuts depth and sizes of a model, keeping its structure.";
  let description = [{
    For checking a strategy of a model that is too large to run here
    (passes/shrink/Shrink.h): repeated layers are cut to `layers`, dimensions to
    about `size`, keeping which of them are products of others, and which
    divide. bf16 and f16 become f32. Parameters lose their place in the model's
    file: they get random values.

    Example (`size=8`; 16 heads of 64 become 8 of 8):

    ```mlir
    %1 = dpc.reshape %0 : tensor<32x1024xf32> -> tensor<32x16x64xf32>
    // becomes
    %1 = dpc.reshape %0 : tensor<8x64xf32> -> tensor<8x8x8xf32>
    ```
  }];
  let options = [
    Option<"layers", "layers", "int64_t", "2", "Repeats of a layer that stay.">,
    Option<"size", "size", "int64_t", "8", "Sizes above it become about it.">,
    Option<"batch", "batch", "int64_t", "0",
           "Samples; 0 = as any other dimension.">,
    Option<"oldParts", "old-parts", "int64_t", "2",
           "What this divides in the model,">,
    Option<"newParts", "new-parts", "int64_t", "2",
           "this divides in the small one.">,
  ];
}

#endif // DPC_PASSES_SHRINK_TD
