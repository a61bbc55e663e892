// RUN: dpc-opt %s --split-input-file --verify-diagnostics "--dpc-shrink=batch=2"

// The reshape of 6 x 5 to 30 elements does not show which elements belong to which
// sample.

// expected-error @below {{the batch of input 0 (30 samples) is tied to sizes that cannot change}}
func.func @forward(%x: tensor<30xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64}) -> tensor<6x5xf32> {
  %0 = dpc.reshape %x : tensor<30xf32> -> tensor<6x5xf32>
  return %0 : tensor<6x5xf32>
}
