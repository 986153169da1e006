// collection_close: gives the transitions of a finished collection their episode ends and their priority.
//     episode_stop = lane + (1 + the first terminated position at or after this one, else L);
//     q = priority of the largest |delta| seen so far
// paper        Schaul, Quan, Antonoglou, Silver 2016, Prioritized Experience Replay, algorithm 1, line 6
// launch       grid (ceil(E / 4), M)  block 128  no dynamic shared; a warp walks a lane from its end, 32 positions at
//              a time, and finds the next termination in one ballot
// compile      no defines
// in / out     terminated  bool [M, C]  of the rings;  episode_stop  int64 [M, C]  out, write position, exclusive
//              priority    float32 [M, C]  out;  largest_error, per_alpha  float32 [M]
//              written     int64 []  items written before this collection; the caller adds E L afterwards
//              lanes, length, capacity  int32  E, L, C, E L <= C
// determinism  bitwise
// capture      safe: no allocation, no host read
// reference    trainer/collector.py, trainer/replay.py (insert)   test  tests/kernels/test_collection_close.py

#include "priority.cuh"

namespace foxtune {

constexpr int kWarpLanes = 32;
constexpr int kWarpsPerBlock = 4;
constexpr unsigned int kAllThreads = 0xffffffffu;

}  // namespace foxtune

extern "C" __global__ void __launch_bounds__(foxtune::kWarpsPerBlock * foxtune::kWarpLanes)
collection_close(const bool* __restrict__ terminated, long long* __restrict__ episode_stop,
                 float* __restrict__ priority, const float* __restrict__ largest_error,
                 const float* __restrict__ per_alpha, const long long* __restrict__ written, int lanes, int length,
                 int capacity) {
  using namespace foxtune;
  const int member = blockIdx.y, thread = threadIdx.x % kWarpLanes;
  const int lane = blockIdx.x * kWarpsPerBlock + threadIdx.x / kWarpLanes;
  if (lane >= lanes) return;
  const long long ring = static_cast<long long>(member) * capacity;
  const long long begin = *written + static_cast<long long>(lane) * length;
  const float fresh = priority_of(largest_error[member], per_alpha[member]);
  int later_stop = length;  // where the episode behind the present 32 positions ends
  for (int first = (length - 1) / kWarpLanes * kWarpLanes; first >= 0; first -= kWarpLanes) {
    const int at = first + thread;
    const bool inside = at < length;
    const long long slot = ring + (begin + at) % capacity;
    const unsigned int ended = __ballot_sync(kAllThreads, inside && terminated[inside ? slot : ring]);
    const unsigned int ahead = ended >> thread;
    if (inside) {
      episode_stop[slot] = begin + (ahead != 0u ? at + __ffs(ahead) : later_stop);
      priority[slot] = fresh;
    }
    if (ended != 0u) later_stop = first + __ffs(ended);
  }
}
