// prefix_search: exact prefix sums of integer priorities in three levels, and the search for a slot in them.
//     mass_i = rint(q_i 2^32);  index(position) = min { i : mass_0 + .. + mass_i > position }
// paper        Schaul, Quan, Antonoglou, Silver 2016, Prioritized Experience Replay, appendix B.2.1; a sum tree of
//              three levels, rebuilt by every step's scan instead of being updated: integers add exactly, so that
//              no order of threads can change a sum, and a slot of mass 0 is never found
// launch       device functions. scan_blocks: a whole thread block of kThreads; find_slot: a whole warp
// compile      no defines
// in / out     priority    float32 [C]            q of one member's ring, 0 where nothing is stored
//              group_mass  uint64 [8 N]           sums over groups of 128 slots
//              block_mass  uint64 [N]             sums over blocks of 1024 slots, N = ceil(C / 1024) <= 2048
//              prefix      uint64 shared [N]      inclusive prefix sums of block_mass
// determinism  bitwise: integer sums below 2^62
// capture      safe: no allocation, no host read
// reference    trainer/reference/prioritised_sample.py   test  tests/kernels/test_sample_indices.py
#pragma once

namespace foxtune {

using Mass = unsigned long long;

constexpr int kWarp = 32;
constexpr unsigned int kWholeWarp = 0xFFFFFFFFu;
constexpr int kThreads = 256;            // threads of every block that scans or sums
constexpr int kSlotsPerLane = 4;         // one 16-byte load of priorities
constexpr int kGroup = kWarp * kSlotsPerLane;
constexpr int kGroupsPerBlock = kThreads / kWarp;
constexpr int kBlock = kGroup * kGroupsPerBlock;  // 1024 slots

// rint(q 2^32): scaling by a power of two is exact in float32, so one rounding remains, to nearest even.
__device__ __forceinline__ Mass mass_of(float priority) {
  return __float2ull_rn(__fmul_rn(priority, 4294967296.0f));
}

struct SlotMasses {
  Mass value[kSlotsPerLane];

  __device__ __forceinline__ Mass sum() const { return (value[0] + value[1]) + (value[2] + value[3]); }
};

// Masses of slots first .. first + 3; slots beyond the ring have none. A ring whose capacity is a multiple of 4
// keeps every member's slots aligned for 16-byte loads.
__device__ __forceinline__ SlotMasses load_masses(const float* priority, int first, int capacity) {
  SlotMasses masses;
  if ((capacity & (kSlotsPerLane - 1)) == 0) {
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (first < capacity) quad = *reinterpret_cast<const float4*>(priority + first);
    masses.value[0] = mass_of(quad.x);
    masses.value[1] = mass_of(quad.y);
    masses.value[2] = mass_of(quad.z);
    masses.value[3] = mass_of(quad.w);
  } else {
#pragma unroll
    for (int item = 0; item < kSlotsPerLane; ++item) {
      masses.value[item] = first + item < capacity ? mass_of(priority[first + item]) : 0ull;
    }
  }
  return masses;
}

__device__ __forceinline__ Mass warp_sum(Mass value) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  }
  return value;
}

__device__ __forceinline__ Mass warp_inclusive_sum(Mass value, int lane) {
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const Mass left = __shfl_up_sync(kWholeWarp, value, distance);
    if (lane >= distance) value += left;
  }
  return value;
}

// Writes the inclusive prefix sums of a member's block masses and returns their total. Every thread owns a run of
// neighbouring blocks; the caller need not synchronise before reading `prefix`.
__device__ __forceinline__ Mass scan_blocks(const Mass* block_mass, int blocks, Mass* prefix) {
  __shared__ Mass warp_totals[kThreads / kWarp];
  const int thread = threadIdx.x, lane = thread % kWarp, warp = thread / kWarp;
  const int run = (blocks + kThreads - 1) / kThreads;
  const int first = min(thread * run, blocks), last = min(first + run, blocks);
  Mass own = 0;
  for (int block = first; block < last; ++block) own += block_mass[block];
  const Mass inclusive = warp_inclusive_sum(own, lane);
  if (lane == kWarp - 1) warp_totals[warp] = inclusive;
  __syncthreads();
  Mass before = inclusive - own;
  for (int other = 0; other < warp; ++other) before += warp_totals[other];
  for (int block = first; block < last; ++block) {
    before += block_mass[block];
    prefix[block] = before;
  }
  __syncthreads();
  return prefix[blocks - 1];
}

struct FoundSlot {
  int index;
  Mass mass;
};

// The first lane of the warp whose inclusive sum exceeds `rest`; `otherwise` where there is none.
__device__ __forceinline__ int first_above(Mass inclusive, Mass rest, int otherwise) {
  const unsigned int above = __ballot_sync(kWholeWarp, inclusive > rest);
  return above == 0u ? otherwise : __ffs(above) - 1;
}

// Finds the smallest slot whose prefix sum exceeds `position`, the last slot where nothing has mass. Called by all
// lanes of a warp with the same arguments; all get the answer.
__device__ __forceinline__ FoundSlot find_slot(Mass position, const Mass* prefix, int blocks, const Mass* group_mass,
                                               const float* priority, int capacity) {
  const int lane = threadIdx.x % kWarp;
  int block = 0, above = blocks - 1;
  while (block < above) {
    const int middle = (block + above) / 2;
    if (prefix[middle] > position) {
      above = middle;
    } else {
      block = middle + 1;
    }
  }
  Mass rest = block > 0 ? position - prefix[block - 1] : position;
  const Mass of_group = lane < kGroupsPerBlock ? group_mass[block * kGroupsPerBlock + lane] : 0ull;
  const Mass groups = warp_inclusive_sum(of_group, lane);
  const int group = first_above(groups, rest, kGroupsPerBlock - 1);
  rest -= __shfl_sync(kWholeWarp, groups - of_group, group);

  const int first = (block * kGroupsPerBlock + group) * kGroup + lane * kSlotsPerLane;
  const SlotMasses masses = load_masses(priority, first, capacity);
  const Mass of_lane = masses.sum();
  const Mass lanes = warp_inclusive_sum(of_lane, lane);
  const int owner = first_above(lanes, rest, kWarp - 1);
  Mass running = lanes - of_lane;
  int item = kSlotsPerLane - 1;
  Mass mass = masses.value[kSlotsPerLane - 1];
  bool found = false;
#pragma unroll
  for (int candidate = 0; candidate < kSlotsPerLane; ++candidate) {
    running += masses.value[candidate];
    if (!found && running > rest) {
      found = true;
      item = candidate;
      mass = masses.value[candidate];
    }
  }
  FoundSlot slot;
  slot.index = min(__shfl_sync(kWholeWarp, first + item, owner), capacity - 1);
  slot.mass = __shfl_sync(kWholeWarp, mass, owner);
  return slot;
}

}  // namespace foxtune
