// RUN: dpc-opt %s --dpc-expand-cross-entropy | FileCheck %s

// The gradient reads the new log-sum-exp. Every new op has the phase of the old one.
// CHECK-LABEL: func @loss
// CHECK-SAME: %[[X:[^:]*]]: tensor<6x8xf32>, %[[L:[^:]*]]: tensor<6xi64>, %[[D:[^:]*]]: tensor<6xf32>
// CHECK-NEXT: %[[MAX:.*]] = dpc.reduce max %[[X]] dims = [1] {dpc.group = 7 : i64, dpc.phase = "forward"}
// CHECK-NEXT: %[[E:.*]], %[[P:.*]] = dpc.cross_entropy_sums %[[X]], %[[MAX]], %[[L]] {{.*}}dpc.ignored = -100 : i64{{.*}}"forward"
// CHECK-NEXT: %[[LOG:.*]] = dpc.unary log %[[E]] {{.*}}"forward"
// CHECK-NEXT: %[[LSE:.*]] = dpc.binary add %[[LOG]], %[[MAX]] {{.*}}"forward"
// CHECK-NEXT: %[[I:.*]] = dpc.constant dense<-100>
// CHECK-NEXT: %[[IGNORED:.*]] = dpc.compare eq %[[L]], %[[I]]
// CHECK-NEXT: %[[ZERO:.*]] = dpc.constant dense<0.0
// CHECK-NEXT: %[[NLL:.*]] = dpc.binary sub %[[LSE]], %[[P]]
// CHECK-NEXT: %[[LOSS:.*]] = dpc.select %[[IGNORED]], %[[ZERO]], %[[NLL]]
// CHECK-NOT: dpc.cross_entropy %
// CHECK: %[[G:.*]] = dpc.cross_entropy_grad %[[X]], %[[L]], %[[LSE]], %[[D]]
// CHECK-NEXT: return %[[LOSS]], %[[G]]
func.func @loss(%x: tensor<6x8xf32>, %l: tensor<6xi64>, %d: tensor<6xf32>) -> (tensor<6xf32>, tensor<6x8xf32>) {
  %0, %1 = dpc.cross_entropy %x, %l ignore_index = -100 {dpc.phase = "forward", dpc.group = 7 : i64} : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
  %2 = dpc.cross_entropy_grad %x, %l, %1, %d {dpc.phase = "backward"} : (tensor<6x8xf32>, tensor<6xi64>, tensor<6xf32>, tensor<6xf32>) -> tensor<6x8xf32>
  return %0, %2 : tensor<6xf32>, tensor<6x8xf32>
}
