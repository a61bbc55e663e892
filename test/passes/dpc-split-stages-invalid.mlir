// RUN: dpc-opt %s --split-input-file --verify-diagnostics --dpc-split-stages

func.func @step(%x: tensor<4xf32>) attributes {dpc.mesh = #dpc.mesh<pp=2>} {
  // expected-error @below {{'dpc.stage' is 2, expected 0 to 1: 2 rank stages with 1 chunks each}}
  %0 = dpc.unary exp %x {dpc.phase = "forward", dpc.stage = 2 : i64} : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

// expected-error @below {{no function @step with 'dpc.mesh' to split}}
module {
  func.func @forward() {
    return
  }
}
