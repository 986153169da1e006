// reduce: sums and maxima over the threads of a warp or a block, always in the same order.
//     warp: butterfly over lane distances 16, 8, 4, 2, 1; block: the warps' sums by the first warp
// paper        none; a fixed tree instead of atomics, because floating-point addition is not associative
// launch       device functions; block_sum needs all threads of a block of 32 to 1024 threads, a multiple of 32
// compile      no defines
// in / out     value   T     one number per thread
//              result  T     warp_*: in every lane; block_sum: in thread 0 alone
// determinism  bitwise: the tree depends on the block size alone
// capture      safe: no allocation, no host read
// reference    none   test  tests/kernels/test_gradient_norm.py
#pragma once

namespace foxtune {

constexpr unsigned int kAllLanes = 0xffffffffu;

template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

// NaN is passed over: a caller that must keep it has to carry it in another way.
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

template <typename T>
__device__ __forceinline__ T block_sum(T value) {
  __shared__ T of_warp[32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int warps = blockDim.x / 32;
  value = warp_sum(value);
  __syncthreads();  // the last call's sums have been read
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  return warp == 0 ? warp_sum(lane < warps ? of_warp[lane] : T(0)) : T(0);
}

}  // namespace foxtune
