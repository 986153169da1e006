// sample_indices: B slots per member drawn by priority, one per stratum, with their raw importance weights.
//     index(r) = the smallest slot whose prefix sum exceeds trunc((j_r + u_r)(T / B));  w = (n P)^-beta
// paper        Schaul, Quan, Antonoglou, Silver 2016, Prioritized Experience Replay, section 3.4 and appendix B.2.1;
//              several rows per block, so that the scan of the block sums is paid once for all of them
// launch       grid (ceil(B / rows_per_block), M)  block 256  dynamic shared 8 N bytes; a warp searches a row
// compile      no defines
// in / out     priority        float32 [M, C]
//              group_mass      uint64 [M, 8 N]   of priority_sums, N = ceil(C / 1024)
//              block_mass      uint64 [M, N]
//              written         int64 []          items written since the start
//              keys            int64 [M, 2]      (seed, fold)
//              step            int64 []          gradient step
//              per_beta        float32 [M]
//              total_updates   float32 [M]
//              index           int32 [M, B]      out
//              weight          float32 [M, B]    out, raw; the importance weight is weight / largest_weight
//              largest_weight  int32 [M]         in: 0, out: bits of the largest raw weight
// determinism  bitwise: integer sums; the one atomic is a maximum
// capture      safe: no allocation, no host read; step and counters come from device memory
// reference    trainer/reference/prioritised_sample.py   test  tests/kernels/test_sample_indices.py

#include "importance_weight.cuh"
#include "prioritised_sample.cuh"

extern "C" __global__ void __launch_bounds__(foxtune::kThreads)
sample_indices(const float* __restrict__ priority, const foxtune::Mass* __restrict__ group_mass,
               const foxtune::Mass* __restrict__ block_mass, const long long* __restrict__ written,
               const long long* __restrict__ keys, const long long* __restrict__ step,
               const float* __restrict__ per_beta, const float* __restrict__ total_updates, int* __restrict__ index,
               float* __restrict__ weight, int* __restrict__ largest_weight, int capacity, int batch_size,
               int multiplier, int rows_per_block) {
  using namespace foxtune;
  extern __shared__ Mass prefix[];
  __shared__ DrawnRows drawn;
  const int member = blockIdx.y, thread = threadIdx.x;
  const RingMasses ring = member_masses(priority, group_mass, block_mass, capacity, member);
  const RowRange rows = own_rows(rows_per_block, batch_size, multiplier);
  const uint2 key = member_key(keys, member);
  const Mass total = draw_positions(ring, rows, key, static_cast<unsigned int>(*step), prefix, drawn);
  search_rows(ring, rows, prefix, drawn);
  if (thread / kWarp * kWarp >= rows.count) return;  // whole warps without a row
  float raw = 0.0f;
  if (thread < rows.count) {
    const double beta = annealed_beta(*step, per_beta[member], total_updates[member]);
    raw = importance_weight(drawn.mass[thread], total, min(*written, static_cast<long long>(capacity)), beta);
    const long long at = static_cast<long long>(member) * batch_size + rows.first + thread;
    index[at] = drawn.index[thread];
    weight[at] = raw;
  }
  raise_largest(largest_weight + member, raw);
}
