// importance_weight: the correction for drawing by priority, before its division by the batch's maximum.
//     w = (n P)^-beta,  P = integer mass / integer total,  beta = 1 - (1 - beta_0) (last - step) / last
// paper        Schaul, Quan, Antonoglou, Silver 2016, Prioritized Experience Replay, section 3.4; in doubles, cast once
// launch       device functions; a thread owns a row. raise_largest: whole warps
// compile      no defines
// in / out     mass, total  uint64  integer priority of the row's slot, and of the whole ring
//              largest      int32   bits of the largest raw weight; positive floats order like their bits
// determinism  bitwise: the maximum does not depend on order
// capture      safe: no allocation, no host read; the step comes from device memory
// reference    trainer/reference/importance_weight.py   test  tests/kernels/test_sample_indices.py
#pragma once

#include "prefix_search.cuh"

namespace foxtune {

constexpr float kWeighsOne = -1.0f;  // marks a row of weight exactly 1, whatever the maximum

// beta at `step`: 1 at the last of `total_updates` steps.
__device__ __forceinline__ double annealed_beta(long long step, float per_beta, float total_updates) {
  const double last = __dadd_rn(static_cast<double>(total_updates), -1.0);
  const double ratio = __ddiv_rn(__dadd_rn(last, -static_cast<double>(step)), fmax(last, 1.0));
  const double remaining = fmin(fmax(ratio, 0.0), 1.0);
  const double rise = __dadd_rn(1.0, -static_cast<double>(per_beta));
  return __dadd_rn(1.0, -__dmul_rn(rise, remaining));
}

__device__ __forceinline__ float importance_weight(Mass mass, Mass total, long long count, double beta) {
  const double scale = __ddiv_rn(static_cast<double>(count), __ull2double_rn(total));
  return static_cast<float>(exp(__dmul_rn(-beta, log(__dmul_rn(__ull2double_rn(mass), scale)))));
}

// Raises `largest` to the largest weight of a whole warp; lanes without a row pass 0.
__device__ __forceinline__ void raise_largest(int* largest, float weight) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    weight = fmaxf(weight, __shfl_xor_sync(kWholeWarp, weight, distance));
  }
  if (threadIdx.x % kWarp == 0) atomicMax(largest, __float_as_int(weight));
}

}  // namespace foxtune
