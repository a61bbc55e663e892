// RUN: dpc-opt %s --dpc-simplify --split-input-file | FileCheck %s

// Rows that are sorted by their experts, multiplied and sorted back keep the order
// of the tokens, and the two choices of a token share its row.
// CHECK-LABEL: func @sorted_rows
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x8xf32>, %[[I:[^:]*]]: tensor<4x2xi64>, %[[U:[^:]*]]: tensor<3x16x8xf32>, %[[B:[^:]*]]: tensor<3x16xf32>, %[[D:[^:]*]]: tensor<3x8x16xf32>
// CHECK-NOT: topk
// CHECK: %[[Y:.*]] = dpc.expert_matmul %[[X]], %[[I]], %[[U]] tb : {{.*}} -> tensor<4x2x16xf32>
// CHECK: %[[R:.*]] = dpc.reshape %[[Y]]
// CHECK: %[[E:.*]] = dpc.embedding %[[B]], %[[L:.*]] :
// CHECK: %[[S:.*]] = dpc.binary add %[[R]], %[[E]]
// CHECK: %[[H:.*]] = dpc.unary silu %[[S]]
// CHECK: dpc.expert_matmul %[[H]], %[[L]], %[[D]] tb : {{.*}} -> tensor<8x8xf32>
func.func @sorted_rows(%x: tensor<4x8xf32>, %i: tensor<4x2xi64>, %u: tensor<3x16x8xf32>, %b: tensor<3x16xf32>, %d: tensor<3x8x16xf32>) -> tensor<8x8xf32> {
  %two = dpc.constant dense<2> : tensor<8xi64> -> tensor<8xi64>
  %ids = dpc.reshape %i : tensor<4x2xi64> -> tensor<8xi64>
  %sorted, %perm = dpc.topk %ids smallest : tensor<8xi64> -> tensor<8xi64>, tensor<8xi64>
  %token = dpc.binary div %perm, %two : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %rows = dpc.embedding %x, %token : (tensor<4x8xf32>, tensor<8xi64>) -> tensor<8x8xf32>
  %ut = dpc.transpose %u perm = [0, 2, 1] : tensor<3x16x8xf32> -> tensor<3x8x16xf32>
  %h = dpc.expert_matmul %rows, %sorted, %ut : (tensor<8x8xf32>, tensor<8xi64>, tensor<3x8x16xf32>) -> tensor<8x16xf32>
  %bias = dpc.embedding %b, %sorted : (tensor<3x16xf32>, tensor<8xi64>) -> tensor<8x16xf32>
  %sum = dpc.binary add %h, %bias : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %a = dpc.unary silu %sum : tensor<8x16xf32> -> tensor<8x16xf32>
  %y = dpc.expert_matmul %a, %sorted, %d tb : (tensor<8x16xf32>, tensor<8xi64>, tensor<3x8x16xf32>) -> tensor<8x8xf32>
  %back, %inverse = dpc.topk %perm smallest : tensor<8xi64> -> tensor<8xi64>, tensor<8xi64>
  %out = dpc.embedding %y, %inverse : (tensor<8x8xf32>, tensor<8xi64>) -> tensor<8x8xf32>
  return %out : tensor<8x8xf32>
}

// -----

// The gates of sorted rows are gates in token order.
// CHECK-LABEL: func @sorted_gates
// CHECK-SAME: %[[G:[^:]*]]: tensor<8xf32>
// CHECK-NEXT: %[[R:.*]] = dpc.reshape %[[G]] : tensor<8xf32> -> tensor<8x1xf32>
// CHECK-NEXT: return %[[R]]
func.func @sorted_gates(%g: tensor<8xf32>, %ids: tensor<8xi64>) -> tensor<8x1xf32> {
  %sorted, %perm = dpc.topk %ids smallest : tensor<8xi64> -> tensor<8xi64>, tensor<8xi64>
  %column = dpc.reshape %g : tensor<8xf32> -> tensor<8x1xf32>
  %gates = dpc.embedding %column, %perm : (tensor<8x1xf32>, tensor<8xi64>) -> tensor<8x1xf32>
  %back, %inverse = dpc.topk %perm smallest : tensor<8xi64> -> tensor<8xi64>, tensor<8xi64>
  %out = dpc.embedding %gates, %inverse : (tensor<8x1xf32>, tensor<8xi64>) -> tensor<8x1xf32>
  return %out : tensor<8x1xf32>
}

// -----

// A running sum over the sorted rows depends on their order.
// CHECK-LABEL: func @sums_of_sorted_rows
// CHECK: dpc.topk
// CHECK: dpc.cumsum
// CHECK: dpc.embedding
func.func @sums_of_sorted_rows(%x: tensor<8x1xf32>, %ids: tensor<8xi64>) -> tensor<8x1xf32> {
  %sorted, %perm = dpc.topk %ids smallest : tensor<8xi64> -> tensor<8xi64>, tensor<8xi64>
  %rows = dpc.embedding %x, %perm : (tensor<8x1xf32>, tensor<8xi64>) -> tensor<8x1xf32>
  %flat = dpc.reshape %rows : tensor<8x1xf32> -> tensor<8xf32>
  %sums = dpc.cumsum %flat : tensor<8xf32> -> tensor<8xf32>
  %column = dpc.reshape %sums : tensor<8xf32> -> tensor<8x1xf32>
  %back, %inverse = dpc.topk %perm smallest : tensor<8xi64> -> tensor<8xi64>, tensor<8xi64>
  %out = dpc.embedding %column, %inverse : (tensor<8x1xf32>, tensor<8xi64>) -> tensor<8x1xf32>
  return %out : tensor<8x1xf32>
}

// -----

// Values that depend on the position of a row are no rows of tokens.
// CHECK-LABEL: func @positions_of_sorted_rows
// CHECK: dpc.topk
// CHECK: dpc.iota
// CHECK: dpc.embedding
func.func @positions_of_sorted_rows(%x: tensor<8x2xi64>, %ids: tensor<8xi64>) -> tensor<8x2xi64> {
  %sorted, %perm = dpc.topk %ids smallest : tensor<8xi64> -> tensor<8xi64>, tensor<8xi64>
  %rows = dpc.embedding %x, %perm : (tensor<8x2xi64>, tensor<8xi64>) -> tensor<8x2xi64>
  %row = dpc.iota dim = 0 : tensor<8x2xi64>
  %sum = dpc.binary add %rows, %row : (tensor<8x2xi64>, tensor<8x2xi64>) -> tensor<8x2xi64>
  %back, %inverse = dpc.topk %perm smallest : tensor<8xi64> -> tensor<8xi64>, tensor<8xi64>
  %out = dpc.embedding %sum, %inverse : (tensor<8x2xi64>, tensor<8xi64>) -> tensor<8x2xi64>
  return %out : tensor<8x2xi64>
}

// -----

// Rows that are sorted back by another permutation stay as they are.
// CHECK-LABEL: func @sorted_back_by_others
// CHECK-COUNT-2: dpc.topk
// CHECK: dpc.embedding
// CHECK: dpc.topk
// CHECK: dpc.embedding
func.func @sorted_back_by_others(%x: tensor<8x2xf32>, %ids: tensor<8xi64>, %others: tensor<8xi64>) -> tensor<8x2xf32> {
  %sorted, %perm = dpc.topk %ids smallest : tensor<8xi64> -> tensor<8xi64>, tensor<8xi64>
  %sorted2, %perm2 = dpc.topk %others smallest : tensor<8xi64> -> tensor<8xi64>, tensor<8xi64>
  %rows = dpc.embedding %x, %perm : (tensor<8x2xf32>, tensor<8xi64>) -> tensor<8x2xf32>
  %back, %inverse = dpc.topk %perm2 smallest : tensor<8xi64> -> tensor<8xi64>, tensor<8xi64>
  %out = dpc.embedding %rows, %inverse : (tensor<8x2xf32>, tensor<8xi64>) -> tensor<8x2xf32>
  return %out : tensor<8x2xf32>
}

// -----

// A matrix that is looked up for each row is the matrix of the row's expert.
// CHECK-LABEL: func @looked_up_matrices
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x8xf32>, %[[I:[^:]*]]: tensor<8xi64>, %[[W:[^:]*]]: tensor<3x16x8xf32>
// CHECK: %[[P:.*]] = dpc.reshape %[[I]] : tensor<8xi64> -> tensor<4x2xi64>
// CHECK: dpc.expert_matmul %[[X]], %[[P]], %[[W]] tb : {{.*}} -> tensor<4x2x16xf32>
// CHECK-NOT: dpc.embedding
func.func @looked_up_matrices(%x: tensor<4x8xf32>, %ids: tensor<8xi64>, %w: tensor<3x16x8xf32>) -> tensor<8x16x1xf32> {
  %repeated = dpc.broadcast %x dims = [0, 2] : tensor<4x8xf32> -> tensor<4x2x8xf32>
  %columns = dpc.reshape %repeated : tensor<4x2x8xf32> -> tensor<8x8x1xf32>
  %flat = dpc.reshape %w : tensor<3x16x8xf32> -> tensor<3x128xf32>
  %rows = dpc.embedding %flat, %ids : (tensor<3x128xf32>, tensor<8xi64>) -> tensor<8x128xf32>
  %matrices = dpc.reshape %rows : tensor<8x128xf32> -> tensor<8x16x8xf32>
  %y = dpc.matmul %matrices, %columns : (tensor<8x16x8xf32>, tensor<8x8x1xf32>) -> tensor<8x16x1xf32>
  return %y : tensor<8x16x1xf32>
}

// -----

// CHECK-LABEL: func @looked_up_on_the_right
// CHECK: dpc.expert_matmul %{{.*}}, %{{.*}}, %{{.*}} : (tensor<8x4xf32>, tensor<8xi64>, tensor<3x4x6xf32>) -> tensor<8x6xf32>
func.func @looked_up_on_the_right(%x: tensor<8x1x4xf32>, %ids: tensor<8xi64>, %w: tensor<3x4x6xf32>) -> tensor<8x1x6xf32> {
  %flat = dpc.reshape %w : tensor<3x4x6xf32> -> tensor<3x24xf32>
  %rows = dpc.embedding %flat, %ids : (tensor<3x24xf32>, tensor<8xi64>) -> tensor<8x24xf32>
  %matrices = dpc.reshape %rows : tensor<8x24xf32> -> tensor<8x4x6xf32>
  %y = dpc.matmul %x, %matrices : (tensor<8x1x4xf32>, tensor<8x4x6xf32>) -> tensor<8x1x6xf32>
  return %y : tensor<8x1x6xf32>
}

// -----

// Several rows for one matrix are a batch of GEMMs.
// CHECK-LABEL: func @several_rows_for_a_matrix
// CHECK: dpc.embedding
// CHECK: dpc.matmul
func.func @several_rows_for_a_matrix(%x: tensor<8x2x4xf32>, %ids: tensor<8xi64>, %w: tensor<3x4x6xf32>) -> tensor<8x2x6xf32> {
  %flat = dpc.reshape %w : tensor<3x4x6xf32> -> tensor<3x24xf32>
  %rows = dpc.embedding %flat, %ids : (tensor<3x24xf32>, tensor<8xi64>) -> tensor<8x24xf32>
  %matrices = dpc.reshape %rows : tensor<8x24xf32> -> tensor<8x4x6xf32>
  %y = dpc.matmul %x, %matrices : (tensor<8x2x4xf32>, tensor<8x4x6xf32>) -> tensor<8x2x6xf32>
  return %y : tensor<8x2x6xf32>
}

// -----

// The rows of a table are in the order of the table, although there are as many.
// CHECK-LABEL: func @rows_of_a_table
// CHECK: %[[T:.*]] = dpc.embedding_grad
// CHECK: dpc.embedding %[[T]]
func.func @rows_of_a_table(%ids: tensor<8xi64>, %others: tensor<5xi64>, %dy: tensor<5x2xf32>) -> tensor<8x2xf32> {
  %sorted, %perm = dpc.topk %ids smallest : tensor<8xi64> -> tensor<8xi64>, tensor<8xi64>
  %table = dpc.embedding_grad %others, %dy : (tensor<5xi64>, tensor<5x2xf32>) -> tensor<8x2xf32>
  %back, %inverse = dpc.topk %perm smallest : tensor<8xi64> -> tensor<8xi64>, tensor<8xi64>
  %out = dpc.embedding %table, %inverse : (tensor<8x2xf32>, tensor<8xi64>) -> tensor<8x2xf32>
  return %out : tensor<8x2xf32>
}

// -----

// Rows that also repeat a column are no copies of rows.
// CHECK-LABEL: func @repeated_columns
// CHECK: dpc.expert_matmul %{{.*}} : (tensor<8x6xf32>, tensor<8xi64>, tensor<3x6x5xf32>)
func.func @repeated_columns(%x: tensor<4x1xf32>, %ids: tensor<8xi64>, %w: tensor<3x6x5xf32>) -> tensor<8x5xf32> {
  %r = dpc.broadcast %x dims = [0, 2] : tensor<4x1xf32> -> tensor<4x2x6xf32>
  %rows = dpc.reshape %r : tensor<4x2x6xf32> -> tensor<8x6xf32>
  %y = dpc.expert_matmul %rows, %ids, %w : (tensor<8x6xf32>, tensor<8xi64>, tensor<3x6x5xf32>) -> tensor<8x5xf32>
  return %y : tensor<8x5xf32>
}

// -----

// Products of integers stay products of matrices.
// CHECK-LABEL: func @looked_up_integers
// CHECK: dpc.matmul
func.func @looked_up_integers(%x: tensor<8x1x4xi32>, %ids: tensor<8xi64>, %w: tensor<3x24xi32>) -> tensor<8x1x6xi32> {
  %rows = dpc.embedding %w, %ids : (tensor<3x24xi32>, tensor<8xi64>) -> tensor<8x24xi32>
  %matrices = dpc.reshape %rows : tensor<8x24xi32> -> tensor<8x4x6xi32>
  %y = dpc.matmul %x, %matrices : (tensor<8x1x4xi32>, tensor<8x4x6xi32>) -> tensor<8x1x6xi32>
  return %y : tensor<8x1x6xi32>
}
