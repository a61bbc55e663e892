// RUN: dpc-opt %s --dpc-place-ranks="strategy=dp=2,tp=2,placement=dp.tp" | FileCheck %s --check-prefix=PLACED
// RUN: dpc-opt %s --dpc-place-ranks="strategy=dp=2,tp=2" | FileCheck %s --check-prefix=USUAL
// RUN: dpc-opt %s --dpc-place-ranks="strategy=dp=2,tp=2,batch_shares=3:1 micro-batches=2" | FileCheck %s --check-prefix=SHARES
// RUN: dpc-opt %s --dpc-place-ranks="strategy=dp=2,tp=2,tp_overlap=chunked" | FileCheck %s --check-prefix=OVERLAP
// RUN: dpc-opt %s --dpc-place-ranks="strategy=dp=4,tp_overlap=chunked" | FileCheck %s --check-prefix=USUAL
// RUN: not dpc-opt %s --dpc-place-ranks="strategy=dp=2,tp=2,placement=xp" 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not dpc-opt %s --dpc-place-ranks="micro-batches=0" 2>&1 | FileCheck %s --check-prefix=COUNT

// Without a placement in the strategy, ranks are on the devices in mesh order, with the
// innermost axis last.
// PLACED: func.func @step
// PLACED-SAME: dpc.placement = ["dp", "tp"]
// USUAL: func.func @step
// USUAL-NOT: dpc.placement
// USUAL-NOT: dpc.tp_overlap
// The cost model reads the key from the step. Without tensor parallelism it has no effect.
// OVERLAP: dpc.tp_overlap = "chunked"
// SHARES: dpc.batch_shares = array<i64: 3, 1>
// AXIS: error: --strategy: placement=xp: unknown axis 'xp'
// COUNT: error: micro-batches=0; expected at least 1
func.func @step(%x: tensor<4xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<4xf32> {dpc.name = "y"}) attributes {dpc.mesh = #dpc.mesh<dp=2, tp=2>} {
  %y = dpc.unary exp %x {dpc.phase = "forward"} : tensor<4xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}
