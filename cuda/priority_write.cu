// priority_write: new priorities from temporal-difference errors; among rows of one slot the largest value wins.
//     q_i = max over rows r >= her_size with index(r) = i of (min(|delta_r|, 255) + 1e-6)^alpha;
//     largest = max(largest, |delta_r|)
// paper        Schaul, Quan, Antonoglou, Silver 2016, Prioritized Experience Replay, section 3.3; first all written slots
//              are cleared, then raised by a maximum over the bits, so that the order of rows is of no consequence
// launch       block 32 to 1024, a multiple of 32. grid (1, M): a block owns a member, clears, meets, raises; for large
//              B, grid (ceil(B / block), M) twice, which clears in the first launch and raises in the second
// compile      no defines
// in / out     priority       float32 [M, C]  in and out
//              largest_error  float32 [M]     in and out, running maximum of raw |delta|
//              index          int32 [M, B]    slots
//              td_error       float32 [M, B]  delta; a member with a non-finite one writes nothing
//              her_size       int32 [M]       rows r < her_size are relabelled and write nothing
//              accept         int32 [M]       0: the member was refused and writes nothing
//              per_alpha      float32 [M]
//              capacity, batch_size, phases  int32  C, B, 1 clear | 2 raise | 3 both, which needs grid (1, M)
// determinism  bitwise: the atomics are maxima
// capture      safe: no allocation, no host read; everything but shapes comes from device memory
// reference    trainer/reference/priority_write.py   test  tests/kernels/test_priority_write.py

#include "priority.cuh"

namespace foxtune {

constexpr int kClear = 1;
constexpr int kRaise = 2;
constexpr float kLargestFloat = 3.402823466e38f;  // |x| above it: infinite; NaN compares false as well

struct MemberRows {
  const int* index;       // [B]
  const float* td_error;  // [B]
  float* priority;        // [C]
  float* largest_error;   // one
  float alpha;
  int first_real;  // rows before it are relabelled
  int batch_size;
};

// True for all threads of a block where the member may write: it was accepted and all its errors are finite.
__device__ __forceinline__ bool may_write(const MemberRows& rows, int accept) {
  bool finite = true;
  if (accept != 0) {
    for (int row = threadIdx.x; row < rows.batch_size; row += blockDim.x) {
      finite = finite && fabsf(rows.td_error[row]) <= kLargestFloat;
    }
  }
  return __syncthreads_and(finite && accept != 0) != 0;
}

__device__ __forceinline__ void clear_row(const MemberRows& rows, int row) {
  if (row >= rows.first_real) rows.priority[rows.index[row]] = 0.0f;
}

// Raises the slot of a row and returns its |delta|; 0 for a row that writes nothing. Positive floats order like bits.
__device__ __forceinline__ float raise_row(const MemberRows& rows, int row) {
  if (row < rows.first_real) return 0.0f;
  const float error = rows.td_error[row];
  const float priority = priority_of(error, rows.alpha);
  atomicMax(reinterpret_cast<int*>(rows.priority + rows.index[row]), __float_as_int(priority));
  return fabsf(error);
}

// Raises the running maximum to the largest of a whole warp.
__device__ __forceinline__ void raise_largest_error(const MemberRows& rows, float error) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    error = fmaxf(error, __shfl_xor_sync(0xFFFFFFFFu, error, distance));
  }
  if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<int*>(rows.largest_error), __float_as_int(error));
}

}  // namespace foxtune

extern "C" __global__ void __launch_bounds__(1024, 1)
priority_write(float* priority, float* largest_error, const int* __restrict__ index,
               const float* __restrict__ td_error, const int* __restrict__ her_size, const int* __restrict__ accept,
               const float* __restrict__ per_alpha, int capacity, int batch_size, int phases) {
  using namespace foxtune;
  const int member = blockIdx.y;
  const long long member_first = static_cast<long long>(member) * batch_size;
  MemberRows rows;
  rows.index = index + member_first;
  rows.td_error = td_error + member_first;
  rows.priority = priority + static_cast<long long>(member) * capacity;
  rows.largest_error = largest_error + member;
  rows.alpha = per_alpha[member];
  rows.first_real = her_size[member];
  rows.batch_size = batch_size;
  if (!may_write(rows, accept[member])) return;
  const int first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
  if ((phases & kClear) != 0) {
    for (int row = first; row < batch_size; row += stride) clear_row(rows, row);
    __syncthreads();
  }
  if ((phases & kRaise) != 0) {
    float largest = 0.0f;
    for (int row = first; row < batch_size; row += stride) largest = fmaxf(largest, raise_row(rows, row));
    raise_largest_error(rows, largest);
  }
}
