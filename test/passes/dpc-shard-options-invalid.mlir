// RUN: not dpc-opt %s --dpc-shard="pp=0" 2>&1 | FileCheck %s --check-prefix=PP
// RUN: not dpc-opt %s --dpc-shard="dp=0" 2>&1 | FileCheck %s --check-prefix=DP
// RUN: not dpc-opt %s --dpc-shard="tp=-2" 2>&1 | FileCheck %s --check-prefix=TP
// RUN: not dpc-opt %s --dpc-shard="micro-batches=0" 2>&1 | FileCheck %s --check-prefix=MB
// RUN: not dpc-opt %s --dpc-shard="dp=2 zero=7" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not dpc-opt %s --dpc-shard="vpp=2" 2>&1 | FileCheck %s --check-prefix=VPP
// RUN: not dpc-opt %s --dpc-split-stages="chunks=0" 2>&1 | FileCheck %s --check-prefix=CHUNKS

// PP: error: pp=0; expected at least 1
// DP: error: dp=0; expected at least 1
// TP: error: tp=-2; expected at least 1
// MB: error: micro-batches=0; expected at least 1
// ZERO: error: zero=7; expected 0 to 3
// VPP: error: vpp=2 without stages; expected pp above 1
// CHUNKS: error: chunks=0; expected at least 1
func.func @step(%x: tensor<4xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<4xf32> {dpc.name = "y"}) attributes {dpc.mesh = #dpc.mesh<pp=2>} {
  %y = dpc.unary exp %x {dpc.phase = "forward"} : tensor<4xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}

func.func @forward(%x: tensor<4xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<4xf32> {dpc.name = "y"}) {
  %y = dpc.unary exp %x : tensor<4xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}
