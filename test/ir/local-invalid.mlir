// The verifiers reject ops of the local altitude that violate a documented constraint.
//
// RUN: dpc-opt %s --split-input-file --verify-diagnostics

func.func @all_reduce_keeps_the_type(%x: tensor<64xf32>) {
  // expected-error @below {{'dpc.all_reduce' op (C1) result 0 has type 'tensor<32xf32>', expected 'tensor<64xf32>'}}
  %0 = dpc.all_reduce sum %x axes = ["tp"] : (tensor<64xf32>) -> tensor<32xf32>
  return
}

// -----

func.func @all_reduce_of_two_types(%a: tensor<64xf32>, %b: tensor<64xf64>) {
  // expected-error @below {{'dpc.all_reduce' op (C1) operand 1 has element type 'f64', expected 'f32'}}
  %0:2 = dpc.all_reduce sum %a, %b axes = ["tp"] : (tensor<64xf32>, tensor<64xf64>) -> (tensor<64xf32>, tensor<64xf64>)
  return
}

// -----

func.func @all_reduce_over_no_axis(%x: tensor<64xf32>) {
  // expected-error @below {{'dpc.all_reduce' op (C2) no axes}}
  %0 = dpc.all_reduce sum %x axes = [] : (tensor<64xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @all_gather_stacks(%x: tensor<8x16xf32>) {
  // expected-error @below {{'dpc.all_gather' op (C1) result has type 'tensor<4x16x8xf32>', expected 'tensor<4x8x16xf32>'}}
  %0 = dpc.all_gather %x axes = ["tp"] : tensor<8x16xf32> -> tensor<4x16x8xf32>
  return
}

// -----

func.func @all_gather_adds_a_dimension(%x: tensor<8x16xf32>) {
  // expected-error @below {{'dpc.all_gather' op (C1) result has rank 2, expected 3}}
  %0 = dpc.all_gather %x axes = ["tp"] : tensor<8x16xf32> -> tensor<32x16xf32>
  return
}

// -----

func.func @all_gather_twice_over_one_axis(%x: tensor<8x16xf32>) {
  // expected-error @below {{'dpc.all_gather' op (C2) axis "tp" is repeated}}
  %0 = dpc.all_gather %x axes = ["tp", "tp"] : tensor<8x16xf32> -> tensor<16x8x16xf32>
  return
}

// -----

func.func @reduce_scatter_takes_a_stack(%x: tensor<32x16xf32>) {
  // expected-error @below {{'dpc.reduce_scatter' op (C1) operand has rank 2, expected 3}}
  %0 = dpc.reduce_scatter sum %x axes = ["tp"] : tensor<32x16xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @reduce_scatter_over_no_axis(%x: tensor<4x8x16xf32>) {
  // expected-error @below {{'dpc.reduce_scatter' op (C2) no axes}}
  %0 = dpc.reduce_scatter sum %x axes = [] : tensor<4x8x16xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @all_to_all_keeps_the_type(%x: tensor<4x8xf32>) {
  // expected-error @below {{'dpc.all_to_all' op (C1) result has type 'tensor<8x4xf32>', expected 'tensor<4x8xf32>'}}
  %0 = dpc.all_to_all %x axes = ["tp"] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @all_to_all_of_a_scalar(%x: tensor<f32>) {
  // expected-error @below {{'dpc.all_to_all' op (C1) operand has rank 0, expected at least 1}}
  %0 = dpc.all_to_all %x axes = ["tp"] : tensor<f32> -> tensor<f32>
  return
}

// -----

func.func @all_to_all_over_no_axis(%x: tensor<4x8xf32>) {
  // expected-error @below {{'dpc.all_to_all' op (C2) no axes}}
  %0 = dpc.all_to_all %x axes = [] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @ring_shift_keeps_the_type(%x: tensor<4x8xf32>) {
  // expected-error @below {{'dpc.ring_shift' op (C1) result has type 'tensor<8x4xf32>', expected 'tensor<4x8xf32>'}}
  %0 = dpc.ring_shift %x axes = ["cp"] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @ring_shift_over_no_axis(%x: tensor<4x8xf32>) {
  // expected-error @below {{'dpc.ring_shift' op (C2) no axes}}
  %0 = dpc.ring_shift %x axes = [] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @rank_slice_takes_a_stack(%x: tensor<4x8x16xf32>) {
  // expected-error @below {{'dpc.rank_slice' op (C1) operand has type 'tensor<4x8x16xf32>', expected 'tensor<4x8x16xf64>'}}
  %0 = dpc.rank_slice %x axes = ["tp"] : tensor<4x8x16xf32> -> tensor<8x16xf64>
  return
}

// -----

func.func @rank_slice_over_no_axis(%x: tensor<4x8x16xf32>) {
  // expected-error @below {{'dpc.rank_slice' op (C2) no axes}}
  %0 = dpc.rank_slice %x axes = [] : tensor<4x8x16xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @mask_of_a_whole_tensor(%x: tensor<2x8xf32>) {
  // expected-error @below {{'dpc.mask' op (C1) global is no sharded tensor type: 'tensor<7x8xf32>'}}
  %0 = dpc.mask %x value = 0.0 global = tensor<7x8xf32> : tensor<2x8xf32> -> tensor<2x8xf32>
  return
}

// -----

func.func @mask_of_another_shard(%x: tensor<1x8xf32>) {
  // expected-error @below {{'dpc.mask' op (C1) operand has type 'tensor<1x8xf32>', expected 'tensor<2x8xf32>'}}
  %0 = dpc.mask %x value = 0.0 global = tensor<7x8xf32, #dpc.sharding<#dpc.mesh<dp=4>, [{dp}, {}]>> : tensor<1x8xf32> -> tensor<1x8xf32>
  return
}

// -----

func.func @accumulate_keeps_the_type(%x: tensor<64xf32>) {
  // expected-error @below {{'dpc.accumulate' op (C1) result has type 'tensor<f32>', expected 'tensor<64xf32>'}}
  %0 = dpc.accumulate sum %x : tensor<64xf32> -> tensor<f32>
  return
}

// -----

func.func @sum_squares_is_a_scalar(%x: tensor<64xf32>) {
  // expected-error @below {{'dpc.sum_squares' op (C1) result has rank 1, expected 0}}
  %0 = dpc.sum_squares %x : (tensor<64xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @attention_probs_keep_a_statistic_per_row(%s: tensor<8x4x32x32xf32>) {
  // expected-error @below {{'dpc.attention_probs' op (C1) lse has type 'tensor<8x4xf32>', expected 'tensor<8x4x32xf32>'}}
  %0:2 = dpc.attention_probs %s scale = 0.25 : (tensor<8x4x32x32xf32>) -> (tensor<8x4x32x32xf32>, tensor<8x4xf32>)
  return
}

// -----

func.func @attention_probs_of_another_mask(%s: tensor<8x4x32x32xf32>, %m: tensor<1x1x32x16xf32>) {
  // expected-error @below {{'dpc.attention_probs' op (C2) mask dimension 3 has size 16, expected 32}}
  %0:2 = dpc.attention_probs %s mask %m scale = 0.25 : (tensor<8x4x32x32xf32>, tensor<1x1x32x16xf32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32xf32>)
  return
}

// -----

func.func @attention_scores_grad_of_another_delta(%s: tensor<8x4x32x32xf32>, %l: tensor<8x4x32xf32>, %dp: tensor<8x4x32x32xf32>, %d: tensor<8x4xf32>) {
  // expected-error @below {{'dpc.attention_scores_grad' op (C1) delta has type 'tensor<8x4xf32>', expected 'tensor<8x4x32xf32>'}}
  %0:2 = dpc.attention_scores_grad %s, %l, %dp, %d scale = 0.25 : (tensor<8x4x32x32xf32>, tensor<8x4x32xf32>, tensor<8x4x32x32xf32>, tensor<8x4xf32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32x32xf32>)
  return
}

// -----

func.func @kernel_reads_its_operands(%x: tensor<4xf32>) {
  // expected-error @below {{'dpc.kernel' op (C1) block argument 0 has type 'tensor<8xf32>', expected 'tensor<4xf32>'}}
  %0 = dpc.kernel %x : (tensor<4xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    dpc.yield %a : tensor<8xf32>
  }
  return
}

// -----

func.func @kernel_lacks_an_argument(%x: tensor<4xf32>) {
  // expected-error @below {{'dpc.kernel' op (C1) 0 block arguments for 1 operands}}
  %0 = dpc.kernel %x : (tensor<4xf32>) -> tensor<4xf32> {
    %a = dpc.constant dense<0.0> : tensor<4xf32> -> tensor<4xf32>
    dpc.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @kernel_yields_its_results(%x: tensor<4xf32>) {
  // expected-error @below {{'dpc.kernel' op (C2) 1 yielded values for 2 results}}
  %0:2 = dpc.kernel %x : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    dpc.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @kernel_without_end(%x: tensor<4xf32>) {
  // expected-error @below {{'dpc.kernel' op (C2) the body does not end in dpc.yield}}
  %0 = dpc.kernel %x : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %b = dpc.unary exp %a : tensor<4xf32> -> tensor<4xf32>
  }
  return
}

// -----

func.func @send_to_a_negative_stage(%x: tensor<4xf32>) {
  // expected-error @below {{'dpc.send' op (C1) to is -1, expected 0 or more}}
  dpc.send %x to = -1 tag = 0 : tensor<4xf32>
  return
}

// -----

func.func @recv_with_a_negative_tag() {
  // expected-error @below {{'dpc.recv' op (C1) tag is -2, expected 0 or more}}
  %0 = dpc.recv from = 1 tag = -2 : tensor<4xf32>
  return
}

// -----

func.func @stage_value_of_nothing() {
  // expected-error @below {{'dpc.stage_value' op (C1) no operands}}
  %0 = "dpc.stage_value"() : () -> tensor<f32>
  return
}

// -----

func.func @fetch_reads_an_argument(%x: tensor<8xf32>) {
  %0 = dpc.unary exp %x : tensor<8xf32> -> tensor<8xf32>
  // expected-error @below {{'dpc.fetch' op (C1) operand is no argument of the function}}
  %1 = dpc.fetch %0 : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @fetch_keeps_the_type(%x: tensor<8xf32>) {
  // expected-error @below {{'dpc.fetch' op (C2) result has type 'tensor<4xf32>', expected 'tensor<8xf32>'}}
  %0 = dpc.fetch %x : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @store_replaces_an_argument(%x: tensor<8xf32>) {
  %0 = dpc.unary exp %x : tensor<8xf32> -> tensor<8xf32>
  // expected-error @below {{'dpc.store' op (C1) target is no argument of the function}}
  %1 = dpc.store %x into %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @store_keeps_the_type(%x: tensor<8xf32>, %y: tensor<4xf32>) {
  // expected-error @below {{'dpc.store' op (C2) target has type 'tensor<8xf32>', expected 'tensor<4xf32>'}}
  %0 = dpc.store %y into %x : (tensor<4xf32>, tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @tiles_of_unlike_ids(%ids: tensor<32xi64>, %x: tensor<16x16xf32>, %w: tensor<4x16x16xf32>) {
  // expected-error @below {{'dpc.expert_tiles' op (C1) argument 0 has element type 'i32', expected 'i64'}}
  %0 = dpc.expert_tiles %ids, %x, %w in = [2, 0] out = [2] global = tensor<8x16x16xf32, #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>> : (tensor<32xi64>, tensor<16x16xf32>, tensor<4x16x16xf32>) -> tensor<16x16xf32> {
  ^bb0(%i: tensor<4xi32>, %r: tensor<4x16xf32>, %m: tensor<4x16x16xf32>):
    dpc.yield %r : tensor<4x16xf32>
  }
  return
}

// -----

func.func @tiles_exchanged_along_another_axis(%ids: tensor<32xi64>, %x: tensor<16x16xf32>) {
  // expected-error @below {{'dpc.expert_tiles' op (C5) rows are exchanged along ["dp"], but ["ep"] split experts}}
  %0 = dpc.expert_tiles %ids, %x in = [2] out = [2] global = tensor<8x16x16xf32, #dpc.sharding<#dpc.mesh<dp=2, ep=2>, [{ep}, {}, {}]>> exchange = ["dp"] : (tensor<32xi64>, tensor<16x16xf32>) -> tensor<16x16xf32> {
  ^bb0(%i: tensor<4xi64>, %r: tensor<4x16xf32>):
    dpc.yield %r : tensor<4x16xf32>
  }
  return
}

// -----

func.func @tiles_smaller_than_the_group(%ids: tensor<32xi64>, %x: tensor<16x16xf32>) {
  // expected-error @below {{'dpc.expert_tiles' op (C5) a tile has 4 rows for 8 ranks}}
  %0 = dpc.expert_tiles %ids, %x in = [2] out = [2] global = tensor<8x16x16xf32, #dpc.sharding<#dpc.mesh<ep=8>, [{ep}, {}, {}]>> exchange = ["ep"] : (tensor<32xi64>, tensor<16x16xf32>) -> tensor<16x16xf32> {
  ^bb0(%i: tensor<4xi64>, %r: tensor<4x16xf32>):
    dpc.yield %r : tensor<4x16xf32>
  }
  return
}

// -----

func.func @tiles_of_no_rows(%ids: tensor<32xi64>, %x: tensor<16x16xf32>, %w: tensor<4x16x16xf32>) {
  // expected-error @below {{'dpc.expert_tiles' op (C1) a tile has no rows}}
  %0 = dpc.expert_tiles %ids, %x, %w in = [2, 0] out = [2] global = tensor<8x16x16xf32, #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>> : (tensor<32xi64>, tensor<16x16xf32>, tensor<4x16x16xf32>) -> tensor<16x16xf32> {
  ^bb0(%i: tensor<0xi64>, %r: tensor<4x16xf32>, %m: tensor<4x16x16xf32>):
    dpc.yield %r : tensor<4x16xf32>
  }
  return
}

// -----

func.func @tiles_with_too_few_shares(%ids: tensor<32xi64>, %x: tensor<16x16xf32>, %w: tensor<4x16x16xf32>) {
  // expected-error @below {{'dpc.expert_tiles' op (C2) 'in' has 1 numbers for 2 operands}}
  %0 = dpc.expert_tiles %ids, %x, %w in = [2] out = [2] global = tensor<8x16x16xf32, #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>> : (tensor<32xi64>, tensor<16x16xf32>, tensor<4x16x16xf32>) -> tensor<16x16xf32> {
  ^bb0(%i: tensor<4xi64>, %r: tensor<4x16xf32>, %m: tensor<4x16x16xf32>):
    dpc.yield %r : tensor<4x16xf32>
  }
  return
}

// -----

func.func @tiles_with_odd_shares(%ids: tensor<32xi64>, %x: tensor<16x16xf32>, %w: tensor<4x16x16xf32>) {
  // expected-error @below {{'dpc.expert_tiles' op (C2) argument 1 is shared by 3, expected a divisor of the 32 rows}}
  %0 = dpc.expert_tiles %ids, %x, %w in = [3, 0] out = [2] global = tensor<8x16x16xf32, #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>> : (tensor<32xi64>, tensor<16x16xf32>, tensor<4x16x16xf32>) -> tensor<16x16xf32> {
  ^bb0(%i: tensor<4xi64>, %r: tensor<4x16xf32>, %m: tensor<4x16x16xf32>):
    dpc.yield %r : tensor<4x16xf32>
  }
  return
}

// -----

func.func @tiles_of_other_rows(%ids: tensor<32xi64>, %x: tensor<16x16xf32>, %w: tensor<4x16x16xf32>) {
  // expected-error @below {{'dpc.expert_tiles' op (C2) argument 1 stands for 16 rows that are shared by 4 of 32 rows}}
  %0 = dpc.expert_tiles %ids, %x, %w in = [4, 0] out = [2] global = tensor<8x16x16xf32, #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>> : (tensor<32xi64>, tensor<16x16xf32>, tensor<4x16x16xf32>) -> tensor<16x16xf32> {
  ^bb0(%i: tensor<4xi64>, %r: tensor<4x16xf32>, %m: tensor<4x16x16xf32>):
    dpc.yield %r : tensor<4x16xf32>
  }
  return
}

// -----

func.func @tiles_of_other_columns(%ids: tensor<32xi64>, %x: tensor<16x16xf32>, %w: tensor<4x16x16xf32>) {
  // expected-error @below {{'dpc.expert_tiles' op (C2) argument 1 has shape 4x8, expected 4x16}}
  %0 = dpc.expert_tiles %ids, %x, %w in = [2, 0] out = [2] global = tensor<8x16x16xf32, #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>> : (tensor<32xi64>, tensor<16x16xf32>, tensor<4x16x16xf32>) -> tensor<16x16xf32> {
  ^bb0(%i: tensor<4xi64>, %r: tensor<4x8xf32>, %m: tensor<4x16x16xf32>):
    dpc.yield %r : tensor<4x8xf32>
  }
  return
}

// -----

func.func @tiles_of_whole_rows(%ids: tensor<32xi64>, %x: tensor<16x16xf32>, %w: tensor<4x16x16xf32>) {
  // expected-error @below {{'dpc.expert_tiles' op (C2) argument 1 has shape 4x16, expected 16x16}}
  %0 = dpc.expert_tiles %ids, %x, %w in = [0, 0] out = [2] global = tensor<8x16x16xf32, #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>> : (tensor<32xi64>, tensor<16x16xf32>, tensor<4x16x16xf32>) -> tensor<16x16xf32> {
  ^bb0(%i: tensor<4xi64>, %r: tensor<4x16xf32>, %m: tensor<4x16x16xf32>):
    dpc.yield %r : tensor<4x16xf32>
  }
  return
}

// -----

func.func @tiles_with_too_many_sums(%ids: tensor<32xi64>, %x: tensor<16x16xf32>, %w: tensor<4x16x16xf32>) {
  // expected-error @below {{'dpc.expert_tiles' op (C3) 'out' has 2 numbers for 1 results}}
  %0 = dpc.expert_tiles %ids, %x, %w in = [2, 0] out = [2, 0] global = tensor<8x16x16xf32, #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>> : (tensor<32xi64>, tensor<16x16xf32>, tensor<4x16x16xf32>) -> tensor<16x16xf32> {
  ^bb0(%i: tensor<4xi64>, %r: tensor<4x16xf32>, %m: tensor<4x16x16xf32>):
    dpc.yield %r : tensor<4x16xf32>
  }
  return
}

// -----

func.func @tiles_of_other_sums(%ids: tensor<32xi64>, %x: tensor<16x16xf32>, %w: tensor<4x16x16xf32>) {
  // expected-error @below {{'dpc.expert_tiles' op (C3) yielded value 0 stands for 8 rows that are shared by 2 of 32 rows}}
  %0 = dpc.expert_tiles %ids, %x, %w in = [2, 0] out = [2] global = tensor<8x16x16xf32, #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>> : (tensor<32xi64>, tensor<16x16xf32>, tensor<4x16x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%i: tensor<4xi64>, %r: tensor<4x16xf32>, %m: tensor<4x16x16xf32>):
    dpc.yield %r : tensor<4x16xf32>
  }
  return
}

// -----

func.func @tiles_of_another_type(%ids: tensor<32xi64>, %x: tensor<16x16xf32>, %w: tensor<4x16x16xf32>) {
  // expected-error @below {{'dpc.expert_tiles' op (C3) result 0 has element type 'f64', expected 'f32'}}
  %0 = dpc.expert_tiles %ids, %x, %w in = [2, 0] out = [2] global = tensor<8x16x16xf32, #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>> : (tensor<32xi64>, tensor<16x16xf32>, tensor<4x16x16xf32>) -> tensor<16x16xf64> {
  ^bb0(%i: tensor<4xi64>, %r: tensor<4x16xf32>, %m: tensor<4x16x16xf32>):
    dpc.yield %r : tensor<4x16xf32>
  }
  return
}

// -----

func.func @tiles_of_experts_that_are_not_split(%ids: tensor<32xi64>, %x: tensor<16x16xf32>, %w: tensor<4x16x16xf32>) {
  // expected-error @below {{'dpc.expert_tiles' op (C4) global is 'tensor<8x16x16xf32>', expected a sharded type}}
  %0 = dpc.expert_tiles %ids, %x, %w in = [2, 0] out = [2] global = tensor<8x16x16xf32> : (tensor<32xi64>, tensor<16x16xf32>, tensor<4x16x16xf32>) -> tensor<16x16xf32> {
  ^bb0(%i: tensor<4xi64>, %r: tensor<4x16xf32>, %m: tensor<4x16x16xf32>):
    dpc.yield %r : tensor<4x16xf32>
  }
  return
}
