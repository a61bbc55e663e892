// The verifiers reject row, transformer and optimizer ops that violate a constraint.
//
// RUN: dpc-opt %s --split-input-file --verify-diagnostics

func.func @softmax_of_a_scalar(%x: tensor<f32>) {
  // expected-error @below {{'dpc.softmax' op (C1) operand has rank 0, expected at least 1}}
  %0 = dpc.softmax %x : tensor<f32> -> tensor<f32>
  return
}

// -----

func.func @softmax_keeps_the_shape(%x: tensor<4xf32>) {
  // expected-error @below {{'dpc.softmax' op (C1) result has shape 5, expected 4}}
  %0 = dpc.softmax %x : tensor<4xf32> -> tensor<5xf32>
  return
}

// -----

func.func @softmax_grad_of_unlike_shapes(%y: tensor<4xf32>, %dy: tensor<5xf32>) {
  // expected-error @below {{'dpc.softmax_grad' op (C1) dy has shape 5, expected 4}}
  %0 = dpc.softmax_grad %y, %dy : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @topk_values_of_another_type(%x: tensor<8x16xf32>) {
  // expected-error @below {{'dpc.topk' op (C1) values has element type 'f64', expected 'f32'}}
  %0:2 = dpc.topk %x : tensor<8x16xf32> -> tensor<8x2xf64>, tensor<8x2xi64>
  return
}

// -----

func.func @topk_float_indices(%x: tensor<8x16xf32>) {
  // expected-error @below {{'dpc.topk' op (C1) indices have element type 'f32', expected i64}}
  %0:2 = dpc.topk %x : tensor<8x16xf32> -> tensor<8x2xf32>, tensor<8x2xf32>
  return
}

// -----

func.func @topk_of_too_few(%x: tensor<8x16xf32>) {
  // expected-error @below {{'dpc.topk' op (C2) cannot pick 17 of 16 elements}}
  %0:2 = dpc.topk %x : tensor<8x16xf32> -> tensor<8x17xf32>, tensor<8x17xi64>
  return
}

// -----

func.func @topk_of_other_rows(%x: tensor<8x16xf32>) {
  // expected-error @below {{'dpc.topk' op (C2) indices has shape 7x2, expected 8x2}}
  %0:2 = dpc.topk %x : tensor<8x16xf32> -> tensor<8x2xf32>, tensor<7x2xi64>
  return
}

// -----

func.func @cumsum_keeps_the_shape(%x: tensor<8x16xf32>) {
  // expected-error @below {{'dpc.cumsum' op (C1) result has shape 8x15, expected 8x16}}
  %0 = dpc.cumsum %x : tensor<8x16xf32> -> tensor<8x15xf32>
  return
}

// -----

func.func @norm_of_integers(%x: tensor<8x64xi32>) {
  // expected-error @below {{'dpc.norm' op (C1) x has element type 'i32', expected a float}}
  %0:3 = dpc.norm layer %x eps = 1.0e-5 : (tensor<8x64xi32>) -> (tensor<8x64xi32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @norm_scales_columns(%x: tensor<8x64xf32>, %w: tensor<8xf32>) {
  // expected-error @below {{'dpc.norm' op (C1) scale has shape 8, expected 64}}
  %0:3 = dpc.norm layer %x scale %w eps = 1.0e-5 : (tensor<8x64xf32>, tensor<8xf32>) -> (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @norm_keeps_the_shape(%x: tensor<8x64xf32>, %w: tensor<64xf32>) {
  // expected-error @below {{'dpc.norm' op (C1) y has shape 64x8, expected 8x64}}
  %0:3 = dpc.norm layer %x scale %w eps = 1.0e-5 : (tensor<8x64xf32>, tensor<64xf32>) -> (tensor<64x8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @norm_has_statistics_per_row(%x: tensor<8x64xf32>, %w: tensor<64xf32>) {
  // expected-error @below {{'dpc.norm' op (C2) mean has shape 8x1, expected 8}}
  %0:3 = dpc.norm layer %x scale %w eps = 1.0e-5 : (tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8x1xf32>, tensor<8xf32>)
  return
}

// -----

func.func @norm_has_exact_statistics(%x: tensor<8x64xf32>, %w: tensor<64xf32>) {
  // expected-error @below {{'dpc.norm' op (C2) rstd has element type 'bf16', expected 'f32'}}
  %0:3 = dpc.norm layer %x scale %w eps = 1.0e-5 : (tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>, tensor<8xbf16>)
  return
}

// -----

func.func @rms_norm_has_no_bias(%x: tensor<8x64xf32>, %w: tensor<64xf32>, %b: tensor<64xf32>) {
  // expected-error @below {{'dpc.norm' op (C3) rms takes no bias}}
  %0:3 = dpc.norm rms %x scale %w bias %b eps = 1.0e-5 : (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @norm_grad_has_the_shape_of_x(%x: tensor<8x64xf32>, %m: tensor<8xf32>, %r: tensor<8xf32>, %dy: tensor<8x64xf32>, %w: tensor<64xf32>) {
  // expected-error @below {{'dpc.norm_grad' op (C1) dx has shape 8, expected 8x64}}
  %0:3 = dpc.norm_grad layer %x, %m, %r, %dy scale %w : (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8xf32>, tensor<64xf32>, tensor<64xf32>)
  return
}

// -----

func.func @norm_grad_sums_rows(%x: tensor<8x64xf32>, %m: tensor<8xf32>, %r: tensor<8xf32>, %dy: tensor<8x64xf32>, %w: tensor<64xf32>) {
  // expected-error @below {{'dpc.norm_grad' op (C1) dscale has shape 8x64, expected 64}}
  %0:3 = dpc.norm_grad layer %x, %m, %r, %dy scale %w : (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>, tensor<64xf32>)
  return
}

// -----

func.func @norm_grad_reads_statistics_per_row(%x: tensor<8x64xf32>, %m: tensor<8xf32>, %r: tensor<64xf32>, %dy: tensor<8x64xf32>, %w: tensor<64xf32>) {
  // expected-error @below {{'dpc.norm_grad' op (C2) rstd has shape 64, expected 8}}
  %0:3 = dpc.norm_grad layer %x, %m, %r, %dy scale %w : (tensor<8x64xf32>, tensor<8xf32>, tensor<64xf32>, tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>)
  return
}

// -----

func.func @attention_without_heads(%q: tensor<8x4x32x16xf32>, %k: tensor<8x32x16xf32>, %v: tensor<8x2x32x16xf32>) {
  // expected-error @below {{'dpc.attention' op (C1) k has rank 3, expected 4}}
  %0:2 = dpc.attention %q, %k, %v scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x32x16xf32>, tensor<8x2x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  return
}

// -----

func.func @attention_with_few_sinks(%q: tensor<8x4x32x16xf32>, %k: tensor<8x2x32x16xf32>, %s: tensor<2xf32>) {
  // expected-error @below {{'dpc.attention' op (C4) sinks has shape 2, expected 4}}
  %0:2 = dpc.attention %q, %k, %k sinks %s scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>, tensor<2xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  return
}

// -----

func.func @attention_with_an_empty_window(%q: tensor<8x4x32x16xf32>, %k: tensor<8x2x32x16xf32>) {
  // expected-error @below {{'dpc.attention' op (C5) the window is 0}}
  %0:2 = dpc.attention %q, %k, %k scale = 0.25 causal window = 0 : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  return
}

// -----

func.func @attention_of_unlike_batches(%q: tensor<8x4x32x16xf32>, %k: tensor<7x2x32x16xf32>, %v: tensor<8x2x32x16xf32>) {
  // expected-error @below {{'dpc.attention' op (C1) batch sizes differ: 8, 7 and 8}}
  %0:2 = dpc.attention %q, %k, %v scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<7x2x32x16xf32>, tensor<8x2x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  return
}

// -----

func.func @attention_of_unlike_key_and_value_heads(%q: tensor<8x4x32x16xf32>, %k: tensor<8x2x32x16xf32>, %v: tensor<8x4x32x16xf32>) {
  // expected-error @below {{'dpc.attention' op (C1) k and v have 2 and 4 heads}}
  %0:2 = dpc.attention %q, %k, %v scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x4x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  return
}

// -----

func.func @attention_groups_heads(%q: tensor<8x4x32x16xf32>, %k: tensor<8x3x32x16xf32>, %v: tensor<8x3x32x16xf32>) {
  // expected-error @below {{'dpc.attention' op (C1) 4 query heads are no multiple of 3 key heads}}
  %0:2 = dpc.attention %q, %k, %v scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x3x32x16xf32>, tensor<8x3x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  return
}

// -----

func.func @attention_of_unlike_head_sizes(%q: tensor<8x4x32x16xf32>, %k: tensor<8x2x32x8xf32>, %v: tensor<8x2x32x16xf32>) {
  // expected-error @below {{'dpc.attention' op (C2) head sizes of q and k differ: 16 and 8}}
  %0:2 = dpc.attention %q, %k, %v scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x8xf32>, tensor<8x2x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  return
}

// -----

func.func @attention_of_unlike_lengths(%q: tensor<8x4x32x16xf32>, %k: tensor<8x2x32x16xf32>, %v: tensor<8x2x31x16xf32>) {
  // expected-error @below {{'dpc.attention' op (C2) lengths of k and v differ: 32 and 31}}
  %0:2 = dpc.attention %q, %k, %v scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x31x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  return
}

// -----

func.func @attention_has_the_heads_of_q(%q: tensor<8x4x32x16xf32>, %k: tensor<8x2x32x16xf32>, %v: tensor<8x2x32x16xf32>) {
  // expected-error @below {{'dpc.attention' op (C2) out has shape 8x2x32x16, expected 8x4x32x16}}
  %0:2 = dpc.attention %q, %k, %v scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>) -> (tensor<8x2x32x16xf32>, tensor<8x4x32xf32>)
  return
}

// -----

func.func @attention_keeps_a_statistic_per_row(%q: tensor<8x4x32x16xf32>, %k: tensor<8x2x32x16xf32>, %v: tensor<8x2x32x16xf32>) {
  // expected-error @below {{'dpc.attention' op (C2) lse has shape 8x4, expected 8x4x32}}
  %0:2 = dpc.attention %q, %k, %v scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4xf32>)
  return
}

// -----

func.func @attention_mask_of_rank_two(%q: tensor<8x4x32x16xf32>, %k: tensor<8x2x32x16xf32>, %v: tensor<8x2x32x16xf32>, %m: tensor<32x32xf32>) {
  // expected-error @below {{'dpc.attention' op (C3) mask has rank 2, expected 4}}
  %0:2 = dpc.attention %q, %k, %v mask %m scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>, tensor<32x32xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  return
}

// -----

func.func @attention_mask_is_whole_in_columns(%q: tensor<8x4x32x16xf32>, %k: tensor<8x2x32x16xf32>, %v: tensor<8x2x32x16xf32>, %m: tensor<8x1x1x1xf32>) {
  // expected-error @below {{'dpc.attention' op (C3) mask dimension 3 has size 1, expected 32}}
  %0:2 = dpc.attention %q, %k, %v mask %m scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x1x1x1xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  return
}

// -----

func.func @attention_mask_repeats_only_units(%q: tensor<8x4x32x16xf32>, %k: tensor<8x2x32x16xf32>, %v: tensor<8x2x32x16xf32>, %m: tensor<8x2x32x32xf32>) {
  // expected-error @below {{'dpc.attention' op (C3) mask dimension 1 has size 2, expected 1 or 4}}
  %0:2 = dpc.attention %q, %k, %v mask %m scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x32xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  return
}

// -----

func.func @attention_grad_reads_dout_like_out(%q: tensor<8x4x32x16xf32>, %k: tensor<8x2x32x16xf32>, %v: tensor<8x2x32x16xf32>, %o: tensor<8x4x32x16xf32>, %l: tensor<8x4x32xf32>, %do: tensor<8x2x32x16xf32>) {
  // expected-error @below {{'dpc.attention_grad' op (C1) dout has shape 8x2x32x16, expected 8x4x32x16}}
  %0:3 = dpc.attention_grad %q, %k, %v, %o, %l, %do scale = 0.25 : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x4x32x16xf32>, tensor<8x4x32xf32>, tensor<8x2x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>)
  return
}

// -----

func.func @attention_grad_sums_over_groups(%q: tensor<8x4x32x16xf32>, %k: tensor<8x2x32x16xf32>, %v: tensor<8x2x32x16xf32>, %o: tensor<8x4x32x16xf32>, %l: tensor<8x4x32xf32>, %do: tensor<8x4x32x16xf32>) {
  // expected-error @below {{'dpc.attention_grad' op (C2) dk has shape 8x4x32x16, expected 8x2x32x16}}
  %0:3 = dpc.attention_grad %q, %k, %v, %o, %l, %do scale = 0.25 : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x4x32x16xf32>, tensor<8x4x32xf32>, tensor<8x4x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>)
  return
}

// -----

func.func @rope_of_odd_size(%x: tensor<4x32x15xf32>, %c: tensor<32x15xf32>, %s: tensor<32x15xf32>) {
  // expected-error @below {{'dpc.rope' op (C1) the last dimension is odd: 15}}
  %0 = dpc.rope %x, %c, %s : (tensor<4x32x15xf32>, tensor<32x15xf32>, tensor<32x15xf32>) -> tensor<4x32x15xf32>
  return
}

// -----

func.func @rope_keeps_the_shape(%x: tensor<4x32x16xf32>, %c: tensor<32x16xf32>, %s: tensor<32x16xf32>) {
  // expected-error @below {{'dpc.rope' op (C1) result has shape 32x16, expected 4x32x16}}
  %0 = dpc.rope %x, %c, %s : (tensor<4x32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  return
}

// -----

func.func @rope_by_half_a_table(%x: tensor<4x32x16xf32>, %c: tensor<32x8xf32>, %s: tensor<32x16xf32>) {
  // expected-error @below {{'dpc.rope' op (C2) cos has shape 32x8, expected 32x16}}
  %0 = dpc.rope %x, %c, %s : (tensor<4x32x16xf32>, tensor<32x8xf32>, tensor<32x16xf32>) -> tensor<4x32x16xf32>
  return
}

// -----

func.func @embedding_of_a_flat_table(%t: tensor<512xf32>, %i: tensor<8x32xi64>) {
  // expected-error @below {{'dpc.embedding' op (C1) table has rank 1, expected 2}}
  %0 = dpc.embedding %t, %i : (tensor<512xf32>, tensor<8x32xi64>) -> tensor<8x32x64xf32>
  return
}

// -----

func.func @embedding_by_floats(%t: tensor<512x64xf32>, %i: tensor<8x32xf32>) {
  // expected-error @below {{'dpc.embedding' op (C1) ids has element type 'f32', expected an integer}}
  %0 = dpc.embedding %t, %i : (tensor<512x64xf32>, tensor<8x32xf32>) -> tensor<8x32x64xf32>
  return
}

// -----

func.func @embedding_appends_columns(%t: tensor<512x64xf32>, %i: tensor<8x32xi64>) {
  // expected-error @below {{'dpc.embedding' op (C2) result has shape 8x64, expected 8x32x64}}
  %0 = dpc.embedding %t, %i : (tensor<512x64xf32>, tensor<8x32xi64>) -> tensor<8x64xf32>
  return
}

// -----

func.func @expert_matmul_by_floats(%x: tensor<32x64xf32>, %i: tensor<32xf32>, %w: tensor<8x64x16xf32>) {
  // expected-error @below {{'dpc.expert_matmul' op (C1) ids has element type 'f32', expected an integer}}
  %0 = dpc.expert_matmul %x, %i, %w : (tensor<32x64xf32>, tensor<32xf32>, tensor<8x64x16xf32>) -> tensor<32x16xf32>
  return
}

// -----

func.func @expert_matmul_of_other_rows(%x: tensor<31x64xf32>, %i: tensor<32x2xi64>, %w: tensor<8x64x16xf32>) {
  // expected-error @below {{'dpc.expert_matmul' op (C1) x has shape 31x64, expected [32x2] or its first dimensions, and columns}}
  %0 = dpc.expert_matmul %x, %i, %w : (tensor<31x64xf32>, tensor<32x2xi64>, tensor<8x64x16xf32>) -> tensor<32x2x16xf32>
  return
}

// -----

func.func @expert_matmul_with_one_matrix(%x: tensor<32x64xf32>, %i: tensor<32xi64>, %w: tensor<64x16xf32>) {
  // expected-error @below {{'dpc.expert_matmul' op (C2) w has rank 2, expected 3}}
  %0 = dpc.expert_matmul %x, %i, %w : (tensor<32x64xf32>, tensor<32xi64>, tensor<64x16xf32>) -> tensor<32x16xf32>
  return
}

// -----

func.func @expert_matmul_contracts(%x: tensor<32x64xf32>, %i: tensor<32xi64>, %w: tensor<8x64x16xf32>) {
  // expected-error @below {{'dpc.expert_matmul' op (C2) contracted dimensions differ: 64 and 16}}
  %0 = dpc.expert_matmul %x, %i, %w tb : (tensor<32x64xf32>, tensor<32xi64>, tensor<8x64x16xf32>) -> tensor<32x64xf32>
  return
}

// -----

func.func @expert_matmul_keeps_types(%x: tensor<32x64xf32>, %i: tensor<32xi64>, %w: tensor<8x64x16xbf16>) {
  // expected-error @below {{'dpc.expert_matmul' op (C3) w has element type 'bf16', expected 'f32'}}
  %0 = dpc.expert_matmul %x, %i, %w : (tensor<32x64xf32>, tensor<32xi64>, tensor<8x64x16xbf16>) -> tensor<32x16xf32>
  return
}

// -----

func.func @expert_matmul_grad_by_floats(%x: tensor<32x64xf32>, %i: tensor<32xf32>, %y: tensor<32x16xf32>) {
  // expected-error @below {{'dpc.expert_matmul_grad' op (C1) ids has element type 'f32', expected an integer}}
  %0 = dpc.expert_matmul_grad %x, %i, %y : (tensor<32x64xf32>, tensor<32xf32>, tensor<32x16xf32>) -> tensor<8x64x16xf32>
  return
}

// -----

func.func @expert_matmul_grad_of_one_type(%x: tensor<32x64xf32>, %i: tensor<32xi64>, %y: tensor<32x16xbf16>) {
  // expected-error @below {{'dpc.expert_matmul_grad' op (C1) b has element type 'bf16', expected 'f32'}}
  %0 = dpc.expert_matmul_grad %x, %i, %y : (tensor<32x64xf32>, tensor<32xi64>, tensor<32x16xbf16>) -> tensor<8x64x16xf32>
  return
}

// -----

func.func @expert_matmul_grad_gives_matrices(%x: tensor<32x64xf32>, %i: tensor<32xi64>, %y: tensor<32x16xf32>) {
  // expected-error @below {{'dpc.expert_matmul_grad' op (C2) result has shape 8x16x64, expected 8x64x16}}
  %0 = dpc.expert_matmul_grad %x, %i, %y : (tensor<32x64xf32>, tensor<32xi64>, tensor<32x16xf32>) -> tensor<8x16x64xf32>
  return
}

// -----

func.func @embedding_grad_by_floats(%i: tensor<8x32xf32>, %dy: tensor<8x32x64xf32>) {
  // expected-error @below {{'dpc.embedding_grad' op (C1) ids has element type 'f32', expected an integer}}
  %0 = dpc.embedding_grad %i, %dy : (tensor<8x32xf32>, tensor<8x32x64xf32>) -> tensor<512x64xf32>
  return
}

// -----

func.func @embedding_grad_of_unlike_rows(%i: tensor<8x32xi64>, %dy: tensor<8x31x64xf32>) {
  // expected-error @below {{'dpc.embedding_grad' op (C1) dy has shape 8x31x64, expected 8x32x64}}
  %0 = dpc.embedding_grad %i, %dy : (tensor<8x32xi64>, tensor<8x31x64xf32>) -> tensor<512x64xf32>
  return
}

// -----

func.func @embedding_grad_keeps_columns(%i: tensor<8x32xi64>, %dy: tensor<8x32x64xf32>) {
  // expected-error @below {{'dpc.embedding_grad' op (C2) result has shape 512x32, expected 512x64}}
  %0 = dpc.embedding_grad %i, %dy : (tensor<8x32xi64>, tensor<8x32x64xf32>) -> tensor<512x32xf32>
  return
}

// -----

func.func @cross_entropy_of_three_dimensions(%x: tensor<8x32x512xf32>, %l: tensor<256xi64>) {
  // expected-error @below {{'dpc.cross_entropy' op (C1) logits has rank 3, expected 2}}
  %0:2 = dpc.cross_entropy %x, %l ignore_index = -100 : (tensor<8x32x512xf32>, tensor<256xi64>) -> (tensor<256xf32>, tensor<256xf32>)
  return
}

// -----

func.func @cross_entropy_of_float_labels(%x: tensor<256x512xf32>, %l: tensor<256xf32>) {
  // expected-error @below {{'dpc.cross_entropy' op (C1) labels has element type 'f32', expected an integer}}
  %0:2 = dpc.cross_entropy %x, %l ignore_index = -100 : (tensor<256x512xf32>, tensor<256xf32>) -> (tensor<256xf32>, tensor<256xf32>)
  return
}

// -----

func.func @cross_entropy_of_too_few_labels(%x: tensor<256x512xf32>, %l: tensor<255xi64>) {
  // expected-error @below {{'dpc.cross_entropy' op (C1) labels has shape 255, expected 256}}
  %0:2 = dpc.cross_entropy %x, %l ignore_index = -100 : (tensor<256x512xf32>, tensor<255xi64>) -> (tensor<256xf32>, tensor<256xf32>)
  return
}

// -----

func.func @cross_entropy_is_per_row(%x: tensor<256x512xf32>, %l: tensor<256xi64>) {
  // expected-error @below {{'dpc.cross_entropy' op (C2) loss has shape scalar, expected 256}}
  %0:2 = dpc.cross_entropy %x, %l ignore_index = -100 : (tensor<256x512xf32>, tensor<256xi64>) -> (tensor<f32>, tensor<256xf32>)
  return
}

// -----

func.func @cross_entropy_is_exact(%x: tensor<256x512xbf16>, %l: tensor<256xi64>) {
  // expected-error @below {{'dpc.cross_entropy' op (C2) lse has element type 'bf16', expected 'f32'}}
  %0:2 = dpc.cross_entropy %x, %l ignore_index = -100 : (tensor<256x512xbf16>, tensor<256xi64>) -> (tensor<256xf32>, tensor<256xbf16>)
  return
}

// -----

func.func @cross_entropy_sums_per_row(%x: tensor<256x512xf32>, %m: tensor<512xf32>, %l: tensor<256xi64>) {
  // expected-error @below {{'dpc.cross_entropy_sums' op (C1) rowmax has shape 512, expected 256}}
  %0:2 = dpc.cross_entropy_sums %x, %m, %l : (tensor<256x512xf32>, tensor<512xf32>, tensor<256xi64>) -> (tensor<256xf32>, tensor<256xf32>)
  return
}

// -----

func.func @cross_entropy_grad_of_every_logit(%x: tensor<256x512xf32>, %l: tensor<256xi64>, %s: tensor<256xf32>, %d: tensor<256xf32>) {
  // expected-error @below {{'dpc.cross_entropy_grad' op (C1) result has shape 256, expected 256x512}}
  %0 = dpc.cross_entropy_grad %x, %l, %s, %d : (tensor<256x512xf32>, tensor<256xi64>, tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
  return
}

// -----

func.func @global_norm_of_integers(%g: tensor<64xi32>) {
  // expected-error @below {{'dpc.global_norm' op (C1) operand 0 has element type 'i32', expected a float}}
  %0 = dpc.global_norm %g : (tensor<64xi32>) -> tensor<f32>
  return
}

// -----

func.func @global_norm_is_a_scalar(%g: tensor<64xf32>) {
  // expected-error @below {{'dpc.global_norm' op (C1) result has rank 1, expected 0}}
  %0 = dpc.global_norm %g : (tensor<64xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @global_norm_of_nothing() {
  // expected-error @below {{'dpc.global_norm' op (C1) no operands}}
  %0 = "dpc.global_norm"() : () -> tensor<f32>
  return
}

// -----

func.func @adamw_by_another_gradient(%p: tensor<64xf32>, %m: tensor<64xf32>, %v: tensor<64xf32>, %g: tensor<32xf32>, %s: tensor<f32>, %lr: tensor<f32>, %t: tensor<f32>) {
  // expected-error @below {{'dpc.adamw' op (C1) gradient has shape 32, expected 64}}
  %0:3 = dpc.adamw %p, %m, %v, %g, %s, %lr, %t beta1 = 0.9 beta2 = 0.95 eps = 1.0e-8 weight_decay = 0.1 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<32xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
  return
}

// -----

func.func @adamw_of_another_moment(%p: tensor<64xf32>, %m: tensor<8x8xf32>, %v: tensor<64xf32>, %g: tensor<64xf32>, %s: tensor<f32>, %lr: tensor<f32>, %t: tensor<f32>) {
  // expected-error @below {{'dpc.adamw' op (C1) operand 1 has shape 8x8, expected 64}}
  %0:3 = dpc.adamw %p, %m, %v, %g, %s, %lr, %t beta1 = 0.9 beta2 = 0.95 eps = 1.0e-8 weight_decay = 0.1 : (tensor<64xf32>, tensor<8x8xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<8x8xf32>, tensor<64xf32>)
  return
}

// -----

func.func @adamw_at_one_rate(%p: tensor<64xf32>, %m: tensor<64xf32>, %v: tensor<64xf32>, %g: tensor<64xf32>, %s: tensor<f32>, %lr: tensor<64xf32>, %t: tensor<f32>) {
  // expected-error @below {{'dpc.adamw' op (C1) lr has rank 1, expected 0}}
  %0:3 = dpc.adamw %p, %m, %v, %g, %s, %lr, %t beta1 = 0.9 beta2 = 0.95 eps = 1.0e-8 weight_decay = 0.1 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<64xf32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
  return
}

// -----

func.func @adamw_keeps_the_parameter(%p: tensor<64xf32>, %m: tensor<64xf32>, %v: tensor<64xf32>, %g: tensor<64xf32>, %s: tensor<f32>, %lr: tensor<f32>, %t: tensor<f32>) {
  // expected-error @below {{'dpc.adamw' op (C1) result 0 has element type 'bf16', expected 'f32'}}
  %0:3 = dpc.adamw %p, %m, %v, %g, %s, %lr, %t beta1 = 0.9 beta2 = 0.95 eps = 1.0e-8 weight_decay = 0.1 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xbf16>, tensor<64xf32>, tensor<64xf32>)
  return
}

// -----

func.func @sgd_by_one_scale(%p: tensor<64xf32>, %b: tensor<64xf32>, %g: tensor<64xf32>, %s: tensor<1xf32>, %lr: tensor<f32>, %t: tensor<f32>) {
  // expected-error @below {{'dpc.sgd' op (C1) scale has rank 1, expected 0}}
  %0:2 = dpc.sgd %p, %b, %g, %s, %lr, %t momentum = 0.9 weight_decay = 0.0 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<1xf32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>)
  return
}

// -----

func.func @adamw_if_a_number(%p: tensor<64xf32>, %m: tensor<64xf32>, %v: tensor<64xf32>, %g: tensor<64xf32>, %s: tensor<f32>) {
  // expected-error @below {{'dpc.adamw' op (C2) the operand of 'if' is of type 'tensor<f32>', expected a scalar of i1}}
  %0:3 = dpc.adamw %p, %m, %v, %g, %s, %s, %s if %s beta1 = 0.9 beta2 = 0.95 eps = 1.0e-8 weight_decay = 0.1 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
  return
}

// -----

func.func @sgd_if_many(%p: tensor<64xf32>, %g: tensor<64xf32>, %s: tensor<f32>, %good: tensor<64xi1>) {
  // expected-error @below {{'dpc.sgd' op (C2) the operand of 'if' is of type 'tensor<64xi1>', expected a scalar of i1}}
  %0:2 = dpc.sgd %p, %p, %g, %s, %s, %s if %good momentum = 0.9 weight_decay = 0.0 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<64xi1>) -> (tensor<64xf32>, tensor<64xf32>)
  return
}
