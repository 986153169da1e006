// replay_insert: appends a collection of E lanes of L transitions to every member's ring, lane by lane.
//     slot = (written + e L + l) mod C;  bounds += written + e L;  q = priority of the largest |delta| seen so far
// paper        Schaul, Quan, Antonoglou, Silver 2016, Prioritized Experience Replay, algorithm 1, line 6
// launch       grid (ceil(E L / 64), M)  block 256  no dynamic shared; a block owns 64 neighbouring transitions and
//              copies their columns in order, which are neighbours on both sides except where the ring wraps
// compile      PREFIX_DIM P >= 1, NUM_BRANCHES K >= 1
// in / out     from_*   the collection, [M, E L, ...]: prefix, next_prefix float32 [P], bar int32, action uint8 [K],
//                       reward float32, terminated, truncated bool, episode_start, episode_stop int32 (in the lane)
//              to_*     the rings, [M, C, ...], of the same types; episode_start, episode_stop int64 (write positions)
//              priority       float32 [M, C]  out
//              largest_error  float32 [M]
//              per_alpha      float32 [M]
//              written        int64 []  items written before; the caller adds E L afterwards
//              count, length, capacity  int32  E L <= C, L, C
// determinism  bitwise: every slot is written once
// capture      safe: no allocation, no host read; the cursor comes from device memory
// reference    trainer/replay.py   test  tests/kernels/test_replay_insert.py

#include "priority.cuh"

namespace foxtune {

constexpr int kItems = 64;  // transitions of one thread block

// Where a block's transitions come from and go to.
struct ItemRange {
  long long source;    // first item in the collection, counted over all members
  long long ring;      // slot 0 of the member
  int first_slot;      // of the first item
  int count;
  int capacity;

  __device__ __forceinline__ long long target(int item) const {
    const int slot = first_slot + item;
    return ring + (slot < capacity ? slot : slot - capacity);
  }
};

template <int kWidth, typename T>
__device__ __forceinline__ void copy_items(const ItemRange& range, const T* __restrict__ from, T* __restrict__ to) {
  for (int element = threadIdx.x; element < range.count * kWidth; element += blockDim.x) {
    const int item = element / kWidth, column = element % kWidth;
    to[range.target(item) * kWidth + column] = from[range.source * kWidth + element];
  }
}

}  // namespace foxtune

extern "C" __global__ void __launch_bounds__(256)
replay_insert(const float* from_prefix, const float* from_next_prefix, const int* from_bar,
              const unsigned char* from_action, const float* from_reward, const bool* from_terminated,
              const bool* from_truncated, const int* from_episode_start, const int* from_episode_stop,
              float* to_prefix, float* to_next_prefix, int* to_bar, unsigned char* to_action, float* to_reward,
              bool* to_terminated, bool* to_truncated, long long* to_episode_start, long long* to_episode_stop,
              float* priority, const float* largest_error, const float* per_alpha, const long long* written,
              int count, int length, int capacity) {
  using namespace foxtune;
  const int member = blockIdx.y, first = blockIdx.x * kItems;
  const long long cursor = *written;
  ItemRange range;
  range.source = static_cast<long long>(member) * count + first;
  range.ring = static_cast<long long>(member) * capacity;
  range.first_slot = static_cast<int>((cursor + first) % capacity);
  range.count = min(kItems, count - first);
  range.capacity = capacity;
  copy_items<PREFIX_DIM>(range, from_prefix, to_prefix);
  copy_items<PREFIX_DIM>(range, from_next_prefix, to_next_prefix);
  copy_items<NUM_BRANCHES>(range, from_action, to_action);
  const int item = threadIdx.x;
  if (item >= range.count) return;
  const long long source = range.source + item, target = range.target(item);
  const long long lane = cursor + (first + item) / length * length;
  to_bar[target] = from_bar[source];
  to_reward[target] = from_reward[source];
  to_terminated[target] = from_terminated[source];
  to_truncated[target] = from_truncated[source];
  to_episode_start[target] = lane + from_episode_start[source];
  to_episode_stop[target] = lane + from_episode_stop[source];
  priority[target] = priority_of(largest_error[member], per_alpha[member]);
}
