//===- Passes.td - Passes that make a program smaller ----------*- tablegen -*-===//
#ifndef DPC_PASSES_SHRINK_TD
#define DPC_PASSES_SHRINK_TD

include "mlir/Pass/PassBase.td"

def DpcShrink : Pass<"dpc-shrink", "::mlir::func::FuncOp"> {
  let summary = "Cuts the depth and the sizes of a model but keeps its structure.";
  let description = [{
    Makes a small model to verify the strategy of a model that is too large to run
    here (passes/shrink/Shrink.h). Repeated layers are cut to `layers`, and
    dimensions to about `size`. Products of dimensions remain products, and
    divisibility is preserved. bf16 and f16 become f32. Parameters whose shape
    changes lose `dpc.source` and get random values.

    Example (`size=8`; 16 heads with head_dim 64 become 8 heads with head_dim 8):

    ```mlir
    %1 = dpc.reshape %0 : tensor<32x1024xf32> -> tensor<32x16x64xf32>
    // becomes
    %1 = dpc.reshape %0 : tensor<8x64xf32> -> tensor<8x8x8xf32>
    ```
  }];
  let options = [
    Option<"layers", "layers", "int64_t", "2", "Number of repeats of a layer that remain.">,
    Option<"size", "size", "int64_t", "8", "Larger sizes become about this size.">,
    Option<"batch", "batch", "int64_t", "0",
           "Number of samples; 0 = treat the batch like other dimensions.">,
    Option<"oldParts", "old-parts", "int64_t", "2",
           "A new size is a multiple of new-parts if and only if the old size is a multiple of old-parts.">,
    Option<"newParts", "new-parts", "int64_t", "2",
           "See old-parts.">,
  ];
}

#endif // DPC_PASSES_SHRINK_TD
