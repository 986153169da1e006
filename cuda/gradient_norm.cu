// gradient_norm: squared norms of all networks' gradients, piece by piece, and the sum of their slices.
//     g = sum_s g_s;  part[m, c] = sum over piece c of g^2
// paper        Pascanu, Mikolov & Bengio 2013, algorithm 1 (the norm that clips); first of two stages, because
//              one block per network would leave the device idle. accept_step adds the pieces
// launch       grid (pieces_q + 2 pieces_v, M)  block (256)  no dynamic shared memory; a block owns 2048
//              neighbouring parameters of one network: first Q, then V_high, then V_low
// compile      no defines
// in / out     gradient_q  f32 [M, slices, width_q]      slice 0 becomes the sum where slices > 1
//              gradient_v  f32 [2 M, slices, width_v]    V_high of all members, then V_low; null without IQL
//              part        f32 [M, gridDim.x]            out
//              slices, width_q, width_v  i32; widths are multiples of 64
// determinism  bitwise: slices in order, then a fixed tree
// capture      safe: no allocation, no host read
// reference    trainer/reference/gradient_clip.py   test  tests/kernels/test_gradient_norm.py
#include "reduce.cuh"

namespace {

constexpr int kThreads = 256;
constexpr int kPacks = 2;  // float4 per thread
constexpr int kPiece = kThreads * kPacks * 4;

__device__ __forceinline__ float4 add(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// The sum over the slices of a network's float4 number `pack`, written back to slice 0.
__device__ __forceinline__ float4 sum_of_slices(float4* gradient, int pack, int packs, int slices) {
  float4 total = gradient[pack];
  if (slices == 1) return total;
#pragma unroll 2
  for (int slice = 1; slice < slices; ++slice) {
    total = add(total, gradient[static_cast<long long>(slice) * packs + pack]);
  }
  gradient[pack] = total;
  return total;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    gradient_norm(float* __restrict__ gradient_q, float* __restrict__ gradient_v, float* __restrict__ part, int slices,
                  int width_q, int width_v) {
  const int pieces_q = (width_q + kPiece - 1) / kPiece;
  const int pieces_v = (width_v + kPiece - 1) / kPiece;
  const int member = blockIdx.y;
  const int members = gridDim.y;
  int piece = blockIdx.x;
  int width = width_q;
  float* gradient = gradient_q + static_cast<long long>(member) * slices * width_q;
  if (piece >= pieces_q) {
    piece -= pieces_q;
    const int network = piece / pieces_v;
    piece -= network * pieces_v;
    width = width_v;
    gradient = gradient_v + (static_cast<long long>(network) * members + member) * slices * width_v;
  }
  float square = 0.0f;
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int pack = (piece * kPacks + i) * kThreads + threadIdx.x;
    if (pack >= width / 4) break;
    const float4 g = sum_of_slices(reinterpret_cast<float4*>(gradient), pack, width / 4, slices);
    square += g.x * g.x + g.y * g.y + g.z * g.z + g.w * g.w;
  }
  const float total = foxtune::block_sum(square);
  if (threadIdx.x == 0) part[static_cast<long long>(member) * gridDim.x + blockIdx.x] = total;
}
