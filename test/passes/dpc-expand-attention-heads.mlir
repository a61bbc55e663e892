// RUN: not dpc-opt %s --split-input-file --dpc-expand-attention="keep=cudnn require=true capability=70" 2>&1 | FileCheck %s --check-prefix=VOLTA
// RUN: not dpc-opt %s --split-input-file --dpc-expand-attention="keep=cudnn require=true" 2>&1 | FileCheck %s --check-prefix=AMPERE
// RUN: not dpc-opt %s --split-input-file --dpc-expand-attention="keep=cudnn require=true capability=90" 2>&1 | FileCheck %s --check-prefix=HOPPER
// RUN: not dpc-opt %s --split-input-file --dpc-expand-attention="keep=cudnn require=true capability=103" 2>&1 | FileCheck %s --check-prefix=BLACKWELL

// The sizes of heads that cuDNN takes depend on the GPU. These are those of
// multi-head latent attention, then heads of 256 and of 264 elements.

// VOLTA-COUNT-3: attention cannot be fused: cuDNN needs GPUs of compute capability 8.0 or later
// AMPERE: queries and keys have head_dim 192, cuDNN takes multiples of 8 up to 128;
// AMPERE: queries and keys have head_dim 256, cuDNN takes multiples of 8 up to 128;
// AMPERE: queries and keys have head_dim 264, cuDNN takes multiples of 8 up to 128;
// HOPPER-NOT: head_dim 192
// HOPPER-NOT: head_dim 256
// HOPPER: queries and keys have head_dim 264, cuDNN takes multiples of 8 up to 256;
// BLACKWELL-NOT: head_dim 192
// BLACKWELL: queries and keys have head_dim 256, cuDNN takes multiples of 8 up to 128, and 192 with values of 128;
// BLACKWELL: queries and keys have head_dim 264, cuDNN takes multiples of 8 up to 128, and 192 with values of 128;
func.func @step(%q: tensor<1x2x6x192xbf16>, %v: tensor<1x2x6x128xbf16>) -> tensor<1x2x6x128xbf16> attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %o, %lse = dpc.attention %q, %q, %v scale = 0.5 causal {dpc.phase = "forward"} : (tensor<1x2x6x192xbf16>, tensor<1x2x6x192xbf16>, tensor<1x2x6x128xbf16>) -> (tensor<1x2x6x128xbf16>, tensor<1x2x6xf32>)
  return %o : tensor<1x2x6x128xbf16>
}

// -----

func.func @step(%q: tensor<1x2x6x256xbf16>) -> tensor<1x2x6x256xbf16> attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %o, %lse = dpc.attention %q, %q, %q scale = 0.5 causal {dpc.phase = "forward"} : (tensor<1x2x6x256xbf16>, tensor<1x2x6x256xbf16>, tensor<1x2x6x256xbf16>) -> (tensor<1x2x6x256xbf16>, tensor<1x2x6xf32>)
  return %o : tensor<1x2x6x256xbf16>
}

// -----

func.func @step(%q: tensor<1x2x6x264xbf16>) -> tensor<1x2x6x264xbf16> attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %o, %lse = dpc.attention %q, %q, %q scale = 0.5 causal {dpc.phase = "forward"} : (tensor<1x2x6x264xbf16>, tensor<1x2x6x264xbf16>, tensor<1x2x6x264xbf16>) -> (tensor<1x2x6x264xbf16>, tensor<1x2x6xf32>)
  return %o : tensor<1x2x6x264xbf16>
}
