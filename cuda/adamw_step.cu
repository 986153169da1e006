// adamw_step: clipping, AdamW, target network and bfloat16 copies of one network kind in one flat pass.
//     w -= lr decay w (weights only);  m, v = moments of g clip;  w -= rate m / (sqrt(v) root_scale + eps);
//     target += polyak (w - target)
// paper        Loshchilov & Hutter 2019, algorithm 2; Polyak & Juditsky 1992; one pass, because the optimiser
//              is bound by memory and every other form reads the parameters again
// launch       grid (ceil(width / 4 / 256), rows)  block (256)  no dynamic shared memory; one thread per float4
// compile      BF16_COPIES  0 | 1, keep bfloat16 copies of parameters and target
// in / out     parameter  f32  [rows, width]   in and out; rows = networks x M, network-major
//              gradient   f32  [rows, slices, width]  slice 0 is the whole gradient
//              first, second  f32 [rows, width]  moments, in and out
//              target     f32  [followed, width]  the first `followed` rows have a slow copy; may be null
//              copy, target_copy  bf16, like parameter and target; not touched without BF16_COPIES
//              decays     u8   [width / 4]     1: these four parameters are weights; 0: biases or padding
//              scalars    f32  [rows, 12]      StepScalars of each row
//              slices, followed, width  i32; width is a multiple of 64
// determinism  bitwise: elementwise
// capture      safe: no allocation; every scalar that changes between replays is read from `scalars`
// reference    trainer/reference/adamw.py, polyak.py   test  tests/kernels/test_adamw_step.py
#include "activation.cuh"
#include "step_scalars.cuh"

namespace {

struct Adam {
  foxtune::StepScalars by;
  float keep;

  // Steps one parameter and its moments.
  __device__ __forceinline__ void operator()(float& w, float& first, float& second, float gradient) const {
    const float g = gradient * by.clip;
    first = first * by.beta1 + g * by.one_minus_beta1;
    second = second * by.beta2 + g * g * by.one_minus_beta2;
    const float denominator = sqrtf(second) * by.root_scale + by.eps;
    w = w * keep - first / denominator * by.rate;
  }
};

__device__ __forceinline__ float follow(float target, float online, float polyak) {
  return target + polyak * (online - target);
}

__device__ __forceinline__ uint2 bf16_words(float4 x) {
  return make_uint2(foxtune::bf16_word(x.x, x.y), foxtune::bf16_word(x.z, x.w));
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256)
    adamw_step(float4* __restrict__ parameter, const float4* __restrict__ gradient, float4* __restrict__ first,
               float4* __restrict__ second, float4* __restrict__ target, uint2* __restrict__ copy,
               uint2* __restrict__ target_copy, const unsigned char* __restrict__ decays,
               const foxtune::StepScalars* __restrict__ scalars, int slices, int followed, int width) {
  const int packs = width / 4;
  const int pack = blockIdx.x * 256 + threadIdx.x;
  const int row = blockIdx.y;
  if (pack >= packs) return;
  const foxtune::StepScalars by = scalars[row];
  if (by.accept == 0.0f) return;
  const long long place = static_cast<long long>(row) * packs + pack;
  const float4 g = gradient[static_cast<long long>(row) * slices * packs + pack];
  const Adam step{by, decays[pack] ? by.keep : 1.0f};
  float4 w = parameter[place];
  float4 m = first[place];
  float4 v = second[place];
  step(w.x, m.x, v.x, g.x);
  step(w.y, m.y, v.y, g.y);
  step(w.z, m.z, v.z, g.z);
  step(w.w, m.w, v.w, g.w);
  parameter[place] = w;
  first[place] = m;
  second[place] = v;
#if BF16_COPIES
  copy[place] = bf16_words(w);
#endif
  if (row >= followed) return;
  float4 slow = target[place];
  slow = make_float4(follow(slow.x, w.x, by.polyak), follow(slow.y, w.y, by.polyak), follow(slow.z, w.z, by.polyak),
                     follow(slow.w, w.w, by.polyak));
  target[place] = slow;
#if BF16_COPIES
  target_copy[place] = bf16_words(slow);
#endif
}
