// RUN: not dpc-opt %s --dpc-shard="strategy=pp=0" 2>&1 | FileCheck %s --check-prefix=PP
// RUN: not dpc-opt %s --dpc-shard="strategy=dp=0" 2>&1 | FileCheck %s --check-prefix=DP
// RUN: not dpc-opt %s --dpc-shard="strategy=tp=-2" 2>&1 | FileCheck %s --check-prefix=TP
// RUN: not dpc-opt %s --dpc-shard="micro-batches=0" 2>&1 | FileCheck %s --check-prefix=MB
// RUN: not dpc-opt %s --dpc-shard="strategy=dp=2,zero=7" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not dpc-opt %s --dpc-shard="strategy=vpp=2" 2>&1 | FileCheck %s --check-prefix=VPP
// RUN: not dpc-opt %s --dpc-shard="strategy=dp=2,dp=2" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not dpc-opt %s --dpc-shard="strategy=pd=2" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not dpc-opt %s --dpc-shard="cluster=nowhere.json" 2>&1 | FileCheck %s --check-prefix=CLUSTER
// RUN: not dpc-opt %s --dpc-split-stages="chunks=0" 2>&1 | FileCheck %s --check-prefix=CHUNKS

// PP: error: --strategy: pp=0: bad value; expected a whole number >= 1
// DP: error: --strategy: dp=0: bad value; expected a whole number >= 1
// TP: error: --strategy: tp=-2: bad value; expected a whole number >= 1, or a grid such as 2x2
// MB: error: micro-batches=0; expected at least 1
// ZERO: error: --strategy: zero=7: bad value; expected a whole number from 0 to 3
// VPP: error: --strategy: vpp=2 needs pp > 1: chunks alternate between pipeline stages; expected vpp=1 or more stages
// TWICE: error: --strategy: key 'dp' is given twice; expected once
// UNKNOWN: error: --strategy: unknown key 'pd'; expected one of dp tp pp
// CLUSTER: error: nowhere.json: cannot be read; expected a cluster.json
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
