// priority_sums: the integer priorities of all rings, summed over groups of 128 and blocks of 1024 slots.
//     block_mass_b = sum of rint(q_i 2^32) over 1024 b <= i < 1024 (b + 1), group_mass likewise over 128
// paper        Schaul, Quan, Antonoglou, Silver 2016, Prioritized Experience Replay, appendix B.2.1; recomputed from q
//              by every step (one pass at memory speed), so that whoever writes q need not keep sums coherent
// launch       grid (N, M)  block 256  no dynamic shared; a warp owns a group, a thread 4 slots
// compile      no defines
// in / out     priority        float32 [M, C]    q, 0 where nothing is stored
//              group_mass      uint64 [M, 8 N]   N = ceil(C / 1024); groups beyond the ring are 0
//              block_mass      uint64 [M, N]
//              largest_weight  int32 [M]         set to 0, the bits of the smallest possible weight
// determinism  bitwise: integer sums, no atomics
// capture      safe: no allocation, no host read, no host value that changes between replays
// reference    trainer/reference/prioritised_sample.py   test  tests/kernels/test_priority_sums.py

#include "prefix_search.cuh"

extern "C" __global__ void __launch_bounds__(foxtune::kThreads)
priority_sums(const float* __restrict__ priority, foxtune::Mass* __restrict__ group_mass,
              foxtune::Mass* __restrict__ block_mass, int* __restrict__ largest_weight, int capacity) {
  using namespace foxtune;
  __shared__ Mass of_warps[kGroupsPerBlock];
  const int block = blockIdx.x, blocks = gridDim.x, member = blockIdx.y;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const float* own_priority = priority + static_cast<long long>(member) * capacity;
  const int first = block * kBlock + static_cast<int>(threadIdx.x) * kSlotsPerLane;
  const Mass sum = warp_sum(load_masses(own_priority, first, capacity).sum());
  if (lane == 0) {
    of_warps[warp] = sum;
    group_mass[(static_cast<long long>(member) * blocks + block) * kGroupsPerBlock + warp] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    Mass total = 0;
#pragma unroll
    for (int group = 0; group < kGroupsPerBlock; ++group) total += of_warps[group];
    block_mass[static_cast<long long>(member) * blocks + block] = total;
    if (block == 0) largest_weight[member] = 0;
  }
}
