// prioritised_sample: one draw per stratum of the priorities' sum, for a run of rows of one member.
//     j = (a r + b) mod B;  index(r) = the smallest slot whose prefix sum exceeds trunc((j + u_r)(T / B))
// paper        Schaul, Quan, Antonoglou, Silver 2016, Prioritized Experience Replay, appendix B.2.1; the draw in IEEE
//              doubles without contraction, the sums in integers, so that every machine draws the same slots
// launch       device functions, called by a whole thread block of kThreads; a warp searches a row
// compile      no defines
// in / out     RingMasses  of one member, as priority_sums left them
//              prefix      uint64 shared [N]              overwritten
//              drawn       shared, at most kMostRows rows  slot and integer priority of every row
// determinism  bitwise
// capture      safe: no allocation, no host read; the step comes from device memory
// reference    trainer/reference/prioritised_sample.py   test  tests/kernels/test_sample_indices.py
#pragma once

#include "philox.cuh"
#include "prefix_search.cuh"

namespace foxtune {

// Purposes of random numbers, as numbered in trainer/reference/philox.py.
constexpr unsigned int kPurposeSampleOffset = 1u;
constexpr unsigned int kPurposeSampleUniform = 2u;

constexpr int kMostRows = 64;  // rows of one thread block

struct RingMasses {
  const float* priority;    // [C]
  const Mass* group_mass;   // [8 N]
  const Mass* block_mass;   // [N]
  int capacity;             // C
  int blocks;               // N
};

__device__ __forceinline__ RingMasses member_masses(const float* priority, const Mass* group_mass,
                                                    const Mass* block_mass, int capacity, int member) {
  const int blocks = (capacity + kBlock - 1) / kBlock;
  const long long first = static_cast<long long>(member);
  return {priority + first * capacity, group_mass + first * blocks * kGroupsPerBlock, block_mass + first * blocks,
          capacity, blocks};
}

// Rows of one member that a thread block draws.
struct RowRange {
  int first;       // in the batch
  int count;       // at most kMostRows
  int batch_size;  // B
  int multiplier;  // a of the stratum map
};

__device__ __forceinline__ RowRange own_rows(int rows_per_block, int batch_size, int multiplier) {
  const int first = static_cast<int>(blockIdx.x) * rows_per_block;
  return {first, min(rows_per_block, batch_size - first), batch_size, multiplier};
}

struct DrawnRows {
  Mass mass[kMostRows];  // integer priority of the slot; before the search, the position to look for
  int index[kMostRows];
};

__device__ __forceinline__ uint2 member_key(const long long* keys, int member) {
  return make_uint2(static_cast<unsigned int>(keys[2 * member]), static_cast<unsigned int>(keys[2 * member + 1]));
}

__device__ __forceinline__ Mass drawn_position(const RowRange& rows, int row, uint2 key, unsigned int step,
                                               unsigned int offset, Mass total) {
  const Mass stratum =
      (static_cast<Mass>(row) * static_cast<Mass>(rows.multiplier) + offset) % static_cast<Mass>(rows.batch_size);
  const unsigned int word = philox_draw(key, kPurposeSampleUniform, step, static_cast<unsigned int>(row)).x;
  const double u = static_cast<double>(philox_uniform(word));
  const double width = __ddiv_rn(__ull2double_rn(total), static_cast<double>(rows.batch_size));
  return static_cast<Mass>(__double2ll_rz(__dmul_rn(__dadd_rn(static_cast<double>(stratum), u), width)));
}

// Scans the block sums into `prefix`, draws the positions to look for and returns the total mass T. Threads from
// kMostRows on have no position to draw: the caller may give them work of its own before the search.
__device__ __forceinline__ Mass draw_positions(const RingMasses& ring, const RowRange& rows, uint2 key,
                                               unsigned int step, Mass* prefix, DrawnRows& drawn) {
  const int thread = threadIdx.x;
  const Mass total = scan_blocks(ring.block_mass, ring.blocks, prefix);
  if (thread < rows.count) {
    const unsigned int word = philox_draw(key, kPurposeSampleOffset, step, 0u).x;
    const unsigned int offset = philox_integer(word, static_cast<unsigned int>(rows.batch_size));
    drawn.mass[thread] = drawn_position(rows, rows.first + thread, key, step, offset, total);
  }
  return total;
}

// Finds the slots of the drawn positions. `drawn` may be read by every thread afterwards.
__device__ __forceinline__ void search_rows(const RingMasses& ring, const RowRange& rows, const Mass* prefix,
                                            DrawnRows& drawn) {
  __syncthreads();
  for (int row = threadIdx.x / kWarp; row < rows.count; row += kThreads / kWarp) {
    const FoundSlot slot =
        find_slot(drawn.mass[row], prefix, ring.blocks, ring.group_mass, ring.priority, ring.capacity);
    __syncwarp();
    if (threadIdx.x % kWarp == 0) {
      drawn.index[row] = slot.index;
      drawn.mass[row] = slot.mass;
    }
  }
  __syncthreads();
}

}  // namespace foxtune
